// The bytes of one file that come in several ranges at once, and are written in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "hub/blob_digest.h"
#include "hub/hub.h"

namespace sightline {

// A file that grows from its end on: its size is always the number of bytes that are right, so that anybody can resume
// it, us after a kill and huggingface_hub alike. The first unfinished range is written as it comes; those behind it
// wait in memory, at most `ranges_at_once` times `range_bytes`. The digest is computed on the way. Any thread.
class RangeWindow {
 public:
  struct Range {
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t received = 0;
    std::vector<std::byte> waiting{};
  };

  // `descriptor` holds the bytes up to `start`, which `digest` knows.
  RangeWindow(int descriptor, std::filesystem::path path, uint64_t start, uint64_t size, const HubSettings& settings,
              BlobDigest& digest);

  // The next range to fetch; null when there is none left or the download failed. Waits while others are too far
  // behind, and, but for the first, until it is known that the server has ranges.
  std::shared_ptr<Range> Next();
  // The server sends the whole file whatever is asked: the first range becomes the only one. False when ranges have
  // worked before.
  bool TakeWholeFile(Range& range);
  void RangesWork();
  // Bytes that follow what the range has received.
  Status Accept(Range& range, std::span<const std::byte> bytes);
  // Wakes all that wait; the first error stays.
  void Fail(const HubError& error);
  HubStatus status() const;

 private:
  Status Write(std::span<const std::byte> bytes);

  const int descriptor_;
  const std::filesystem::path path_;
  const uint64_t size_, range_bytes_;
  const size_t most_ranges_;
  BlobDigest& digest_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Range>>
      ranges_{};              // unfinished ones and finished ones that still wait, in order of offset
  uint64_t written_, taken_;  // ends of what is in the file and of what has been given out
  bool ranges_work_ = false;
  std::optional<HubError> error_{};
};

}  // namespace sightline
