// PackedFile over any bytes; the digest of the header is made right first, so that the table behind it is read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "weights/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  constexpr size_t kDigestAt = 8, kDigestedFrom = 72, kHeaderSizeAt = 72, kFileSizeAt = 80;
  std::vector<std::byte> bytes(std::max<size_t>(size, 4096));
  std::transform(data, data + size, bytes.begin(), [](uint8_t byte) { return static_cast<std::byte>(byte); });
  if (size % 8 != 0) {  // some inputs stay as they are
    bytes.resize((bytes.size() + 4095) / 4096 * 4096);
    std::ranges::copy(AsBytes("SLPACK01"), bytes.begin());
    const uint64_t file_size = bytes.size(), header_size = 4096;
    std::ranges::copy(std::as_bytes(std::span(&header_size, 1)), bytes.begin() + kHeaderSizeAt);
    std::ranges::copy(std::as_bytes(std::span(&file_size, 1)), bytes.begin() + kFileSizeAt);
    const std::string digest = Sha256Hex(std::span(bytes).first(header_size).subspan(kDigestedFrom));
    std::ranges::copy(AsBytes(digest), bytes.begin() + kDigestAt);
  }
  const auto file = PackedFile::FromBytes(bytes, nullptr, "x.packed");
  if (!file) return 0;
  static_cast<void>(file->Verify());
  for (const PackedFile::Entry& entry : file->entries()) {
    if (file->Find(entry.name) == nullptr) std::abort();
    if (!entry.bytes.empty() &&
        (entry.bytes.data() < bytes.data() || entry.bytes.data() + entry.bytes.size() > bytes.data() + bytes.size())) {
      std::abort();
    }
  }
  return 0;
}
