// The content of a folder in an order that does not depend on the machine.
#pragma once

#include "oci/oci.h"

namespace sightline {

enum class Links {
  kKeep,    // a link is an entry of its own
  kFollow,  // a link to a file is that file; one to a folder is refused
};

struct TreeEntry {
  enum class Kind { kFolder, kFile, kLink };
  std::string name;  // relative, "a/b"
  std::filesystem::path path;
  Kind kind = Kind::kFile;
  uint64_t size = 0;
  bool executable = false;  // by its owner
  std::string target{};     // of a link
};

// Everything below `folder`, sorted by name as bytes: a folder stands before what it holds. kInvalidRequest for
// devices, pipes and sockets, kBodyTooLarge beyond a million entries.
Result<std::vector<TreeEntry>> ListTree(const std::filesystem::path& folder, Links links);

// Makes the folder. kInvalidRequest when it holds something.
Status MakeEmptyFolder(const std::filesystem::path& folder);

// Removes a folder unless kept: what a failure leaves must not look like a result.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
  ~UnfinishedFolder();
  void Keep() { folder_.clear(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace sightline
