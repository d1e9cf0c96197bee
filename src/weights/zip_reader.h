// Zip archives with stored entries. Format: PKWARE APPNOTE.TXT 6.3.9, sections 4.3 and 4.5.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  uint32_t crc32 = 0;  // 0: the writer recorded none
};

// The entries in directory order; views into `file`. Every entry lies inside the file, overlaps no other, is stored
// plain and has a name of its own, the same in the directory and in front of its content.
Result<std::vector<ZipEntry>> ReadZip(std::span<const std::byte> file, std::string_view source);

// CRC-32 of zip archives.
uint32_t ZipCrc32(std::span<const std::byte> bytes);

}  // namespace sightline
