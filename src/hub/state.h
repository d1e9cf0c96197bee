// What the parts of Hub share.
#pragma once

#include "hub/repo_folder.h"
#include "hub/session.h"

namespace sightline {

struct Hub::State {
  explicit State(HubSettings settings) : session(std::move(settings)), cache(session.settings().cache) {}

  RepoFolder Folder(const std::string& repo) const { return {cache.root(), repo}; }

  HubSession session;
  HubCache cache;
};

}  // namespace sightline
