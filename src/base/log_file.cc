#include "base/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <system_error>

#include "base/base.h"

namespace sightline {
namespace {

struct LogFile {
  std::mutex mutex;
  std::filesystem::path path;
  uint64_t limit_bytes = 0;
  int keep = 0;
};

// Leaked on purpose: threads may log while the process ends.
LogFile& File() {
  static LogFile* const file = new LogFile;
  return *file;
}

// Standard output and error are replaced in one step each: nobody who writes there meets a closed descriptor.
Status Redirect(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("write", path, errno));
  ::dup2(descriptor, STDOUT_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  ::close(descriptor);
  return {};
}

}  // namespace

Status RotateFile(const std::filesystem::path& path, int keep) {
  const auto name = [&path](int number) {
    return number == 0 ? path : std::filesystem::path(path.string() + "." + std::to_string(number));
  };
  // Up to the first name that is free, so that a rotation that was killed half way is gone on with and costs no file.
  int free = 0;
  std::error_code error;
  while (free < keep && std::filesystem::exists(std::filesystem::symlink_status(name(free), error))) ++free;
  for (int number = free; number >= 1; --number) {
    std::filesystem::rename(name(number - 1), name(number), error);
    if (error) return tl::make_unexpected(ErrnoError("rename", name(number - 1), error.value()));
  }
  return {};
}

Status LogToFile(const std::filesystem::path& path, uint64_t limit_bytes, int keep) {
  SIGHTLINE_RETURN_IF_ERROR(Redirect(path));
  LogFile& file = File();
  const std::lock_guard lock(file.mutex);
  file.path = path;
  file.limit_bytes = limit_bytes;
  file.keep = keep;
  return {};
}

void RotateLogFileIfLarge() {
  LogFile& file = File();
  const std::lock_guard lock(file.mutex);
  struct stat status;
  if (file.limit_bytes == 0 || ::fstat(STDERR_FILENO, &status) != 0) return;
  if (static_cast<uint64_t>(status.st_size) < file.limit_bytes) return;
  // Where the folder takes no new file the old one just grows.
  if (RotateFile(file.path, file.keep)) [[maybe_unused]]
    const Status redirected = Redirect(file.path);
}

}  // namespace sightline
