#include "oci/member_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sightline {
namespace {

constexpr size_t kMaxPartBytes = 255;
constexpr size_t kMaxNameBytes = 4096;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

std::string Joined(const MemberTree::Parts& parts) { return fmt::format("{}", fmt::join(parts, "/")); }

tl::unexpected<Error> Refuse(const MemberTree::Parts& parts, std::string_view why) {
  return Fail(Code::kInvalidRequest, fmt::format("archive member {}: {}", Joined(parts), why));
}

tl::unexpected<Error> Failed(const MemberTree::Parts& parts) {
  return tl::make_unexpected(ErrnoError("write", Joined(parts), errno));
}

// Nothing replaces what is there, but a folder may come twice.
Status CheckRoom(int parent, const MemberTree::Parts& parts, bool for_folder) {
  struct stat status {};
  if (::fstatat(parent, parts.back().c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? Status() : Failed(parts);
  }
  const bool folder = S_ISDIR(status.st_mode);
  if (folder && for_folder) return {};
  return Refuse(parts, folder || for_folder ? "is a file here and a folder there" : "comes twice");
}

}  // namespace

Result<std::vector<std::string>> CheckMemberName(std::string_view name, size_t max_depth) {
  const auto refuse = [name](std::string_view why) {
    std::string shown(name.substr(0, 200));
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
    return Fail(Code::kInvalidRequest, fmt::format("archive member '{}': {}", shown, why));
  };
  if (name.empty()) return refuse("has no name");
  if (name.front() == '/') return refuse("has an absolute name");
  if (name.size() > kMaxNameBytes) return refuse("has a name that is too long");
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; })) {
    return refuse("has control bytes in its name");
  }
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse("leads out of its folder (..)");
    if (part.size() > kMaxPartBytes) return refuse("has a name that is too long");
    parts.emplace_back(part);
  }
  if (parts.size() > max_depth) return refuse(fmt::format("lies more than {} folders deep", max_depth));
  return parts;
}

Result<MemberTree> MemberTree::Open(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return tl::make_unexpected(ErrnoError("write", folder, problem.value()));
  const int root = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return tl::make_unexpected(ErrnoError("write", folder, errno));
  return MemberTree(root);
}

MemberTree::MemberTree(MemberTree&& other) noexcept : root_(std::exchange(other.root_, -1)) {}

MemberTree::~MemberTree() {
  if (root_ >= 0) ::close(root_);
}

// The folder that holds the last part. Folders on the way are made, or missing with `make` false: then -1.
Result<int> MemberTree::OpenParent(const Parts& parts, bool make) const {
  int at = ::fcntl(root_, F_DUPFD_CLOEXEC, 0);
  if (at < 0) return Failed(parts);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const Descriptor above(at);
    const char* part = parts[i].c_str();
    at = ::openat(above.get(), part, kFolderFlags);
    if (at < 0 && errno == ENOENT && !make) return -1;
    if (at < 0 && errno == ENOENT && ::mkdirat(above.get(), part, 0755) == 0) {
      at = ::openat(above.get(), part, kFolderFlags);
    }
    if (at < 0 && (errno == ELOOP || errno == ENOTDIR)) {
      return Refuse(parts, fmt::format("would be written through {}, which is a link or a file", parts[i]));
    }
    if (at < 0) return Failed(parts);
  }
  return at;
}

Status MemberTree::MakeFolder(const Parts& parts, unsigned mode) {
  if (parts.empty()) return {};  // the root itself
  SIGHTLINE_ASSIGN_OR_RETURN(const int opened, OpenParent(parts, /*make=*/true));
  const Descriptor parent(opened);
  SIGHTLINE_RETURN_IF_ERROR(CheckRoom(parent.get(), parts, /*for_folder=*/true));
  const char* name = parts.back().c_str();
  if (::mkdirat(parent.get(), name, 0755) != 0 && errno != EEXIST) return Failed(parts);
  // We go on writing into it, whatever the archive says. By its descriptor, for the name could be a link by now.
  const Descriptor made(::openat(parent.get(), name, kFolderFlags));
  if (made.get() < 0 || ::fchmod(made.get(), (mode & 01777u) | 0700u) != 0) return Failed(parts);
  return {};
}

Result<int> MemberTree::MakeFile(const Parts& parts, unsigned mode) {
  if (parts.empty()) return Refuse(parts, "is a file without a name");
  SIGHTLINE_ASSIGN_OR_RETURN(const int opened, OpenParent(parts, /*make=*/true));
  const Descriptor parent(opened);
  SIGHTLINE_RETURN_IF_ERROR(CheckRoom(parent.get(), parts, /*for_folder=*/false));
  const int file =
      ::openat(parent.get(), parts.back().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return Failed(parts);
  if (::fchmod(file, (mode & 0777u) | 0600u) == 0) return file;
  const auto failed = Failed(parts);
  ::close(file);
  return failed;
}

Status MemberTree::MakeLink(const Parts& parts, const std::string& target) {
  if (parts.empty()) return Refuse(parts, "is a link without a name");
  SIGHTLINE_ASSIGN_OR_RETURN(const int opened, OpenParent(parts, /*make=*/true));
  const Descriptor parent(opened);
  SIGHTLINE_RETURN_IF_ERROR(CheckRoom(parent.get(), parts, /*for_folder=*/false));
  if (::symlinkat(target.c_str(), parent.get(), parts.back().c_str()) != 0) return Failed(parts);
  return {};
}

Status MemberTree::MakeHardLink(const Parts& parts, const Parts& target) {
  if (parts.empty() || target.empty()) return Refuse(parts, "is a hard link without a name");
  SIGHTLINE_ASSIGN_OR_RETURN(const int opened_target, OpenParent(target, /*make=*/false));
  const Descriptor from(opened_target);
  struct stat status {};
  const char* name = target.back().c_str();
  const bool there = from.get() >= 0 && ::fstatat(from.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  // A hard link to a symbolic link would move it to a folder where it means something else.
  if (!there || !S_ISREG(status.st_mode)) {
    return Refuse(parts, fmt::format("is a hard link to {}, which is no file of this archive", Joined(target)));
  }
  if (parts == target) return {};
  SIGHTLINE_ASSIGN_OR_RETURN(const int opened, OpenParent(parts, /*make=*/true));
  const Descriptor parent(opened);
  SIGHTLINE_RETURN_IF_ERROR(CheckRoom(parent.get(), parts, /*for_folder=*/false));
  if (::linkat(from.get(), name, parent.get(), parts.back().c_str(), 0) != 0) return Failed(parts);
  return {};
}

}  // namespace sightline
