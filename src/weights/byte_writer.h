// Building of little-endian binary formats.
#pragma once

#include <bit>
#include <string>
#include <string_view>
#include <type_traits>

namespace sightline {

// Bytes of a binary format, put together piece by piece.
class ByteWriter {
 public:
  template <typename Integer>
  ByteWriter& Put(Integer value) {
    static_assert(std::endian::native == std::endian::little);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ByteWriter& Text(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace sightline
