// Telling a Reporter what happens.
#pragma once

#include <string>
#include <utility>

#include "store/store.h"

namespace sightline {

// `reporter`, or one that says nothing.
inline Reporter& Told(Reporter* reporter) {
  static Reporter silent;
  return reporter == nullptr ? silent : *reporter;
}

// A step of work, which has failed unless it is said to be done.
class ReportedStep {
 public:
  ReportedStep(Reporter& reporter, std::string key, std::string label)
      : reporter_(reporter), key_(std::move(key)), label_(std::move(label)) {
    reporter_.OnStep({key_, StepState::kStart, label_});
  }
  ReportedStep(const ReportedStep&) = delete;
  ReportedStep& operator=(const ReportedStep&) = delete;
  ~ReportedStep() {
    if (!done_) reporter_.OnStep({key_, StepState::kFail, label_});
  }
  void Done(std::string label, std::string detail = {}) {
    done_ = true;
    reporter_.OnStep({key_, StepState::kDone, std::move(label), std::move(detail)});
  }

 private:
  Reporter& reporter_;
  std::string key_, label_;
  bool done_ = false;
};

}  // namespace sightline
