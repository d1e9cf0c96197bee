#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

// Byte-pair encoding (Sennrich, Haddow, Birch 2016, arXiv 1508.07909) over bytes: as long as two neighbours have a
// merge, the one of lowest rank, leftmost first, is done.
class BytePairs {
 public:
  // Room for that many merges.
  explicit BytePairs(size_t merges = 0);
  // Token of every byte.
  void SetByte(uint8_t byte, TokenId id) { bytes_[byte] = id; }
  // Ranks grow with each call. False when the pair has a merge already.
  bool AddMerge(TokenId left, TokenId right, TokenId merged);

  // Appends the tokens of a word. Time n log n, memory linear.
  void Encode(std::string_view word, std::vector<TokenId>* ids) const;

 private:
  struct Merge {
    TokenId left = 0, right = 0;
    uint32_t rank = 0;
    TokenId merged = -1;  // free
  };
  // The slot of a pair, or the free one where it belongs.
  size_t Place(TokenId left, TokenId right) const;
  class Word;

  std::array<TokenId, 256> bytes_ = {};
  std::vector<Merge> slots_;  // hash table with open addressing: a power of two, at most half full
  uint32_t merges_ = 0;
};

}  // namespace sightline
