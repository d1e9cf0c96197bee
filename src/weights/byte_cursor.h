// Bounded reading of little-endian binary formats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace sightline {

// Walks over bytes it does not own. Every step says whether it stayed inside; a failed step moves nothing.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  bool Take(uint64_t count, std::span<const std::byte>* out) {
    if (count > remaining()) return false;
    *out = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return true;
  }
  bool Take(uint64_t count, std::string_view* out) {
    std::span<const std::byte> bytes;
    if (!Take(count, &bytes)) return false;
    *out = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }
  template <typename... Integers>
  requires(std::is_integral_v<Integers>&&...) bool Read(Integers*... values) {
    if ((sizeof(Integers) + ...) > remaining()) return false;
    (ReadOne(values), ...);
    return true;
  }

 private:
  template <typename Integer>
  void ReadOne(Integer* value) {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(value, bytes_.data() + position_, sizeof(Integer));
    position_ += sizeof(Integer);
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace sightline
