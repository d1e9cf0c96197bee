// A boot as steps of a Reporter.
#pragma once

#include <string>
#include <vector>

#include "launch/launch.h"

namespace sightline {

// Reports each stage of the tracker once when it begins and once when it ends, and counts in between.
class BootReport {
 public:
  BootReport(const BootTracker& tracker, Reporter& reporter) : tracker_(tracker), reporter_(reporter) {}
  // After each line that changed something.
  void Update();
  // Nothing is ready: the stage that ran has failed.
  void Fail();

 private:
  void UpdateStage(size_t index);

  const BootTracker& tracker_;
  Reporter& reporter_;
  std::vector<BootStage> shown_{};
};

}  // namespace sightline
