#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

// Texts to ids: a hash table with open addressing, several times faster to fill than std::unordered_map, which is most
// of the time it takes to load a tokenizer. Keys are views into memory of the caller.
class TextIndex {
 public:
  // Room for that many texts.
  explicit TextIndex(size_t texts);
  // False when the text is there already.
  bool Add(std::string_view text, TokenId id);
  std::optional<TokenId> Find(std::string_view text) const;

 private:
  struct Entry {
    std::string_view text;
    TokenId id;
  };
  // Small, so that the table stays in the processor's cache.
  struct Slot {
    uint32_t hash = 0;
    int32_t entry = -1;  // free
  };
  // The slot of `text`, or the free one where it belongs.
  size_t Place(std::string_view text, uint32_t hash) const;

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
  std::vector<Entry> entries_;
};

}  // namespace sightline
