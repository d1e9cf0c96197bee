#include "models/loop_detector.h"

#include <algorithm>

namespace sightline {

bool LoopDetector::Add(TokenId id) {
  const bool equal_box = ClosesEqualBox(id);
  return EndsRun(id) || equal_box;
}

bool LoopDetector::ClosesEqualBox(TokenId id) {
  if (id == tokens_.ref_start) {
    inside_ = Inside::kLabel;
    label_.clear();
  } else if (id == tokens_.box_start) {
    inside_ = Inside::kBox;
    box_.clear();
  } else if (id == tokens_.box_end && inside_ == Inside::kBox) {
    inside_ = Inside::kNothing;
    return ++boxes_[{label_, box_}] >= kEqualBoxes;
  } else if (id == tokens_.ref_end) {
    inside_ = Inside::kNothing;
  } else if (inside_ != Inside::kNothing) {
    (inside_ == Inside::kLabel ? label_ : box_).push_back(id);
  }
  return false;
}

bool LoopDetector::EndsRun(TokenId id) {
  bool ends = false;
  for (size_t period = 1; period <= std::min(kLongestPeriod, answer_.size()); ++period) {
    const bool same = answer_[answer_.size() - period] == id;
    repeated_[period] = same ? repeated_[period] + 1 : 0;
    ends |= repeated_[period] + period >= std::max(kRun, 3 * period);
  }
  answer_.push_back(id);
  return ends;
}

}  // namespace sightline
