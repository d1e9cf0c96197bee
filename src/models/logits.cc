#include "models/logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace sightline {
namespace {

constexpr float kLeftOut = -std::numeric_limits<float>::infinity();
// Below this a float32 probability is zero.
constexpr double kSmallestProbability = 0x1p-150;
// exp(-60) times any vocabulary is below the last bit of a sum of at least 1.
constexpr float kNegligible = 60;
// Logits that are looked at together. A constant count is what lets compilers use vector instructions here.
constexpr size_t kBlock = 64;
using LogitBlock = std::span<const float, kBlock>;

struct Candidate {
  float logit;
  TokenId id;
  double probability;
};

bool ComesBefore(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

float Penalised(float logit, float penalty) { return logit > 0 ? logit / penalty : logit * penalty; }

// ---- whole rows

// Calls body(block) for all of `row` in turn, the last block filled up with minus infinity.
template <typename Body>
void ForBlocks(std::span<const float> row, Body&& body) {
  size_t first = 0;
  for (; first + kBlock <= row.size(); first += kBlock) body(row.subspan(first).first<kBlock>());
  if (first == row.size()) return;
  std::array<float, kBlock> rest;
  rest.fill(kLeftOut);
  std::ranges::copy(row.subspan(first), rest.begin());
  body(LogitBlock(rest));
}

// NaN is passed over.
float LargestOf(LogitBlock block) {
  std::array<float, 8> largest;
  largest.fill(kLeftOut);
  for (size_t i = 0; i < kBlock; i += largest.size()) {
    for (size_t lane = 0; lane < largest.size(); ++lane) {
      largest[lane] = block[i + lane] > largest[lane] ? block[i + lane] : largest[lane];
    }
  }
  return std::ranges::max(largest);
}

bool HoldsNaN(LogitBlock block) {
  int nan = 0;
  for (size_t i = 0; i < kBlock; ++i) nan |= block[i] != block[i] ? 1 : 0;
  return nan != 0;
}

// exp(x) for x <= 0 to a relative error of 1e-6 (1e-7 near 0): 2^n times a polynomial for the rest of x / log(2), whose
// coefficients are log(2)^k / k!.
float ExpOfNegative(float x) {
  const float power = (x > -kNegligible ? x : -kNegligible) * 1.44269504f;
  const auto n = static_cast<int32_t>(power - 0.5f);
  const float f = power - static_cast<float>(n);
  const float fraction =
      1 +
      f * (0.693147181f + f * (0.240226507f + f * (0.0555041087f +
                                                   f * (0.00961812911f + f * (0.00133335581f + f * 0.000154035304f)))));
  return fraction * std::bit_cast<float>((n + 127) << 23);
}

double SumOfExp(LogitBlock block, float largest) {
  std::array<float, 8> sums{};
  for (size_t i = 0; i < kBlock; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += ExpOfNegative(block[i + lane] - largest);
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// ---- nucleus

// Parts of the range of logits that the nucleus is looked for in.
constexpr int32_t kBins = 4096;

// Equal parts of the range from the largest logit down to the least one that is not negligible.
class Bins {
 public:
  Bins(std::span<const float> row, float largest) : largest_(largest), least_(largest) {
    for (const float logit : row) {
      if (logit > largest - kNegligible && logit < least_) least_ = logit;
    }
    const float range = largest_ - least_;
    if (range > 1e-6f) bins_of_unit_ = static_cast<float>(kBins) / range;
  }

  bool Hold(float logit) const { return logit >= least_; }
  size_t Of(float logit) const {
    return static_cast<size_t>(std::min(kBins - 1, static_cast<int32_t>((largest_ - logit) * bins_of_unit_)));
  }

 private:
  float largest_, least_;
  float bins_of_unit_ = 0;
};

// The candidate with which `before` and the probabilities, most probable first, exceed `top_p`; the last one when
// rounding keeps them from that. Only the half that holds the answer is divided further.
Candidate LastInNucleus(std::vector<Candidate> candidates, double before, double top_p) {
  const auto [least, most] = std::ranges::minmax(candidates, {}, &Candidate::logit);
  if (least.logit == most.logit) {
    // They are in the order of their ids. Many equals are common: bfloat16 has few numbers.
    const auto fitting = static_cast<size_t>((top_p - before) / least.probability);
    return candidates[std::min(fitting, candidates.size() - 1)];
  }
  std::span<Candidate> part = candidates;
  while (part.size() > 1) {
    const size_t half = part.size() / 2;
    std::ranges::nth_element(part, part.begin() + static_cast<std::ptrdiff_t>(half), ComesBefore);
    double leading = before;
    for (const Candidate& candidate : part.first(half)) leading += candidate.probability;
    if (leading <= top_p) before = leading;
    part = leading > top_p ? part.first(half) : part.subspan(half);
  }
  return part.front();
}

// The last token that the nucleus keeps; none when all together stay within `top_p`.
std::optional<Candidate> LastInNucleus(std::span<const float> row, const Distribution& all, double top_p) {
  const float largest = row[static_cast<size_t>(all.best())];
  const Bins bins(row, largest);
  std::vector<double> sums(kBins);
  std::vector<size_t> counts(kBins);
  const double most = all.Of(all.best());
  for (const float logit : row) {
    if (!bins.Hold(logit)) continue;
    const size_t bin = bins.Of(logit);
    sums[bin] += most * ExpOfNegative(logit - largest);
    ++counts[bin];
  }
  double before = 0;
  size_t last = 0;
  while (last < sums.size() && before + sums[last] <= top_p) before += sums[last++];
  if (last == sums.size()) return std::nullopt;
  std::vector<Candidate> candidates;
  candidates.reserve(counts[last]);
  for (size_t i = 0; i < row.size(); ++i) {
    if (!bins.Hold(row[i]) || bins.Of(row[i]) != last) continue;
    candidates.push_back({row[i], static_cast<TokenId>(i), most * ExpOfNegative(row[i] - largest)});
  }
  return LastInNucleus(std::move(candidates), before, top_p);
}

void KeepNucleus(std::span<float> row, double top_p) {
  const Distribution all(row);
  if (!all.valid()) return;
  const auto last = LastInNucleus(row, all, top_p);
  if (!last) return;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] < last->logit || (row[i] == last->logit && static_cast<TokenId>(i) > last->id)) row[i] = kLeftOut;
  }
}

// ---- the largest

// The `count`-th largest.
float NthLargest(std::vector<float>& values, size_t count) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::ranges::nth_element(values, place, std::greater());
  return *place;
}

// Of the largest of each block, the `count`-th largest has `count` logits that are not less: what is less is out.
float LeastPossible(std::span<const float> row, size_t count) {
  std::vector<float> largest;
  ForBlocks(row, [&](LogitBlock block) { largest.push_back(LargestOf(block)); });
  return count <= largest.size() ? NthLargest(largest, count) : kLeftOut;
}

void KeepLargest(std::span<float> row, size_t count) {
  const float least = LeastPossible(row, count);
  std::vector<float> logits;
  std::ranges::copy_if(row, std::back_inserter(logits),
                       [=](float logit) { return logit > kLeftOut && logit >= least; });
  const float last = logits.size() <= count ? least : NthLargest(logits, count);
  for (float& logit : row) {
    if (logit < last) logit = kLeftOut;
  }
}

}  // namespace

void SeenTokens::Add(TokenId id) {
  if (id < 0 || static_cast<size_t>(id) >= seen_.size() || seen_[static_cast<size_t>(id)]) return;
  seen_[static_cast<size_t>(id)] = true;
  ids_.push_back(id);
}

void ProcessLogits(std::span<float> row, std::span<const TokenId> seen, const SamplingOptions& options) {
  if (options.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(options.repetition_penalty);
    for (const TokenId id : seen) {
      float& logit = row[static_cast<size_t>(id)];
      logit = Penalised(logit, penalty);
    }
  }
  if (options.temperature > 0) {
    const auto temperature = static_cast<float>(options.temperature);
    for (float& logit : row) logit /= temperature;
  }
  if (options.top_p < 1) KeepNucleus(row, options.top_p);
  if (options.top_k > 0) KeepLargest(row, static_cast<size_t>(options.top_k));
}

Distribution::Distribution(std::span<const float> logits) : logits_(logits) {
  bool nan = false;
  block_largest_.reserve(logits_.size() / kBlock + 1);
  ForBlocks(logits_, [&](LogitBlock block) {
    block_largest_.push_back(LargestOf(block));
    nan |= HoldsNaN(block);
  });
  const auto block = std::ranges::max_element(block_largest_);
  largest_ = *block;
  valid_ = !nan && std::isfinite(largest_);
  if (!valid_) return;
  const auto first = logits_.begin() + (block - block_largest_.begin()) * static_cast<std::ptrdiff_t>(kBlock);
  best_ = static_cast<TokenId>(std::find(first, logits_.end(), largest_) - logits_.begin());
  ForBlocks(logits_, [&](LogitBlock values) { sum_ += SumOfExp(values, largest_); });
}

double Distribution::Of(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= logits_.size()) return 0;
  const double probability = std::exp(static_cast<double>(logits_[static_cast<size_t>(id)]) - largest_) / sum_;
  return probability > kSmallestProbability ? probability : 0;
}

std::vector<TokenId> Distribution::Most(size_t count) const {
  std::vector<Candidate> most;
  for (size_t block = 0; block < block_largest_.size(); ++block) {
    if (most.size() == count && block_largest_[block] <= most.back().logit) continue;
    for (size_t i = block * kBlock; i < std::min((block + 1) * kBlock, logits_.size()); ++i) {
      if (most.size() == count && logits_[i] <= most.back().logit) continue;
      if (most.size() == count) most.pop_back();
      const Candidate candidate{logits_[i], static_cast<TokenId>(i), 0};
      most.insert(std::ranges::upper_bound(most, candidate, ComesBefore), candidate);
    }
  }
  std::vector<TokenId> ids;
  for (const Candidate& candidate : most) {
    if (Of(candidate.id) > 0) ids.push_back(candidate.id);
  }
  return ids;
}

TokenId Distribution::At(double uniform) const {
  double left = uniform * sum_;
  for (size_t id = 0; id < logits_.size(); ++id) {
    if (logits_[id] <= largest_ - kNegligible) continue;
    left -= ExpOfNegative(logits_[id] - largest_);
    if (left < 0) return static_cast<TokenId>(id);
  }
  return best_;
}

double RandomNumbers::Uniform() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

}  // namespace sightline
