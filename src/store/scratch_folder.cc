#include "store/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace sightline {

namespace fs = std::filesystem;

Result<ScratchFolder> ScratchFolder::Make() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  return MakeIn(error ? fs::path("/tmp") : parent);
}

Result<ScratchFolder> ScratchFolder::MakeIn(const fs::path& parent) {
  std::error_code error;
  fs::create_directories(parent, error);
  std::string name = (parent / ".sightline-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return tl::make_unexpected(ErrnoError("write", parent, errno));
  return ScratchFolder(name);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace sightline
