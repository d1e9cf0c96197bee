// Remembers what the backbone found in recent pictures, so that a further question about one pays for the decoder only.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "models/models.h"

namespace sightline {

// Least recently used out first. Any thread.
class SceneCache {
 public:
  explicit SceneCache(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const GazeScene> Find(const std::string& key);  // null when absent; counts hits and misses
  void Insert(const std::string& key, std::shared_ptr<const GazeScene> scene);

  uint64_t hits() const;
  uint64_t misses() const;

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const GazeScene>>;
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> recent_;  // newest first
  std::unordered_map<std::string, std::list<Entry>::iterator> index_;
  uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace sightline
