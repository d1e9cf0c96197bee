// One file's bytes, from the hub into the cache.
#pragma once

#include "hub/progress_meter.h"
#include "hub/repo_folder.h"
#include "hub/session.h"

namespace sightline {

struct WantedBlob {
  HubSubject subject;  // one of the files that have this content
  std::string commit;
  std::string digest;
  uint64_t size = 0;
  uint64_t counted = 0;  // bytes of it that the progress has among those that are there
};

// A file as `resolve` describes it.
struct HubEntry {
  std::string commit;
  std::string digest;  // 40 or 64 hexadecimal digits
  uint64_t size = 0;
  std::string location;  // where its bytes are: the hub itself, or another host that must not see the token
};

// HEAD of resolve: what a file is and where its bytes are. Nothing is followed to another host, and a hub with HTTPS
// cannot send us to a host without.
// `known_absent` gets the commit when the hub says that this commit has no such file.
HubResult<HubEntry> ResolveEntry(const HubSession& session, const HubSubject& subject, HubProgressSink* notes,
                                 const std::stop_token& stop, std::string* known_absent = nullptr);

// Makes blobs/<digest> complete, resuming what is there. The caller holds the blob's lock, or has `exclusive` false
// where there are no locks: then the work is done under a name of its own. The blob appears in one step, when its
// digest is right and its bytes are on the disk.
HubStatus DownloadBlob(const HubSession& session, const RepoFolder& folder, const WantedBlob& wanted, bool exclusive,
                       ProgressMeter& meter, const std::stop_token& stop);

// Bytes of a blob that an earlier try has left.
uint64_t UnfinishedBytes(const RepoFolder& folder, const std::string& digest);

}  // namespace sightline
