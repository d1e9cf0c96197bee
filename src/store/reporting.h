// Talking to a Reporter.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "store/store.h"

namespace sightline {

// What a hub says, as progress of the step `key`; without one as notes alone.
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
