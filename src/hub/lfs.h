// Large file storage: https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md and the hub's multipart extension.
#pragma once

#include "hub/hub_json.h"
#include "hub/session.h"
#include "hub/upload_file.h"

namespace sightline {

struct LfsSent {
  int files = 0;
  uint64_t bytes = 0;
};
// Sends the contents that the hub does not have, several at a time.
HubResult<LfsSent> SendLargeFiles(const HubSession& session, const HubSubject& subject,
                                  const std::vector<const LocalFile*>& files, ProgressMeter& meter,
                                  const std::stop_token& stop);

}  // namespace sightline
