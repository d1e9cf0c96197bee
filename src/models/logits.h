// From a row of logits to probabilities and a token: the processing of the official sample_tokens (generate_utils.py),
// then an exact softmax.
#pragma once

#include <span>
#include <vector>

#include "models/models.h"

namespace sightline {

// The distinct ids of prompt and answer, which the repetition penalty is for.
class SeenTokens {
 public:
  explicit SeenTokens(int vocabulary) : seen_(static_cast<size_t>(vocabulary), false) {}

  void Add(TokenId id);
  std::span<const TokenId> ids() const { return ids_; }

 private:
  std::vector<bool> seen_;
  std::vector<TokenId> ids_;
};

// Penalty, temperature, nucleus and top-k in place. What is left out becomes minus infinity. Where equal logits stand
// on both sides of the nucleus's end, the lower ids are kept.
void ProcessLogits(std::span<float> row, std::span<const TokenId> seen, const SamplingOptions& options);

// Softmax of a processed row, which must outlive it. Among equals the lower id comes first. A probability that rounds
// to zero in float32 is zero: such a token is never chosen.
class Distribution {
 public:
  explicit Distribution(std::span<const float> logits);

  bool valid() const { return valid_; }  // every logit is a number or minus infinity, and one is a number
  double Of(TokenId id) const;
  TokenId best() const { return best_; }
  // The `count` most probable tokens, most probable first; those of probability zero are left out.
  std::vector<TokenId> Most(size_t count) const;
  // The token whose part of [0, 1) holds `uniform` when all probabilities lie side by side in the order of the ids.
  TokenId At(double uniform) const;

 private:
  std::span<const float> logits_;
  std::vector<float> block_largest_;  // of each kBlock logits in turn, so that most of them need no second look
  TokenId best_ = 0;
  float largest_ = 0;
  double sum_ = 0;  // of exp(logit - largest_)
  bool valid_ = false;
};

// SplitMix64.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : state_(seed) {}
  double Uniform();  // in [0, 1), 53 bits

 private:
  uint64_t state_;
};

}  // namespace sightline
