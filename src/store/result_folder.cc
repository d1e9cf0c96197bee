#include "store/result_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace sightline {

namespace fs = std::filesystem;

Status TakePlace(const fs::path& made, const fs::path& target) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return tl::make_unexpected(ErrnoError("write", target, errno));
    fs::path aside = made;
    aside += ".old";
    fs::rename(target, aside, error);
    if (error) return tl::make_unexpected(ErrnoError("write", target, error.value()));
  }
  fs::rename(made, target, error);
  return error ? Status(tl::make_unexpected(ErrnoError("write", target, error.value()))) : Status();
}

}  // namespace sightline
