// Locks between processes, the same that huggingface_hub takes (flock).
#pragma once

#include <optional>
#include <stop_token>

#include "hub/hub.h"

namespace sightline {

// Held until destroyed, or until the process ends however it ends. Threads of one process exclude each other too.
class CacheLock {
 public:
  // Nothing when somebody else holds it.
  static Result<std::optional<CacheLock>> Try(const std::filesystem::path& path);
  // Waits; kCancelled when stopped. `waiting` is called once when it takes longer than a second.
  static Result<CacheLock> Take(const std::filesystem::path& path, const std::stop_token& stop,
                                FunctionRef<void()> waiting);

  CacheLock(CacheLock&& other) noexcept;
  CacheLock& operator=(CacheLock&&) = delete;
  ~CacheLock();
  // False where the disk knows no locks, so that others may work on the same file.
  bool excludes() const { return excludes_; }

 private:
  CacheLock(int descriptor, bool excludes) : descriptor_(descriptor), excludes_(excludes) {}
  int descriptor_;
  bool excludes_;
};

}  // namespace sightline
