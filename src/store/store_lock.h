// A lock between processes. The kernel gives it back when its holder ends, however it ends.
#pragma once

#include <filesystem>
#include <optional>

#include "base/base.h"

namespace sightline {

enum class LockKind { kShared, kExclusive };

// Holds the lock while it lives. Not thread-safe.
class StoreLock {
 public:
  // Waits. The file and its folder are made where they are missing; it stays afterwards.
  static Result<StoreLock> Take(const std::filesystem::path& file, LockKind kind);
  // Nothing when another holds it.
  static Result<std::optional<StoreLock>> TryTake(const std::filesystem::path& file, LockKind kind);

  StoreLock(StoreLock&& other) noexcept;
  StoreLock& operator=(StoreLock&& other) noexcept;
  ~StoreLock();

 private:
  explicit StoreLock(int descriptor) : descriptor_(descriptor) {}
  static Result<StoreLock> Open(const std::filesystem::path& file);
  int descriptor_ = -1;
};

}  // namespace sightline
