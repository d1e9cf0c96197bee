// A few threads for what would hold up the I/O thread or the device thread: base64, pictures, documents.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sightline {

// First in, first out; but what is posted to go first, finished answers, does not wait behind requests that are yet to
// be read. The number of tasks is bounded by those who post: a request must be admitted first. A pool that has had
// nothing to do for some seconds gives freed memory back to the operating system.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();  // runs what was posted, then ends

  enum class Turn { kInOrder, kFirst };
  void Post(std::function<void()> task, Turn turn = Turn::kInOrder);
  // Returns when nothing is posted and nothing runs.
  void WaitUntilIdle();

 private:
  void Loop();
  // With the lock held.
  bool Empty() const { return first_.empty() && tasks_.empty(); }
  std::function<void()> Take();
  void WaitForTask(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;  // first_, tasks_ or ending_
  std::condition_variable idle_;
  std::deque<std::function<void()>> first_, tasks_;
  bool trimmed_ = true;  // nothing has run since memory was given back
  int running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sightline
