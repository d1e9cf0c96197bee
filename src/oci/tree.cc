#include "oci/tree.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

namespace sightline {
namespace {

constexpr size_t kMaxEntries = 1'000'000;

Result<TreeEntry> EntryOf(const std::filesystem::path& path, std::string name, Links links) {
  TreeEntry entry{std::move(name), path};
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  if (S_ISLNK(status.st_mode) && links == Links::kKeep) {
    std::error_code problem;
    entry.kind = TreeEntry::Kind::kLink;
    entry.target = std::filesystem::read_symlink(path, problem).string();
    if (problem) return tl::make_unexpected(ErrnoError("read", path, problem.value()));
    return entry;
  }
  const bool link = S_ISLNK(status.st_mode);
  if (link && ::stat(path.c_str(), &status) != 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  if (S_ISDIR(status.st_mode) && !link) {
    entry.kind = TreeEntry::Kind::kFolder;
    return entry;
  }
  if (!S_ISREG(status.st_mode)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{}: is {}, expected a file or a folder", path.string(),
                            S_ISDIR(status.st_mode) ? "a link to a folder" : "a device, a pipe or a socket"));
  }
  entry.size = static_cast<uint64_t>(status.st_size);
  entry.executable = (status.st_mode & S_IXUSR) != 0;
  return entry;
}

}  // namespace

Result<std::vector<TreeEntry>> ListTree(const std::filesystem::path& folder, Links links) {
  std::vector<TreeEntry> entries;
  std::vector<std::pair<std::filesystem::path, std::string>> waiting{{folder, ""}};
  while (!waiting.empty()) {
    const auto [path, prefix] = std::move(waiting.back());
    waiting.pop_back();
    std::error_code problem;
    std::filesystem::directory_iterator item(path, problem), end;
    for (; !problem && item != end; item.increment(problem)) {
      SIGHTLINE_ASSIGN_OR_RETURN(TreeEntry entry,
                                 EntryOf(item->path(), prefix + item->path().filename().string(), links));
      if (entry.kind == TreeEntry::Kind::kFolder) waiting.emplace_back(entry.path, entry.name + "/");
      entries.push_back(std::move(entry));
      if (entries.size() > kMaxEntries) {
        return Fail(Code::kBodyTooLarge, fmt::format("{}: holds more than {} files", folder.string(), kMaxEntries));
      }
    }
    if (problem) return tl::make_unexpected(ErrnoError("read", path, problem.value()));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Status MakeEmptyFolder(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return tl::make_unexpected(ErrnoError("write", folder, problem.value()));
  const bool empty = std::filesystem::is_empty(folder, problem);
  if (problem) return tl::make_unexpected(ErrnoError("read", folder, problem.value()));
  if (empty) return {};
  return Fail(Code::kInvalidRequest,
              fmt::format("{}: is not empty, expected an empty or a new folder", folder.string()));
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace sightline
