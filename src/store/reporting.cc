#include "store/reporting.h"

#include <fmt/format.h>

#include <array>

namespace sightline {

Reporter& OrSilent(Reporter* reporter) {
  static Reporter silent;
  return reporter == nullptr ? silent : *reporter;
}

void HubReporter::OnProgress(const HubProgress& progress) {
  if (key_.empty()) return;
  if (progress.phase != HubPhase::kDownloading && progress.phase != HubPhase::kUploading) return;
  reporter_.OnProgress({key_, progress.bytes_done, progress.bytes_total, ProgressUnit::kBytes, progress.bytes_moved});
}

TransferOptions TransferFor(Reporter& reporter, const std::string& key, std::stop_token stop) {
  return {[&reporter, key](uint64_t done, uint64_t total) {
            reporter.OnProgress({key, done, total, ProgressUnit::kBytes, done});
          },
          std::move(stop)};
}

}  // namespace sightline
