#include "text/text_index.h"

#include <bit>
#include <functional>

namespace sightline {

TextIndex::TextIndex(size_t texts) : slots_(std::bit_ceil(2 * texts + 1)) {}

size_t TextIndex::Place(std::string_view text, uint32_t hash) const {
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at].id >= 0 && (slots_[at].hash != hash || slots_[at].text != text))
    at = (at + 1) & (slots_.size() - 1);
  return at;
}

bool TextIndex::Add(std::string_view text, TokenId id) {
  const auto hash = static_cast<uint32_t>(std::hash<std::string_view>()(text));
  Slot& slot = slots_[Place(text, hash)];
  if (slot.id >= 0) return false;
  slot = {text, id, hash};
  return true;
}

std::optional<TokenId> TextIndex::Find(std::string_view text) const {
  const Slot& slot = slots_[Place(text, static_cast<uint32_t>(std::hash<std::string_view>()(text)))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

}  // namespace sightline
