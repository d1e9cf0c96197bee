#include "pipeline/scene_cache.h"

namespace sightline {

std::shared_ptr<const GazeScene> SceneCache::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->second;
}

void SceneCache::Insert(const std::string& key, std::shared_ptr<const GazeScene> scene) {
  const std::lock_guard lock(mutex_);
  if (capacity_ == 0 || index_.contains(key)) return;
  recent_.emplace_front(key, std::move(scene));
  index_[key] = recent_.begin();
  if (recent_.size() > capacity_) {
    index_.erase(recent_.back().first);
    recent_.pop_back();
  }
}

uint64_t SceneCache::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

uint64_t SceneCache::misses() const {
  const std::lock_guard lock(mutex_);
  return misses_;
}

}  // namespace sightline
