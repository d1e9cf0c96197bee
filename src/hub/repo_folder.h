// One repository's folder in the cache, as huggingface_hub lays it out.
#pragma once

#include <optional>

#include "hub/hub.h"

namespace sightline {

// Names, and the steps that change what is there, each of which a killed process leaves done or undone. Names that come
// from outside (revisions, paths, digests) must have been checked. Any thread and process.
class RepoFolder {
 public:
  RepoFolder(const std::filesystem::path& root, const std::string& repo);

  const std::filesystem::path& root() const { return root_; }  // the cache
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path Blob(const std::string& digest) const { return path_ / "blobs" / digest; }
  std::filesystem::path Snapshot(const std::string& commit) const { return path_ / "snapshots" / commit; }
  std::filesystem::path Pointer(const std::string& commit, const std::string& file) const;
  std::filesystem::path Ref(const std::string& revision) const { return path_ / "refs" / revision; }
  std::filesystem::path Lock(const std::string& digest) const;

  bool exists() const;
  // The commit that a branch or tag names here.
  std::optional<std::string> ReadRef(const std::string& revision) const;
  Status WriteRef(const std::string& revision, const std::string& commit) const;

  // The list of a commit's files; nothing where it is absent or not to be trusted.
  std::optional<std::vector<HubFile>> ReadTree(const std::string& commit) const;
  Status WriteTree(const std::string& commit, const std::vector<HubFile>& files) const;

  bool IsKnownAbsent(const std::string& commit, const std::string& file) const;
  Status RememberAbsent(const std::string& commit, const std::string& file) const;

  // Whether a snapshot has the file with that size.
  bool Has(const std::string& commit, const HubFile& file) const;
  // Puts a complete blob into a snapshot: a relative link, or a copy where the disk knows no links.
  Status PutIntoSnapshot(const std::string& commit, const std::string& file, const std::string& digest) const;

  // Marks the cache for backup programs: https://bford.info/cachedir/
  void MarkCache() const;

 private:
  // Content or link under a name of its own first, beside nothing that others list.
  std::filesystem::path TemporaryName() const;
  Status WriteSmall(const std::filesystem::path& target, std::string_view content) const;

  std::filesystem::path root_, path_;
};

// What is in a folder, and with `deep` in those below it; links are entries. An absent folder holds nothing, but one
// that cannot be read is an error: nobody may take it for an empty one.
Result<std::vector<std::filesystem::directory_entry>> ListEntries(const std::filesystem::path& folder, bool deep);
// Sizes of what the files below a folder are in the end, each once however many links lead there.
Result<uint64_t> BytesBelow(const std::filesystem::path& folder);
// Creates a folder and those above it. What is a file is an error.
Status MakeFolders(const std::filesystem::path& folder);
// Makes renames and links in a folder survive a power cut; folders that cannot be synced are let be.
void SyncFolder(const std::filesystem::path& folder);
// Temporary files begin with this, in the repository's folder.
inline constexpr std::string_view kTemporaryPrefix = ".sightline-";

}  // namespace sightline
