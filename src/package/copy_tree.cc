#include "package/copy_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace sightline {
namespace {

using std::filesystem::file_type;
using std::filesystem::path;

// More than any tree of sources; ends what a hostile one would make endless.
constexpr size_t kMostLevels = 200;

tl::unexpected<Error> Broken(std::string_view action, const path& at, const std::error_code& error) {
  return tl::make_unexpected(ErrnoError(action, at, error.value()));
}

bool IsBelow(const path& root, const path& at) {
  return std::mismatch(root.begin(), root.end(), at.begin(), at.end()).first == root.end();
}

class Copier {
 public:
  Copier(Links links, const LeaveOut& leave_out) : links_(links), leave_out_(leave_out) {}

  Status Start(const path& root, const path& source, const path& destination) {
    std::error_code error;
    root_ = std::filesystem::canonical(root, error);
    if (error) return Broken("cannot read", root, error);
    if (IsBelow(std::filesystem::weakly_canonical(source, error),
                std::filesystem::weakly_canonical(destination, error))) {
      return Fail(Code::kUsage, fmt::format("{} lies inside of {}, which is to be copied there", destination.string(),
                                            source.string()));
    }
    std::filesystem::create_directories(destination.parent_path(), error);
    if (error) return Broken("cannot create", destination.parent_path(), error);
    return Copy(source, destination);
  }

 private:
  Status Copy(const path& source, const path& destination);
  Status CopyFile(const path& source, const path& destination);
  Status CopyLink(const path& source, const path& destination);
  Status CopyFolder(const path& source, const path& destination);
  Status CheckInside(const path& source) const;

  Links links_;
  const LeaveOut& leave_out_;
  path root_;
  std::vector<path> above_;  // canonical folders that are being copied, outermost first
};

Status Copier::CheckInside(const path& source) const {
  std::error_code error;
  const path real = std::filesystem::canonical(source, error);
  if (error) return Broken("cannot follow", source, error);
  if (!IsBelow(root_, real)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{} leads out of {}, to {}", source.string(), root_.string(), real.string()));
  }
  if (std::find(above_.begin(), above_.end(), real) == above_.end()) return {};
  return Fail(Code::kInvalidRequest, fmt::format("{} leads around in a circle", source.string()));
}

Status Copier::Copy(const path& source, const path& destination) {
  std::error_code error;
  if (links_ == Links::kKept && std::filesystem::is_symlink(std::filesystem::symlink_status(source, error))) {
    return CopyLink(source, destination);
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckInside(source));
  const auto type = std::filesystem::status(source, error).type();
  if (type == file_type::directory) return CopyFolder(source, destination);
  if (type == file_type::regular) return CopyFile(source, destination);
  return Fail(Code::kInvalidRequest, fmt::format("{} is neither file nor folder", source.string()));
}

Status Copier::CopyFile(const path& source, const path& destination) {
  std::error_code error;
  // Taken away first: an older file may be read-only, or a link to somewhere else.
  if (std::filesystem::is_directory(std::filesystem::symlink_status(destination, error))) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{} is a file, but a folder of that name was copied before", source.string()));
  }
  std::filesystem::remove(destination, error);
  std::filesystem::copy_file(source, destination, error);
  if (error) return Broken("cannot copy", source, error);
  return {};
}

Status Copier::CopyLink(const path& source, const path& destination) {
  std::error_code error;
  std::filesystem::copy_symlink(source, destination, error);
  if (error) return Broken("cannot copy", source, error);
  return {};
}

Status Copier::CopyFolder(const path& source, const path& destination) {
  std::error_code error;
  if (above_.size() >= kMostLevels) {
    return Fail(Code::kInvalidRequest, fmt::format("{} lies more than {} folders deep", source.string(), kMostLevels));
  }
  std::filesystem::create_directory(destination, error);
  if (error || !std::filesystem::is_directory(destination)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{} cannot become a folder at {}", source.string(), destination.string()));
  }
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(source, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return Broken("cannot read", source, error);
  std::sort(names.begin(), names.end());
  const bool at_root = above_.empty();
  above_.push_back(std::filesystem::canonical(source, error));
  for (const std::string& name : names) {
    if (leave_out_(source, name, at_root)) continue;
    SIGHTLINE_RETURN_IF_ERROR(Copy(source / name, destination / name));
  }
  above_.pop_back();
  return {};
}

}  // namespace

Status CopyTree(const path& root, const path& source, const path& destination, Links links, const LeaveOut& leave_out) {
  return Copier(links, leave_out).Start(root, source, destination);
}

bool MatchesEnding(const std::string& name, std::string_view pattern) {
  if (!pattern.starts_with('*')) return name == pattern;
  return name.ends_with(pattern.substr(1));
}

}  // namespace sightline
