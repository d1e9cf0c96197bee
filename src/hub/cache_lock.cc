#include "hub/cache_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "hub/repo_folder.h"
#include "hub/session.h"

namespace sightline {
namespace {

constexpr std::chrono::milliseconds kPollInterval{50};
constexpr int kPollsBeforeTelling = 20;  // short waits are nobody's business

// A lock on a file that was removed meanwhile excludes nobody.
bool IsStillThere(int descriptor, const std::filesystem::path& path) {
  struct stat ours, there;
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

}  // namespace

CacheLock::CacheLock(CacheLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), excludes_(other.excludes_) {}

CacheLock::~CacheLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::optional<CacheLock>> CacheLock::Try(const std::filesystem::path& path) {
  for (;;) {
    // 0664 as huggingface_hub has it: members of a group that share a cache wait for each other.
    CacheLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664), true);
    if (lock.descriptor_ < 0) return tl::make_unexpected(ErrnoError("lock", path, errno));
    if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return std::optional<CacheLock>();
      lock.excludes_ = false;
      return std::optional<CacheLock>(std::move(lock));
    }
    if (IsStillThere(lock.descriptor_, path)) return std::optional<CacheLock>(std::move(lock));
  }
}

Result<CacheLock> CacheLock::Take(const std::filesystem::path& path, const std::stop_token& stop,
                                  FunctionRef<void()> waiting) {
  SIGHTLINE_RETURN_IF_ERROR(MakeFolders(path.parent_path()));
  for (int polls = 0;; ++polls) {
    SIGHTLINE_ASSIGN_OR_RETURN(std::optional<CacheLock> lock, CacheLock::Try(path));
    if (lock) return std::move(*lock);
    if (polls == kPollsBeforeTelling) waiting();
    if (!SleepFor(kPollInterval, stop)) return Fail(Code::kCancelled, "cancelled");
  }
}

}  // namespace sightline
