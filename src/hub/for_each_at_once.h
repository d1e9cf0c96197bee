// Work on several things at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "hub/hub.h"

namespace sightline {

// Calls `body(item, stop)` for every item on at most `threads` threads, this one among them. The first error asks the
// others to stop, and is returned; kCancelled when `stop` was asked.
template <typename Item, typename Body>
HubStatus ForEachAtOnce(const std::vector<Item>& items, int threads, const std::stop_token& stop, const Body& body) {
  std::stop_source ends;
  const std::stop_callback chained(stop, [&ends] { ends.request_stop(); });
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::optional<HubError> first;
  const auto run = [&] {
    for (size_t i; (i = next++) < items.size() && !ends.stop_requested();) {
      const HubStatus done = body(items[i], ends.get_token());
      if (done) continue;
      const std::lock_guard lock(mutex);
      if (!first) first = done.error();
      ends.request_stop();
    }
  };
  {
    std::vector<std::jthread> others;
    const size_t wanted = std::min(items.size(), static_cast<size_t>(std::max(threads, 1)));
    for (size_t i = 1; i < wanted; ++i) others.emplace_back(run);
    run();
  }
  if (first) return tl::make_unexpected(std::move(*first));
  if (stop.stop_requested()) return tl::make_unexpected(HubError(Error{Code::kCancelled, "cancelled", {}}));
  return {};
}

}  // namespace sightline
