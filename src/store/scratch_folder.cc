#include "store/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".sightline-", kUnique = "XXXXXX";

int OpenFolder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool IsHeld(int folder) { return ::flock(folder, LOCK_EX | LOCK_NB) != 0; }

}  // namespace

Result<ScratchFolder> ScratchFolder::Make() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  return MakeIn(error ? fs::path("/tmp") : parent);
}

Result<ScratchFolder> ScratchFolder::MakeIn(const fs::path& parent) {
  std::error_code error;
  fs::create_directories(parent, error);
  while (true) {
    std::string name = (parent / (std::string(kPrefix) += kUnique)).string();
    if (::mkdtemp(name.data()) == nullptr) return tl::make_unexpected(ErrnoError("write", parent, errno));
    const int held = OpenFolder(name);
    // One that was swept away before it was held is made anew.
    if (held < 0 && errno == ENOENT) continue;
    if (held >= 0 && ::flock(held, LOCK_SH) == 0 && !fs::exists(name, error)) {
      ::close(held);
      continue;
    }
    return ScratchFolder(name, held);
  }
}

bool ScratchFolder::IsLeftOver(const fs::path& folder) {
  const std::string name = folder.filename().string();
  // Longer names of that beginning are of other modules, which look after them.
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kUnique.size()) return false;
  const int opened = OpenFolder(folder);
  if (opened < 0) return false;
  struct stat status {};
  const bool ours = ::fstat(opened, &status) == 0 && status.st_uid == ::geteuid();
  const bool in_use = IsHeld(opened);
  ::close(opened);
  return ours && !in_use;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (held_ >= 0) ::close(held_);
}

}  // namespace sightline
