#include "store/snapshot_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "store/documents.h"
#include "store/scratch_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

bool IsBlobName(std::string_view name) {
  return (name.size() == 40 || name.size() == 64) &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::string> DigestOf(const fs::path& file, bool git) {
  SIGHTLINE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(file));
  constexpr size_t kPiece = 16u << 20;
  const auto feed = [&](auto& digest) {
    for (auto rest = mapped.bytes(); !rest.empty(); rest = rest.subspan(std::min(kPiece, rest.size()))) {
      const auto piece = rest.first(std::min(kPiece, rest.size()));
      digest.Update(piece);
      ReleasePages(piece);
    }
    return digest.HexDigest();
  };
  if (!git) {
    Sha256 digest;
    return feed(digest);
  }
  Sha1 digest;
  const std::string head = fmt::format("blob {}", mapped.bytes().size());
  digest.Update(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  return feed(digest);
}

Status MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? Status(tl::make_unexpected(ErrnoError("write", folder, error.value()))) : Status();
}

// As huggingface_hub has it: one ".." for each folder of the path, and two for snapshots/COMMIT.
fs::path LinkTarget(const std::string& path, const std::string& digest) {
  fs::path link = "../..";
  for (const char c : path) {
    if (c == '/') link /= "..";
  }
  return link / "blobs" / digest;
}

Status PlaceBlob(const fs::path& file, const fs::path& repository, const std::string& digest) {
  std::error_code error;
  const fs::path blob = repository / "blobs" / digest;
  if (fs::exists(blob, error)) return {};
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string actual, DigestOf(file, digest.size() == 40));
  if (actual != digest) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: its digest is {}, expected {}", file.filename().string(), actual, digest));
  }
  return MoveFile(file, blob);
}

Status PlaceLink(const fs::path& link, const fs::path& target, const ScratchFolder& scratch) {
  std::error_code error;
  if (fs::exists(link, error)) return {};
  SIGHTLINE_RETURN_IF_ERROR(MakeFolder(link.parent_path()));
  const fs::path temporary = scratch.path() / "link";
  fs::create_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, link, error);
  return error ? Status(tl::make_unexpected(ErrnoError("write", link, error.value()))) : Status();
}

}  // namespace

Status MoveFile(const fs::path& file, const fs::path& target) {
  SIGHTLINE_RETURN_IF_ERROR(MakeFolder(target.parent_path()));
  std::error_code error;
  fs::rename(file, target, error);
  if (!error) return {};
  if (error != std::errc::cross_device_link) return tl::make_unexpected(ErrnoError("write", target, error.value()));
  SIGHTLINE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(file));
  SIGHTLINE_ASSIGN_OR_RETURN(AtomicFile copy, AtomicFile::Create(target));
  SIGHTLINE_RETURN_IF_ERROR(copy.Write(mapped.bytes()));
  return copy.Commit();
}

Result<RepositoryFiles> RepositoryFilesBelow(const fs::path& snapshot) {
  RepositoryFiles files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(snapshot, error), end; !error && at != end; at.increment(error)) {
    if (!at->is_directory(error)) files[at->path().lexically_relative(snapshot).generic_string()] = at->path();
  }
  if (error) return tl::make_unexpected(ErrnoError("read", snapshot, error.value()));
  return files;
}

Status WriteSnapshotList(const RepositoryFiles& files, const fs::path& folder) {
  std::error_code error;
  Value list{Value::Map{}};
  for (const auto& [path, file] : files) {
    const fs::path blob = fs::canonical(file, error);
    if (error) return tl::make_unexpected(ErrnoError("read", file, error.value()));
    std::string digest = blob.filename().string();
    if (!IsBlobName(digest)) {
      SIGHTLINE_ASSIGN_OR_RETURN(digest, DigestOf(blob, false));
    }
    list.Set(path, TextValue(std::string_view(digest)));
    const fs::path link = folder / "files" / path;
    SIGHTLINE_RETURN_IF_ERROR(MakeFolder(link.parent_path()));
    fs::create_symlink(blob, link, error);
    if (error) return tl::make_unexpected(ErrnoError("write", link, error.value()));
  }
  return WriteMapFile(folder / "blobs.json", list);
}

Status PlaceSnapshot(const fs::path& folder, const fs::path& root, const std::string& repo, const std::string& commit) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  if (!IsCommit(commit)) {
    return Fail(Code::kInvalidRequest, fmt::format("{}: '{}' is no commit, expected 40 digits", repo, commit));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const Value list, ReadMapFile(folder / "blobs.json"));
  const fs::path repository = root / CacheFolderName(repo);
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::MakeIn(repository));
  for (const Value::Member& member : *list.AsMap()) {
    SIGHTLINE_RETURN_IF_ERROR(CheckHubPath(member.key));
    const std::string digest = TextMember(list, member.key);
    if (!IsBlobName(digest)) {
      return Fail(Code::kInvalidRequest, fmt::format("{}: '{}' is no digest of a blob", member.key, digest));
    }
    SIGHTLINE_RETURN_IF_ERROR(PlaceBlob(folder / "files" / member.key, repository, digest));
    SIGHTLINE_RETURN_IF_ERROR(
        PlaceLink(repository / "snapshots" / commit / member.key, LinkTarget(member.key, digest), scratch));
  }
  return {};
}

Status PlaceFolder(const fs::path& folder, const fs::path& target) {
  SIGHTLINE_ASSIGN_OR_RETURN(const RepositoryFiles files, RepositoryFilesBelow(folder));
  for (const auto& [path, file] : files) {
    std::error_code error;
    if (!fs::exists(target / path, error)) SIGHTLINE_RETURN_IF_ERROR(MoveFile(file, target / path));
  }
  return {};
}

}  // namespace sightline
