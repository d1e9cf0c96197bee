// Layout of packed files; all numbers little endian.
//
//   0   magic, 8 bytes: name of the format and its version
//   8   SHA-256 of the header from byte 72 on, 64 lower-case digits
//   72  u64 size of the header, a multiple of 4096; u64 size of the file
//   88  SHA-256 of everything behind the header, 64 lower-case digits
//   152 text key; u64 number of entries; per entry: text name; text layout; u32 rank; i64 dimensions; u64 offset in the
//       file, a multiple of 4096; u64 size.  Text is a u32 length and the bytes.  Zeros up to the size of the header.
#pragma once

#include <cstddef>
#include <string_view>

namespace sightline {

inline constexpr std::string_view kPackedMagicName = "SLPACK", kPackedMagic = "SLPACK01";
inline constexpr size_t kPackedDigestBytes = 64;
inline constexpr size_t kPackedDigestedFrom = 8 + kPackedDigestBytes;
inline constexpr size_t kPackedAlignment = 4096;

}  // namespace sightline
