// Where a handler's answer meets the connection that waits for it. The handler may answer from any thread, late, or
// never; the connection may have gone by then.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "net/net.h"

namespace sightline {

class ReplySlot {
 public:
  // `wake` is called when there is something to see, with the slot locked, never after Detach.
  explicit ReplySlot(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Put(HttpResponse response) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    response_ = std::move(response);
    if (wake_) wake_();
  }

  // Nobody is left who could answer.
  void Abandon() {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    if (wake_) wake_();
  }

  // The connection stops waiting.
  void Detach() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_ = nullptr;
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  std::optional<HttpResponse> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(response_, std::nullopt);
  }

  // A reply function for `slot` that abandons it when its last copy is destroyed.
  static HttpReply MakeReply(std::shared_ptr<ReplySlot> slot) {
    struct Replier {
      std::shared_ptr<ReplySlot> slot;
      explicit Replier(std::shared_ptr<ReplySlot> s) : slot(std::move(s)) {}
      Replier(const Replier&) = delete;
      Replier& operator=(const Replier&) = delete;
      ~Replier() { slot->Abandon(); }
    };
    auto replier = std::make_shared<Replier>(std::move(slot));
    return [replier](HttpResponse response) { replier->slot->Put(std::move(response)); };
  }

 private:
  mutable std::mutex mutex_;
  std::optional<HttpResponse> response_;
  std::function<void()> wake_;
  bool closed_ = false;
};

}  // namespace sightline
