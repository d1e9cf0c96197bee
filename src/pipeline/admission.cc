#include "pipeline/admission.h"

#include <fmt/format.h>

namespace sightline {

Result<QueueTicket> Admission::Take() const {
  if (inside_->fetch_add(1) >= most_) {
    inside_->fetch_sub(1);
    return Fail(Code::kBusy, fmt::format("the queue is full: {} requests are being answered", most_));
  }
  return QueueTicket(std::shared_ptr<void>(nullptr, [inside = inside_](void*) { inside->fetch_sub(1); }));
}

}  // namespace sightline
