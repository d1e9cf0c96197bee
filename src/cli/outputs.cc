#include "cli/outputs.h"

#include <fmt/format.h>

#include <set>
#include <system_error>

namespace sightline {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> NamesInFolder(const fs::path& folder, const std::string& extension, const Pictures& pictures) {
  std::vector<fs::path> paths;
  std::set<std::string> taken;
  for (const Picture& picture : pictures.pictures) {
    const std::string stem = picture.path == "-" ? "stdin" : picture.path.stem().string();
    std::string name = stem;
    for (int copy = 2; !taken.insert(name).second; ++copy) name = fmt::format("{}-{}", stem, copy);
    paths.push_back(folder / (name + extension));
  }
  return paths;
}

Status CheckFolderOf(const std::string& option, const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code error;
  if (fs::is_directory(folder, error)) return {};
  return Fail(Code::kNotFound,
              fmt::format("{} is {}, but there is no folder {}", option, file.string(), folder.string()));
}

Status CheckKeepsPictures(const std::string& option, const std::vector<fs::path>& paths, const Pictures& pictures) {
  for (const fs::path& path : paths) {
    for (const Picture& picture : pictures.pictures) {
      std::error_code error;
      if (!fs::equivalent(path, picture.path, error)) continue;
      return Fail(Code::kUsage, fmt::format("{} would overwrite the picture {}, expected another place", option,
                                            picture.path.string()));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<fs::path>> PlanOutputs(const std::string& option, const fs::path& value,
                                          const std::string& extension, const Pictures& pictures) {
  if (value.empty()) return std::vector<fs::path>(pictures.pictures.size());
  if (value == "-") return Fail(Code::kUsage, fmt::format("{} is '-', expected a name", option));
  std::error_code error;
  if (pictures.several) {
    fs::create_directories(value, error);
    if (error) return tl::make_unexpected(ErrnoError("make folder", value, error.value()));
  }
  std::vector<fs::path> paths = {value};
  if (fs::is_directory(value, error)) paths = NamesInFolder(value, extension, pictures);
  SIGHTLINE_RETURN_IF_ERROR(CheckFolderOf(option, paths.front()));
  SIGHTLINE_RETURN_IF_ERROR(CheckKeepsPictures(option, paths, pictures));
  return paths;
}

}  // namespace sightline
