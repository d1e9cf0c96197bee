#include "hub/repo_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "hub/hub_json.h"
#include "hub/names.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTreeBytes = size_t{256} << 20;
constexpr size_t kMostRefBytes = 4096;

std::optional<std::string> ReadText(const fs::path& path, size_t limit) {
  const auto bytes = ReadFile(path, limit);
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Status WriteAll(int descriptor, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("write", path, errno));
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (::fsync(descriptor) != 0) return tl::make_unexpected(ErrnoError("write", path, errno));
  return {};
}

std::string RelativeTarget(const std::string& file, const std::string& digest) {
  std::string target = "../../";
  for (const char c : file) target += c == '/' ? "../" : "";
  return target + "blobs/" + digest;
}

bool HasNoLinks(int errno_value) {
  return errno_value == EPERM || errno_value == ENOSYS || errno_value == EOPNOTSUPP || errno_value == EINVAL;
}

Status CopyFile(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error) return tl::make_unexpected(ErrnoError("write", to, error.value()));
  return {};
}

}  // namespace

Result<std::vector<fs::directory_entry>> ListEntries(const fs::path& folder, bool deep) {
  std::vector<fs::directory_entry> entries;
  std::vector<fs::path> waiting{folder};
  while (!waiting.empty()) {
    const fs::path path = std::move(waiting.back());
    waiting.pop_back();
    std::error_code error;
    fs::directory_iterator entry(path, error);
    // Never there, or removed meanwhile; but a link that leads nowhere is a disk that is not mounted.
    std::error_code ignored;
    if (error == std::errc::no_such_file_or_directory && !fs::is_symlink(path, ignored)) continue;
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      if (deep && fs::is_directory(entry->symlink_status(ignored))) waiting.push_back(entry->path());
      entries.push_back(*entry);
    }
    if (error) return tl::make_unexpected(ErrnoError("read", path, error.value()));
  }
  return entries;
}

Result<uint64_t> BytesBelow(const fs::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto entries, ListEntries(folder, true));
  std::set<std::pair<dev_t, ino_t>> seen;
  uint64_t bytes = 0;
  for (const fs::directory_entry& entry : entries) {
    struct stat status;
    if (::stat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (seen.emplace(status.st_dev, status.st_ino).second) bytes += static_cast<uint64_t>(status.st_size);
  }
  return bytes;
}

Status MakeFolders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return tl::make_unexpected(ErrnoError("create", folder, error.value()));
  return {};
}

void SyncFolder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

RepoFolder::RepoFolder(const fs::path& root, const std::string& repo)
    : root_(root), path_(root / CacheFolderName(repo)) {}

fs::path RepoFolder::Pointer(const std::string& commit, const std::string& file) const {
  return Snapshot(commit) / file;
}

fs::path RepoFolder::Lock(const std::string& digest) const {
  return root_ / ".locks" / path_.filename() / (digest + ".lock");
}

bool RepoFolder::exists() const {
  std::error_code ignored;
  return fs::is_directory(path_, ignored);
}

std::optional<std::string> RepoFolder::ReadRef(const std::string& revision) const {
  auto commit = ReadText(Ref(revision), kMostRefBytes);
  while (commit && !commit->empty() && (commit->back() == '\n' || commit->back() == ' ')) commit->pop_back();
  if (!commit || !IsCommit(*commit)) return std::nullopt;
  return commit;
}

Status RepoFolder::WriteRef(const std::string& revision, const std::string& commit) const {
  if (ReadRef(revision) == commit) return {};
  return WriteSmall(Ref(revision), commit);
}

std::optional<std::vector<HubFile>> RepoFolder::ReadTree(const std::string& commit) const {
  const auto text = ReadText(path_ / "trees" / (commit + ".json"), kMostTreeBytes);
  if (!text) return std::nullopt;
  auto files = ReadTreeCache(*text, {});
  if (!files || !CheckTree("the cache", *files)) return std::nullopt;
  return std::move(*files);
}

Status RepoFolder::WriteTree(const std::string& commit, const std::vector<HubFile>& files) const {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  for (const HubFile& file : files) {
    nlohmann::ordered_json entry{{"size", file.size}, {"blob_id", file.blob_id}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size;
    }
    entries[file.path] = std::move(entry);
  }
  const nlohmann::ordered_json document{{"format_version", 1}, {"files", std::move(entries)}};
  return WriteSmall(path_ / "trees" / (commit + ".json"), document.dump(1));
}

bool RepoFolder::IsKnownAbsent(const std::string& commit, const std::string& file) const {
  std::error_code ignored;
  return fs::is_regular_file(path_ / ".no_exist" / commit / file, ignored);
}

Status RepoFolder::RememberAbsent(const std::string& commit, const std::string& file) const {
  return IsKnownAbsent(commit, file) ? Status() : WriteSmall(path_ / ".no_exist" / commit / file, "");
}

bool RepoFolder::Has(const std::string& commit, const HubFile& file) const {
  struct stat status;
  return ::stat(Pointer(commit, file.path).c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         static_cast<uint64_t>(status.st_size) == file.size;
}

Status RepoFolder::PutIntoSnapshot(const std::string& commit, const std::string& file,
                                   const std::string& digest) const {
  const fs::path pointer = Pointer(commit, file);
  SIGHTLINE_RETURN_IF_ERROR(MakeFolders(pointer.parent_path()));
  const std::string target = RelativeTarget(file, digest);
  std::error_code ignored;
  if (fs::read_symlink(pointer, ignored) == target) return {};
  if (::symlink(target.c_str(), pointer.c_str()) != 0) {
    // Something is there: another process's link to the same blob, a dangling one, an older copy. A link under another
    // name replaces it in one step.
    const fs::path temporary = TemporaryName();
    const bool linked = errno == EEXIST && ::symlink(target.c_str(), temporary.c_str()) == 0;
    if (!linked && !HasNoLinks(errno)) return tl::make_unexpected(ErrnoError("create", pointer, errno));
    if (!linked) SIGHTLINE_RETURN_IF_ERROR(CopyFile(Blob(digest), temporary));
    if (::rename(temporary.c_str(), pointer.c_str()) != 0) {
      const int errno_value = errno;
      ::unlink(temporary.c_str());
      return tl::make_unexpected(ErrnoError("create", pointer, errno_value));
    }
  }
  SyncFolder(pointer.parent_path());
  return {};
}

void RepoFolder::MarkCache() const {
  const fs::path tag = root_ / "CACHEDIR.TAG";
  const int descriptor = ::open(tag.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return;
  static_cast<void>(WriteAll(descriptor,
                             "Signature: 8a477f597d28d172789f06886806bc55\n"
                             "# This file is a cache directory tag.\n"
                             "# For information about cache directory tags, see https://bford.info/cachedir/\n",
                             tag));
  ::close(descriptor);
}

fs::path RepoFolder::TemporaryName() const {
  static std::atomic<uint64_t> count{0};
  return path_ / (std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".tmp");
}

Status RepoFolder::WriteSmall(const fs::path& target, std::string_view content) const {
  SIGHTLINE_RETURN_IF_ERROR(MakeFolders(target.parent_path()));
  const fs::path temporary = TemporaryName();
  ::unlink(temporary.c_str());  // of a process that had our number and was killed
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("write", target, errno));
  Status written = WriteAll(descriptor, content, target);
  ::close(descriptor);
  if (written && ::rename(temporary.c_str(), target.c_str()) != 0) {
    written = tl::make_unexpected(ErrnoError("write", target, errno));
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  SyncFolder(target.parent_path());
  return {};
}

}  // namespace sightline
