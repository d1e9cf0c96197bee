// The hub's JSON, read. What is not of the expected shape is kDamaged.
#pragma once

#include <map>

#include "hub/faults.h"
#include "hub/hub.h"

namespace sightline {

HubResult<HubRepo> ReadRepo(const std::string& json, const HubSubject& subject);
HubResult<std::vector<HubRepo>> ReadRepos(const std::string& json, const HubSubject& subject);
HubResult<HubUser> ReadUser(const std::string& json, const HubSubject& subject);
// One page of a tree; folders are left out.
HubResult<std::vector<HubFile>> ReadTreePage(const std::string& json, const HubSubject& subject);

// What the cache keeps of a commit's files, as huggingface_hub writes it to trees/<commit>.json.
HubResult<std::vector<HubFile>> ReadTreeCache(const std::string& json, const HubSubject& subject);

// Which of the files go into large file storage.
HubResult<std::map<std::string, bool>> ReadUploadModes(const std::string& json, const HubSubject& subject);

// https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md, with the hub's multipart extension.
struct LfsAction {
  std::string url{};
  HttpHeaders headers{};
};
struct LfsObject {
  std::string oid;
  LfsAction upload{};  // without a URL: the object is there
  LfsAction verify{};
  uint64_t part_bytes = 0;               // 0: one PUT to upload.url
  std::vector<std::string> part_urls{};  // in order; upload.url is told when all are there
};
HubResult<std::vector<LfsObject>> ReadLfsBatch(const std::string& json, const HubSubject& subject);

// The commit that was made.
HubResult<std::string> ReadCommit(const std::string& json, const HubSubject& subject);

}  // namespace sightline
