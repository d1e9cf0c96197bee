// What several threads have done, told to one sink.
#pragma once

#include <chrono>
#include <mutex>

#include "hub/hub.h"

namespace sightline {

// Forwards to a sink, which may be null, one call at a time and not too often. Any thread.
class ProgressMeter : public HubProgressSink {
 public:
  explicit ProgressMeter(HubProgressSink* sink) : sink_(sink) {}

  void Begin(HubPhase phase, uint64_t bytes_done, uint64_t bytes_total, int files_done, int files_total) {
    const std::lock_guard lock(mutex_);
    progress_ = {phase, bytes_done, bytes_total, 0, files_done, files_total};
    Tell(true);
  }
  // `moved` is false for bytes that were there, and `bytes` negative for those that are thrown away.
  void AddBytes(int64_t bytes, bool moved) {
    const std::lock_guard lock(mutex_);
    progress_.bytes_done += static_cast<uint64_t>(bytes);
    if (moved) progress_.bytes_moved += static_cast<uint64_t>(bytes);
    Tell(false);
  }
  void AddFile() {
    const std::lock_guard lock(mutex_);
    ++progress_.files_done;
    Tell(progress_.files_done == progress_.files_total);
  }
  void OnProgress(const HubProgress& progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
    Tell(false);
  }
  void OnNote(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    if (sink_ != nullptr) sink_->OnNote(line);
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{100};

  void Tell(bool now) {
    const auto time = std::chrono::steady_clock::now();
    if (sink_ == nullptr || (!now && time - told_ < kInterval)) return;
    told_ = time;
    sink_->OnProgress(progress_);
  }

  HubProgressSink* sink_;
  std::mutex mutex_;
  HubProgress progress_{};
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace sightline
