#include <fmt/format.h>

#include <algorithm>

#include "weights/byte_cursor.h"
#include "weights/checkpoint_formats.h"
#include "weights/packed_format.h"
#include "weights/weights.h"

namespace sightline {
namespace {

struct Header {
  uint64_t header_bytes = 0, file_bytes = 0;
  std::string_view payload_digest, key;
  std::vector<PackedFile::Entry> entries;
};

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, std::string_view source) : bytes_(bytes), source_(source) {}

  Result<Header> Read() const {
    ByteCursor cursor(bytes_);
    std::string_view magic, digest;
    Header header;
    if (!cursor.Take(kPackedMagic.size(), &magic) || !magic.starts_with(kPackedMagicName)) {
      return Corrupt(source_, "is no packed weight file");
    }
    if (magic != kPackedMagic) {
      return Fail(Code::kNotFound,
                  fmt::format("{} has format {}, expected {}", source_, Printable(magic), kPackedMagic));
    }
    if (!cursor.Take(kPackedDigestBytes, &digest) || !cursor.Read(&header.header_bytes, &header.file_bytes)) {
      return Damaged();
    }
    if (header.file_bytes != bytes_.size()) {
      return Corrupt(source_, fmt::format("has {} bytes, expected {}; the file is cut short or damaged", bytes_.size(),
                                          header.file_bytes));
    }
    if (header.header_bytes > header.file_bytes || header.header_bytes % kPackedAlignment != 0 ||
        header.header_bytes < kPackedAlignment || digest != Sha256Hex(DigestedPart(header))) {
      return Damaged();
    }
    if (!ReadTable(&header)) return Damaged();
    return header;
  }

 private:
  tl::unexpected<Error> Damaged() const { return Corrupt(source_, "has a damaged header"); }

  std::span<const std::byte> DigestedPart(const Header& header) const {
    return bytes_.first(static_cast<size_t>(header.header_bytes)).subspan(kPackedDigestedFrom);
  }

  bool ReadTable(Header* header) const {
    ByteCursor cursor(DigestedPart(*header));
    uint64_t count = 0;
    std::span<const std::byte> sizes;
    if (!cursor.Take(2 * sizeof(uint64_t), &sizes) || !cursor.Take(kPackedDigestBytes, &header->payload_digest) ||
        !ReadText(cursor, &header->key) || !cursor.Read(&count)) {
      return false;
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (!ReadEntry(cursor, *header, &header->entries.emplace_back())) return false;
    }
    return true;
  }

  static bool ReadText(ByteCursor& cursor, std::string_view* text) {
    uint32_t size = 0;
    return cursor.Read(&size) && cursor.Take(size, text);
  }

  bool ReadEntry(ByteCursor& cursor, const Header& header, PackedFile::Entry* entry) const {
    std::string_view name, layout;
    uint32_t rank = 0;
    uint64_t offset = 0, size = 0;
    if (!ReadText(cursor, &name) || !ReadText(cursor, &layout) || !cursor.Read(&rank) || rank > kMaxRank) return false;
    entry->name = name;
    entry->layout = layout;
    entry->shape.resize(rank);
    for (int64_t& dimension : entry->shape) {
      if (!cursor.Read(&dimension)) return false;
    }
    if (!cursor.Read(&offset, &size) || offset < header.header_bytes || offset % kPackedAlignment != 0 ||
        offset > header.file_bytes || size > header.file_bytes - offset) {
      return false;
    }
    entry->bytes = bytes_.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
    return true;
  }

  std::span<const std::byte> bytes_;
  std::string_view source_;
};

}  // namespace

struct PackedFile::State {
  std::span<const std::byte> payload;
  std::shared_ptr<const void> owner;
  std::filesystem::path path;
  std::string key, payload_digest;
  std::vector<Entry> entries;
};

Result<PackedFile> PackedFile::Open(const std::filesystem::path& path, std::string_view key) {
  SIGHTLINE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  SIGHTLINE_ASSIGN_OR_RETURN(PackedFile packed, FromBytes(file.bytes(), file.owner(), path));
  if (packed.key() == key) return packed;
  return Fail(Code::kNotFound,
              fmt::format("{} was packed for {}, expected {}", path.string(), Printable(packed.key()), Printable(key)));
}

Result<PackedFile> PackedFile::FromBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                         std::filesystem::path path) {
  SIGHTLINE_ASSIGN_OR_RETURN(Header header, HeaderReader(bytes, path.string()).Read());
  auto state = std::make_shared<State>();
  state->payload = bytes.subspan(static_cast<size_t>(header.header_bytes));
  state->owner = std::move(owner);
  state->path = std::move(path);
  state->key = header.key;
  state->payload_digest = header.payload_digest;
  state->entries = std::move(header.entries);
  PackedFile packed;
  packed.state_ = std::move(state);
  return packed;
}

const PackedFile::Entry* PackedFile::Find(std::string_view name) const {
  const auto found = std::ranges::find(state_->entries, name, &Entry::name);
  return found == state_->entries.end() ? nullptr : &*found;
}

const std::vector<PackedFile::Entry>& PackedFile::entries() const { return state_->entries; }
const std::string& PackedFile::key() const { return state_->key; }
const std::filesystem::path& PackedFile::path() const { return state_->path; }
std::shared_ptr<const void> PackedFile::owner() const { return state_->owner; }

Status PackedFile::Verify() const {
  if (Sha256Hex(state_->payload) == state_->payload_digest) return {};
  return Corrupt(state_->path.string(), "does not have the SHA-256 that its header says; the file is damaged");
}

Status VerifyPackedFiles(const std::filesystem::path& folder,
                         FunctionRef<void(const std::filesystem::path&, const Status&)> report) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  std::filesystem::recursive_directory_iterator at(folder, error), end;
  for (; !error && at != end; at.increment(error)) {
    if (at->path().extension() == kPackedExtension) paths.push_back(at->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return tl::make_unexpected(ErrnoError("list", folder, error.value()));
  }
  std::ranges::sort(paths);
  for (const std::filesystem::path& path : paths) {
    Status status;
    if (const auto file = MappedFile::Open(path); !file) {
      status = tl::make_unexpected(file.error());
    } else if (const auto packed = PackedFile::FromBytes(file->bytes(), file->owner(), path); !packed) {
      status = tl::make_unexpected(packed.error());
    } else {
      status = packed->Verify();
    }
    report(path, status);
  }
  return {};
}

}  // namespace sightline
