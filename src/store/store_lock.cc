#include "store/store_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sightline {
namespace {

int Operation(LockKind kind) { return kind == LockKind::kShared ? LOCK_SH : LOCK_EX; }

}  // namespace

Result<StoreLock> StoreLock::Open(const std::filesystem::path& file) {
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("write", file, errno));
  return StoreLock(descriptor);
}

Result<StoreLock> StoreLock::Take(const std::filesystem::path& file, LockKind kind) {
  SIGHTLINE_ASSIGN_OR_RETURN(StoreLock lock, Open(file));
  while (::flock(lock.descriptor_, Operation(kind)) != 0) {
    if (errno != EINTR) return tl::make_unexpected(ErrnoError("lock", file, errno));
  }
  return lock;
}

Result<std::optional<StoreLock>> StoreLock::TryTake(const std::filesystem::path& file, LockKind kind) {
  SIGHTLINE_ASSIGN_OR_RETURN(StoreLock lock, Open(file));
  while (::flock(lock.descriptor_, Operation(kind) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::optional<StoreLock>();
    if (errno != EINTR) return tl::make_unexpected(ErrnoError("lock", file, errno));
  }
  return std::optional<StoreLock>(std::move(lock));
}

StoreLock::StoreLock(StoreLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

StoreLock& StoreLock::operator=(StoreLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

StoreLock::~StoreLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace sightline
