#include "hub/range_window.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sightline {

RangeWindow::RangeWindow(int descriptor, std::filesystem::path path, uint64_t start, uint64_t size,
                         const HubSettings& settings, BlobDigest& digest)
    : descriptor_(descriptor),
      path_(std::move(path)),
      size_(size),
      range_bytes_(std::max<uint64_t>(settings.range_bytes, 1)),
      most_ranges_(static_cast<size_t>(std::max(settings.ranges_at_once, 1))),
      digest_(digest),
      written_(start),
      taken_(start) {}

std::shared_ptr<RangeWindow::Range> RangeWindow::Next() {
  std::unique_lock lock(mutex_);
  const bool first = ranges_.empty() && taken_ == written_;
  changed_.wait(
      lock, [&] { return error_ || taken_ == size_ || ((first || ranges_work_) && ranges_.size() < most_ranges_); });
  if (error_ || taken_ == size_) return nullptr;
  const uint64_t size = std::min(range_bytes_, size_ - taken_);
  ranges_.push_back(std::make_shared<Range>(Range{taken_, size, 0, {}}));
  taken_ += size;
  return ranges_.back();
}

bool RangeWindow::TakeWholeFile(Range& range) {
  const std::lock_guard lock(mutex_);
  if (ranges_work_) return false;
  range.size = size_ - range.offset;
  taken_ = size_;
  changed_.notify_all();
  return true;
}

void RangeWindow::RangesWork() {
  const std::lock_guard lock(mutex_);
  if (ranges_work_) return;
  ranges_work_ = true;
  changed_.notify_all();
}

Status RangeWindow::Accept(Range& range, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  range.received += bytes.size();
  if (&range != ranges_.front().get()) {
    range.waiting.reserve(static_cast<size_t>(range.size));
    range.waiting.insert(range.waiting.end(), bytes.begin(), bytes.end());
    return {};
  }
  SIGHTLINE_RETURN_IF_ERROR(Write(bytes));
  while (!ranges_.empty() && ranges_.front()->received == ranges_.front()->size) {
    ranges_.pop_front();
    if (ranges_.empty()) break;
    const std::vector<std::byte> waiting = std::move(ranges_.front()->waiting);
    ranges_.front()->waiting.clear();
    SIGHTLINE_RETURN_IF_ERROR(Write(waiting));
  }
  changed_.notify_all();
  return {};
}

void RangeWindow::Fail(const HubError& error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = error;
  changed_.notify_all();
}

HubStatus RangeWindow::status() const {
  const std::lock_guard lock(mutex_);
  if (error_) return tl::make_unexpected(*error_);
  return {};
}

Status RangeWindow::Write(std::span<const std::byte> bytes) {
  digest_.Update(bytes);
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(written_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("write", path_, errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
    written_ += static_cast<uint64_t>(count);
  }
  return {};
}

}  // namespace sightline
