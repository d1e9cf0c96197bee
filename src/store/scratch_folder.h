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
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace sightline
