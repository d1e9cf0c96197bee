#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/base.h"
#include "base/regular_file.h"

namespace sightline {
namespace {

// The folder that holds `path`, as something that can be opened.
std::filesystem::path FolderOf(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Where the bytes go in the end: a link is written through, and what is no file (/dev/null) is never replaced by one.
Result<std::filesystem::path> TargetOf(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    if (const auto resolved = std::filesystem::canonical(path, ignored); !ignored) target = resolved;
  }
  struct stat status;
  const bool exists = ::stat(target.c_str(), &status) == 0;
  const std::string_view kind = exists ? KindUnlessRegular(status.st_mode) : "";
  if (!kind.empty() || !target.has_filename()) {
    const std::string found(kind.empty() ? "a folder" : kind);
    return Fail(Code::kInvalidRequest, "cannot write " + path.string() + ": it is " + found + ", expected a file");
  }
  return target;
}

// Not derived from the target's name, which may already be as long as names can be.
std::filesystem::path TemporaryName(const std::filesystem::path& folder) {
  static std::atomic<uint64_t> attempts{0};
  return folder / (".sightline-" + std::to_string(::getpid()) + "-" + std::to_string(attempts++) + ".tmp");
}

// A file without a name, of which nothing is left when the process is killed; -1 where the file system has none, or
// where there is no /proc to give it a name by.
int OpenNameless(const std::filesystem::path& folder) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

Status WriteAll(int descriptor, std::span<const std::byte> bytes, uint64_t offset, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("write", path, errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

// Makes a rename in `folder` survive a power cut. A folder that may be written but not listed cannot be synced, and
// some file systems refuse the request for folders: the rename itself has happened, so neither is an error.
Status SyncFolder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.value() < 0) return {};
  if (::fsync(descriptor.value()) != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
    return tl::make_unexpected(ErrnoError("write", folder, errno));
  }
  return {};
}

}  // namespace

Result<AtomicFile> AtomicFile::Create(const std::filesystem::path& path) {
  AtomicFile file;
  SIGHTLINE_ASSIGN_OR_RETURN(file.path_, TargetOf(path));
  const std::filesystem::path folder = FolderOf(file.path_);
  file.descriptor_ = OpenNameless(folder);
  // A name can be taken: by a process of another container with our number, or by one that was killed.
  while (file.descriptor_ < 0) {
    file.temporary_ = TemporaryName(folder);
    file.descriptor_ = ::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor_ < 0 && errno != EEXIST) break;
  }
  if (file.descriptor_ < 0) return tl::make_unexpected(ErrnoError("write", path, errno));
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  SIGHTLINE_CHECK(descriptor_ >= 0);
  SIGHTLINE_RETURN_IF_ERROR(WriteAll(descriptor_, bytes, size_, path_));
  size_ += bytes.size();
  return {};
}

Status AtomicFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  SIGHTLINE_CHECK(descriptor_ >= 0 && offset <= size_ && bytes.size() <= size_ - offset);
  return WriteAll(descriptor_, bytes, offset, path_);
}

uint64_t AtomicFile::size() const { return size_; }

Status AtomicFile::Commit() {
  SIGHTLINE_CHECK(descriptor_ >= 0);
  if (::fsync(descriptor_) != 0) return tl::make_unexpected(ErrnoError("write", path_, errno));
  // A link cannot replace a file, a rename can: so a nameless file gets a name of its own first.
  const std::string nameless = "/proc/self/fd/" + std::to_string(descriptor_);
  while (temporary_.empty()) {
    std::filesystem::path name = TemporaryName(FolderOf(path_));
    if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = std::move(name);
    } else if (errno != EEXIST) {
      return tl::make_unexpected(ErrnoError("write", path_, errno));
    }
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return tl::make_unexpected(ErrnoError("write", path_, errno));
  ::close(std::exchange(descriptor_, -1));  // cannot lose data any more: fsync has reported what close could
  return SyncFolder(FolderOf(path_));
}

Status WriteFileAtomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  SIGHTLINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  SIGHTLINE_RETURN_IF_ERROR(file.Write(bytes));
  return file.Commit();
}

}  // namespace sightline
