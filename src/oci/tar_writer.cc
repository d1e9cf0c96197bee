#include "oci/tar_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "oci/blob.h"

namespace sightline {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kMaxOctalSize = 077777777777;  // eleven digits

// Offsets and lengths of the fields of a header.
struct Field {
  size_t offset, length;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12}, kTime{136, 12},
    kChecksum{148, 8}, kTarget{157, 100}, kMagic{257, 8};
constexpr size_t kType = 156;

using Block = std::array<char, kBlock>;

void PutText(Block* block, Field field, std::string_view text) {
  std::copy_n(text.data(), std::min(text.size(), field.length), block->data() + field.offset);
}

void PutOctal(Block* block, Field field, uint64_t value) {
  PutText(block, field, fmt::format("{:0{}o}", value, field.length - 1));
}

void PutChecksum(Block* block) {
  PutText(block, kChecksum, "        ");
  unsigned sum = 0;
  for (const char c : *block) sum += static_cast<unsigned char>(c);
  PutText(block, kChecksum, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

// "30 path=...\n": the number counts itself.
std::string PaxRecord(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (length != rest + std::to_string(length).size()) length = rest + std::to_string(length).size();
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

Status TarWriter::Pad(uint64_t size) {
  static constexpr Block zeros{};
  const size_t over = size % kBlock;
  return over == 0 ? Status() : sink_(std::as_bytes(std::span(zeros).first(kBlock - over)));
}

Status TarWriter::Header(const std::string& name, char type, uint64_t size, unsigned mode, const std::string& target) {
  std::string records;
  if (name.size() > kName.length) records += PaxRecord("path", name);
  if (target.size() > kTarget.length) records += PaxRecord("linkpath", target);
  if (size > kMaxOctalSize) records += PaxRecord("size", std::to_string(size));
  if (!records.empty()) {
    SIGHTLINE_RETURN_IF_ERROR(Header("PaxHeaders/" + name.substr(0, 80), 'x', records.size(), 0644, {}));
    SIGHTLINE_RETURN_IF_ERROR(sink_(AsBytes(records)));
    SIGHTLINE_RETURN_IF_ERROR(Pad(records.size()));
  }
  Block block{};
  PutText(&block, kName, name);
  PutOctal(&block, kMode, mode);
  PutOctal(&block, kUid, 0);
  PutOctal(&block, kGid, 0);
  PutOctal(&block, kSize, size > kMaxOctalSize ? 0 : size);
  PutOctal(&block, kTime, 0);
  block[kType] = type;
  PutText(&block, kTarget, target);
  PutText(&block, kMagic, std::string_view("ustar\00000", 8));
  PutChecksum(&block);
  return sink_(std::as_bytes(std::span(block)));
}

Status TarWriter::Folder(const std::string& name) { return Header(name + "/", '5', 0, 0755, {}); }

Status TarWriter::Link(const std::string& name, const std::string& target) {
  return Header(name, '2', 0, 0777, target);
}

Status TarWriter::Content(const std::string& name, std::string_view content) {
  SIGHTLINE_RETURN_IF_ERROR(Header(name, '0', content.size(), 0644, {}));
  SIGHTLINE_RETURN_IF_ERROR(sink_(AsBytes(content)));
  return Pad(content.size());
}

Status TarWriter::File(const std::string& name, const std::filesystem::path& path, uint64_t size, bool executable,
                       const std::function<Status(uint64_t bytes)>& progress) {
  SIGHTLINE_RETURN_IF_ERROR(Header(name, '0', size, executable ? 0755 : 0644, {}));
  uint64_t left = size;
  const auto changed = Fail(Code::kInvalidRequest, fmt::format("{}: changed while it was read", path.string()));
  const auto copy = [&](std::span<const std::byte> bytes) -> Status {
    if (bytes.size() > left) return changed;
    left -= bytes.size();
    SIGHTLINE_RETURN_IF_ERROR(sink_(bytes));
    return progress ? progress(bytes.size()) : Status();
  };
  SIGHTLINE_RETURN_IF_ERROR(ReadPieces(path, copy));
  return left == 0 ? Pad(size) : Status(changed);
}

Status TarWriter::End() {
  static constexpr std::array<char, 2 * kBlock> zeros{};
  return sink_(std::as_bytes(std::span(zeros)));
}

}  // namespace sightline
