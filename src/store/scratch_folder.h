// A folder that is gone when its owner is.
#pragma once

#include <filesystem>
#include <utility>

#include "base/base.h"

namespace sightline {

class ScratchFolder {
 public:
  // In the system's folder for temporary files.
  static Result<ScratchFolder> Make();
  // In `parent`, which is made where it is missing: for what will be renamed to a place beside it.
  static Result<ScratchFolder> MakeIn(const std::filesystem::path& parent);
  // Whether `folder` is one of ours whose owner was killed.
  static bool IsLeftOver(const std::filesystem::path& folder);

  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), held_(std::exchange(other.held_, -1)) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFolder(std::filesystem::path path, int held) : path_(std::move(path)), held_(held) {}
  std::filesystem::path path_;
  int held_ = -1;  // descriptor of the folder with a lock that ends with its process
};

}  // namespace sightline
