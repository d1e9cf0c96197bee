// Unpacking archives from strangers.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "oci/blob.h"
#include "oci/decompressor.h"
#include "oci/member_tree.h"
#include "oci/tree.h"

namespace sightline {
namespace {

std::string Text(const char* utf8, const char* bytes) {
  if (utf8 != nullptr) return utf8;
  return bytes == nullptr ? "" : bytes;
}

tl::unexpected<Error> Refuse(const std::string& name, std::string_view why) {
  return Fail(Code::kInvalidRequest, fmt::format("archive member {}: {}", name, why));
}

// One archive on its way into a folder. One thread.
class Unpacker {
 public:
  Unpacker(Decompressor* stream, const UnpackLimits& limits)
      : stream_(stream), limits_(limits), reader_(archive_read_new(), archive_read_free) {}

  Result<UnpackReport> Run(const std::filesystem::path& folder) {
    SIGHTLINE_ASSIGN_OR_RETURN(MemberTree tree, MemberTree::Open(folder));
    SIGHTLINE_RETURN_IF_ERROR(OpenArchive());
    archive_entry* entry = nullptr;
    while (true) {
      const int result = archive_read_next_header(reader_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return tl::make_unexpected(Broken());
      if (++report_.entries > limits_.max_entries) {
        return Fail(Code::kInvalidRequest, fmt::format("archive: has more than {} members", limits_.max_entries));
      }
      SIGHTLINE_RETURN_IF_ERROR(Unpack(entry, &tree));
    }
    SIGHTLINE_RETURN_IF_ERROR(stream_->Finish());
    report_.digest = stream_->PackedDigest();
    report_.plain_digest = stream_->PlainDigest();
    return report_;
  }

 private:
  Status OpenArchive() {
    archive* reader = reader_.get();
    if (reader == nullptr) return Fail(Code::kOutOfMemory, "archive: there is no memory to read it");
    archive_read_support_format_tar(reader);
    archive_read_support_format_empty(reader);
    const auto read = [](archive* of, void* self, const void** bytes) -> la_ssize_t {
      auto& unpacker = *static_cast<Unpacker*>(self);
      const auto piece = unpacker.stream_->Read();
      if (piece) {
        *bytes = piece->data();
        return static_cast<la_ssize_t>(piece->size());
      }
      unpacker.failure_ = tl::make_unexpected(piece.error());
      archive_set_error(of, EIO, "the source failed");
      return ARCHIVE_FATAL;
    };
    if (archive_read_open(reader, this, nullptr, read, nullptr) == ARCHIVE_OK) return {};
    return tl::make_unexpected(Broken());
  }

  Error Broken() const {
    if (!failure_) return failure_.error();
    const char* said = archive_error_string(reader_.get());
    return Error{Code::kInvalidRequest,
                 fmt::format("archive: is no tar archive, or damaged: {}", said == nullptr ? "unknown" : said),
                 {}};
  }

  Status Unpack(archive_entry* entry, MemberTree* tree) {
    const std::string name = Text(archive_entry_pathname_utf8(entry), archive_entry_pathname(entry));
    SIGHTLINE_ASSIGN_OR_RETURN(const auto parts, CheckMemberName(name, limits_.max_depth));
    const auto mode = static_cast<unsigned>(archive_entry_perm(entry));
    const std::string hard_link = Text(archive_entry_hardlink_utf8(entry), archive_entry_hardlink(entry));
    if (!hard_link.empty()) return UnpackHardLink(name, parts, hard_link, tree);
    switch (archive_entry_filetype(entry)) {
      case AE_IFDIR:
        return tree->MakeFolder(parts, mode);
      case AE_IFREG:
        return UnpackFile(entry, name, parts, mode, tree);
      case AE_IFLNK:
        return UnpackLink(name, parts, Text(archive_entry_symlink_utf8(entry), archive_entry_symlink(entry)), tree);
      default:
        return Refuse(name, "is a device, a pipe or a socket");
    }
  }

  Status UnpackHardLink(const std::string& name, const MemberTree::Parts& parts, const std::string& target,
                        MemberTree* tree) {
    const auto target_parts = CheckMemberName(target, limits_.max_depth);
    if (!target_parts)
      return Refuse(name, "is a hard link that leads out of its folder: " + target_parts.error().message);
    return tree->MakeHardLink(parts, *target_parts);
  }

  // A link may go up only at its beginning: from the folder it lies in, which is a real one, that leads to a real
  // folder, and by no more steps than there are above it. Behind other names ".." could start from wherever a link has
  // led.
  Status UnpackLink(const std::string& name, const MemberTree::Parts& parts, const std::string& target,
                    MemberTree* tree) {
    if (target.empty()) return Refuse(name, "is a link to nothing");
    if (target.front() == '/') return Refuse(name, "is a link to the absolute name " + target);
    size_t ups = 0;
    bool below = false;
    for (const auto& step : std::filesystem::path(target)) {
      if (step == "..") {
        if (below) return Refuse(name, "is a link whose target goes up behind another name: " + target);
        ++ups;
      } else if (step != "." && !step.empty()) {
        below = true;
      }
    }
    if (parts.empty() || ups + 1 > parts.size())
      return Refuse(name, "is a link that leads out of its folder: " + target);
    return tree->MakeLink(parts, target);
  }

  Status UnpackFile(archive_entry* entry, const std::string& name, const MemberTree::Parts& parts, unsigned mode,
                    MemberTree* tree) {
    if (archive_entry_sparse_reset(entry) > 0) return Refuse(name, "is a sparse file");
    if (archive_entry_size_is_set(entry) != 0 &&
        static_cast<uint64_t>(archive_entry_size(entry)) > limits_.max_bytes - report_.bytes) {
      return TooLarge();
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const int file, tree->MakeFile(parts, mode));
    const std::unique_ptr<const int, void (*)(const int*)> closed(&file, [](const int* open) { ::close(*open); });
    while (true) {
      const void* bytes = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int result = archive_read_data_block(reader_.get(), &bytes, &size, &offset);
      if (result == ARCHIVE_EOF) return {};
      if (result != ARCHIVE_OK) return tl::make_unexpected(Broken());
      SIGHTLINE_RETURN_IF_ERROR(Count(size));
      SIGHTLINE_RETURN_IF_ERROR(WriteAll(file, std::span(static_cast<const std::byte*>(bytes), size), name));
    }
  }

  tl::unexpected<Error> TooLarge() const {
    return Fail(Code::kInvalidRequest, fmt::format("archive: holds more than {} bytes", limits_.max_bytes));
  }

  Status Count(size_t bytes) {
    report_.bytes += bytes;
    return report_.bytes > limits_.max_bytes ? TooLarge() : Status();
  }

  static Status WriteAll(int file, std::span<const std::byte> bytes, const std::string& name) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return tl::make_unexpected(ErrnoError("write", name, errno));
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
    return {};
  }

  Decompressor* stream_;
  UnpackLimits limits_;
  Status failure_;  // of the stream
  UnpackReport report_;
  std::unique_ptr<archive, decltype(&archive_read_free)> reader_;
};

}  // namespace

Result<UnpackReport> UnpackArchive(ByteSource source, const std::filesystem::path& folder, const UnpackLimits& limits,
                                   const TransferOptions& options) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto stream, Decompressor::Open(source, limits, options, 0));
  return Unpacker(stream.get(), limits).Run(folder);
}

Result<UnpackReport> UnpackArchiveFile(const std::filesystem::path& archive, const std::filesystem::path& folder,
                                       const UnpackLimits& limits, const TransferOptions& options) {
  SIGHTLINE_ASSIGN_OR_RETURN(FileSource file, FileSource::Open(archive));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto stream, Decompressor::Open(file, limits, options, file.size()));
  return Unpacker(stream.get(), limits).Run(folder);
}

}  // namespace sightline
