// Talking to a Reporter.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "store/store.h"

namespace sightline {

// `reporter`, or one that says nothing.
Reporter& OrSilent(Reporter* reporter);

// A step that failed unless it is said to be done. Never thrown away half: its end is always reported.
class Step {
 public:
  Step(Reporter& reporter, std::string key, std::string label)
      : reporter_(reporter), key_(std::move(key)), label_(std::move(label)) {
    reporter_.OnStep({key_, StepState::kStart, label_});
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() {
    if (!ended_) reporter_.OnStep({key_, StepState::kFail, label_});
  }
  void Done(std::string detail = {}) {
    ended_ = true;
    reporter_.OnStep({key_, StepState::kDone, label_, std::move(detail)});
  }
  const std::string& key() const { return key_; }

 private:
  Reporter& reporter_;
  std::string key_, label_;
  bool ended_ = false;
};

// What a hub says, as progress of a step.
class HubReporter : public HubProgressSink {
 public:
  HubReporter(Reporter& reporter, std::string key) : reporter_(reporter), key_(std::move(key)) {}
  void OnProgress(const HubProgress& progress) override;
  void OnNote(std::string_view line) override { reporter_.OnNote(line); }

 private:
  Reporter& reporter_;
  std::string key_;
};

TransferOptions TransferFor(Reporter& reporter, const std::string& key, std::stop_token stop);

}  // namespace sightline
