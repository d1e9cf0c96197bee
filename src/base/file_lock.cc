#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/base.h"

namespace sightline {
namespace {

int Operation(FileLock::Kind kind) { return kind == FileLock::Kind::kShared ? LOCK_SH : LOCK_EX; }

}  // namespace

Result<FileLock> FileLock::Open(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("write", path, errno));
  return FileLock(descriptor);
}

Result<FileLock> FileLock::Take(const std::filesystem::path& path, Kind kind) {
  SIGHTLINE_ASSIGN_OR_RETURN(FileLock lock, Open(path));
  while (::flock(lock.descriptor_, Operation(kind)) != 0) {
    if (errno != EINTR) return tl::make_unexpected(ErrnoError("lock", path, errno));
  }
  return lock;
}

Result<std::optional<FileLock>> FileLock::TryTake(const std::filesystem::path& path, Kind kind) {
  SIGHTLINE_ASSIGN_OR_RETURN(FileLock lock, Open(path));
  while (::flock(lock.descriptor_, Operation(kind) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::optional<FileLock>();
    if (errno != EINTR) return tl::make_unexpected(ErrnoError("lock", path, errno));
  }
  return std::optional<FileLock>(std::move(lock));
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace sightline
