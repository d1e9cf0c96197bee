// A lock between processes. The kernel gives it back when its holder ends, however it ends.
#pragma once

#include <filesystem>
#include <optional>

#include "base/base.h"

namespace sightline {

enum class LockKind { kShared, kExclusive };

// Holds the lock while it lives. Not thread-safe.
class FileLock {
 public:
  // Waits. The file and its folder are made where they are missing; it stays afterwards.
  static Result<FileLock> Take(const std::filesystem::path& file, LockKind kind);
  // Nothing when another holds it.
  static Result<std::optional<FileLock>> TryTake(const std::filesystem::path& file, LockKind kind);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  static Result<FileLock> Open(const std::filesystem::path& file);
  int descriptor_ = -1;
};

}  // namespace sightline
