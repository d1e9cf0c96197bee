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

std::filesystem::path Numbered(const std::filesystem::path& path, int number) {
  return path.string() + "." + std::to_string(number);
}

}  // namespace

Status RotateFile(const std::filesystem::path& path, int keep) {
  for (int number = keep; number >= 1; --number) {
    const std::filesystem::path from = number == 1 ? path : Numbered(path, number - 1);
    std::error_code error;
    std::filesystem::rename(from, Numbered(path, number), error);
    if (error && error != std::errc::no_such_file_or_directory) {
      return tl::make_unexpected(ErrnoError("rename", from, error.value()));
    }
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
