// Remembers what was computed for recent pictures, so that a further question about one pays only for itself.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace sightline {

// Values by key, at most `capacity` units of cost together; least recently used out first. Any thread.
template <typename Value>
class RecentCache {
 public:
  explicit RecentCache(size_t capacity) : capacity_(capacity) {}

  // Null when absent; counts hits and misses.
  std::shared_ptr<Value> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) {
      ++misses_;
      return nullptr;
    }
    ++hits_;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->value;
  }

  // Replaces a value that is there. One that alone is above the capacity is not kept.
  void Insert(const std::string& key, std::shared_ptr<Value> value, size_t cost) {
    const std::lock_guard lock(mutex_);
    if (cost > capacity_) return;
    if (const auto found = index_.find(key); found != index_.end()) Remove(found->second);
    recent_.push_front({key, std::move(value), cost});
    index_[key] = recent_.begin();
    cost_ += cost;
    while (cost_ > capacity_) Remove(std::prev(recent_.end()));
  }

  uint64_t hits() const {
    const std::lock_guard lock(mutex_);
    return hits_;
  }
  uint64_t misses() const {
    const std::lock_guard lock(mutex_);
    return misses_;
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<Value> value;
    size_t cost;
  };
  void Remove(typename std::list<Entry>::iterator entry) {
    cost_ -= entry->cost;
    index_.erase(entry->key);
    recent_.erase(entry);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> recent_;  // newest first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> index_;
  size_t cost_ = 0;
  uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace sightline
