// How requests come in and go to the device thread; the same for every engine.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>

#include "pipeline/device_queue.h"
#include "pipeline/pipeline.h"

namespace sightline {

// Counts the requests inside. Any thread.
class Admission {
 public:
  explicit Admission(int most) : most_(most) {}

  int inside() const { return inside_->load(); }
  // kBusy when `most` requests are inside.
  Result<QueueTicket> Take() const;

 private:
  const int most_;
  std::shared_ptr<std::atomic<int>> inside_ = std::make_shared<std::atomic<int>>(0);
};

// Ends a request that does not go to the device. Whoever hears the answer may ask again: the place is free by then.
template <typename Answer>
void EndAtOnce(QueueTicket ticket, Result<Answer> answer, const std::function<void(Result<Answer>)>& done) {
  ticket = {};
  done(std::move(answer));
}

// Queues compute(prepared, milliseconds it waited) for the device thread and calls `done` once with what comes of it.
template <typename Answer, typename Prepared>
void RunOnDevice(DeviceQueue& queue, QueueTicket ticket, Prepared prepared, std::stop_token stop,
                 std::function<Result<Answer>(Prepared, double wait_ms)> compute,
                 std::function<void(Result<Answer>)> done) {
  // std::function wants copyable captures.
  struct Call {
    QueueTicket ticket;
    Prepared prepared;
    std::function<Result<Answer>(Prepared, double)> compute;
    std::function<void(Result<Answer>)> done;
    std::chrono::steady_clock::time_point queued = std::chrono::steady_clock::now();
  };
  auto call = std::make_shared<Call>(Call{std::move(ticket), std::move(prepared), std::move(compute), std::move(done)});
  queue.Push({.run =
                  [call] {
                    const std::chrono::duration<double, std::milli> waited =
                        std::chrono::steady_clock::now() - call->queued;
                    Result<Answer> answer = call->compute(std::move(call->prepared), waited.count());
                    call->ticket = {};
                    call->done(std::move(answer));
                  },
              .refuse =
                  [call](Error error) {
                    call->ticket = {};
                    call->done(tl::make_unexpected(std::move(error)));
                  },
              .stop = stop});
}

// Calls start(done) and waits until `done` has been called.
template <typename Answer, typename Start>
Result<Answer> WaitForAnswer(Start start) {
  std::promise<Result<Answer>> promise;
  auto future = promise.get_future();
  start([&promise](Result<Answer> answer) { promise.set_value(std::move(answer)); });
  return future.get();
}

}  // namespace sightline
