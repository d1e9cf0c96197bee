// Notices an answer that goes in circles, as greedy decoding of this model is known to do.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "models/models.h"

namespace sightline {

class LoopDetector {
 public:
  explicit LoopDetector(const LocateTokens& tokens) : tokens_(tokens) {}

  // True when `id`, the next token of the answer, closes the third equal box of one label, or ends a run of at least 48
  // tokens, and of three rounds, that repeat with a period of at most 32.
  bool Add(TokenId id);

 private:
  static constexpr size_t kLongestPeriod = 32;
  static constexpr size_t kRun = 48;
  static constexpr int kEqualBoxes = 3;

  bool ClosesEqualBox(TokenId id);
  bool EndsRun(TokenId id);

  LocateTokens tokens_;
  std::vector<TokenId> answer_;
  std::array<size_t, kLongestPeriod + 1> repeated_{};  // how many last tokens equal the one a period before them
  enum class Inside { kNothing, kLabel, kBox } inside_ = Inside::kNothing;
  std::vector<TokenId> label_, box_;
  std::map<std::pair<std::vector<TokenId>, std::vector<TokenId>>, int> boxes_;
};

}  // namespace sightline
