// Snapshots of the hub's cache as plain folders that can be carried elsewhere, and back.
//
// Such a folder holds files/PATH for every file of a snapshot and blobs.json, which maps each path to its digest.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "store/store.h"

namespace sightline {

// Names in a repository to files that may be links.
using RepositoryFiles = std::map<std::string, std::filesystem::path>;
Result<RepositoryFiles> RepositoryFilesBelow(const std::filesystem::path& snapshot);

// Writes links to the files into `folder`/files, and the list.
Status WriteSnapshotList(const RepositoryFiles& files, const std::filesystem::path& folder);

// Moves the files of `folder` into the cache at `root` as a snapshot of `repo`. Nothing in the folder is believed:
// names are checked and every digest is computed before a file becomes visible. What is there already stays.
Status PlaceSnapshot(const std::filesystem::path& folder, const std::filesystem::path& root, const std::string& repo,
                     const std::string& commit);

// Moves each file of a folder to its place below `target`. What is there already stays.
Status PlaceFolder(const std::filesystem::path& folder, const std::filesystem::path& target);

// Moves a file, by copying where the two lie on different disks. `target` appears whole.
Status MoveFile(const std::filesystem::path& file, const std::filesystem::path& target);

}  // namespace sightline
