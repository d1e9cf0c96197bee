// A few threads for what would hold up the I/O thread or the device thread: base64, pictures, documents.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sightline {

// First in, first out. The number of tasks is bounded by those who post: a request must be admitted first.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();  // runs what was posted, then ends

  void Post(std::function<void()> task);
  // Returns when nothing is posted and nothing runs.
  void WaitUntilIdle();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;  // tasks_ or ending_
  std::condition_variable idle_;
  std::deque<std::function<void()>> tasks_;
  int running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sightline
