#include "text/text_index.h"

#include <bit>
#include <functional>

namespace sightline {

TextIndex::TextIndex(size_t texts) : slots_(std::bit_ceil(texts + texts / 2 + 1)) { entries_.reserve(texts); }

size_t TextIndex::Place(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].entry >= 0 &&
         (slots_[at].hash != hash || entries_[static_cast<size_t>(slots_[at].entry)].text != text)) {
    at = (at + 1) & mask;
  }
  return at;
}

bool TextIndex::Add(std::string_view text, TokenId id) {
  const auto hash = static_cast<uint32_t>(std::hash<std::string_view>()(text));
  Slot& slot = slots_[Place(text, hash)];
  if (slot.entry >= 0) return false;
  slot = {hash, static_cast<int32_t>(entries_.size())};
  entries_.push_back({text, id});
  SIGHTLINE_CHECK(entries_.size() < slots_.size());
  return true;
}

std::optional<TokenId> TextIndex::Find(std::string_view text) const {
  const Slot& slot = slots_[Place(text, static_cast<uint32_t>(std::hash<std::string_view>()(text)))];
  if (slot.entry < 0) return std::nullopt;
  return entries_[static_cast<size_t>(slot.entry)].id;
}

}  // namespace sightline
