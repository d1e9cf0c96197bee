// The steps of a download: what is missing, whether it fits, and fetching it.
#pragma once

#include "hub/blob_download.h"

namespace sightline {

// One content and the files of a snapshot that have it.
struct Work {
  WantedBlob blob;
  std::vector<std::string> paths;
};

// Bytes of all files, and those of them that are on the disk, each content once.
uint64_t TotalBytes(const std::vector<HubFile>& files);
uint64_t BytesThere(const RepoFolder& folder, const std::string& commit, const std::vector<HubFile>& files);

// Large ones first.
std::vector<Work> WhatIsMissing(const RepoFolder& folder, const std::string& repo, const std::string& commit,
                                const std::vector<HubFile>& files);

// kNoSpace when the cache's disk has less than `needed` bytes.
HubStatus CheckSpace(const HubSettings& settings, const HubSubject& subject, uint64_t needed);

// Does all of it, several at a time; the first error stops the others.
HubStatus DoAll(const HubSession& session, const RepoFolder& folder, const std::vector<Work>& missing,
                ProgressMeter& meter, const std::stop_token& stop);

}  // namespace sightline
