#include "launch/boot_report.h"

#include <fmt/format.h>

namespace sightline {
namespace {

std::string KeyOf(size_t index) { return fmt::format("boot-{}", index + 1); }

}  // namespace

void BootReport::UpdateStage(size_t index) {
  const BootStage& now = tracker_.stages()[index];
  BootStage& before = shown_[index];
  const bool begins = before.state == StageState::kWaiting && now.state != StageState::kWaiting;
  if (begins && now.state != StageState::kSkipped) {
    reporter_.OnStep({KeyOf(index), StepState::kStart, now.active_label, {}});
  }
  const bool counts = now.state == StageState::kActive && now.total > 0;
  if (counts && (now.done != before.done || now.total != before.total)) {
    reporter_.OnProgress({KeyOf(index), now.done, now.total, ProgressUnit::kCount, now.done});
  }
  if (before.state != StageState::kDone && now.state == StageState::kDone) {
    reporter_.OnStep({KeyOf(index), StepState::kDone, now.done_label, now.detail});
  }
  before = now;
}

void BootReport::Update() {
  if (shown_.empty()) shown_.resize(tracker_.stages().size());
  for (size_t index = 0; index < shown_.size(); ++index) UpdateStage(index);
}

void BootReport::Fail() {
  for (size_t index = 0; index < shown_.size(); ++index) {
    if (shown_[index].state != StageState::kActive) continue;
    reporter_.OnStep({KeyOf(index), StepState::kFail, shown_[index].active_label, {}});
  }
}

}  // namespace sightline
