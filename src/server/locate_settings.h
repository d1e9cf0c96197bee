// What the LocateAnything server runs with: its options, then the LA_ variables of the published server's package, then
// that server's values.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/base.h"
#include "server/locate_fields.h"
#include "server/server.h"

namespace sightline {

struct LocateSettings {
  LocateWeightsOptions weights;
  LocateLimits limits;  // scaling: the canonical grid, unless native
  int64_t max_sequence = 4096;
  int warmup_runs = 2;
  std::filesystem::path language_folder;  // where the language model is to be extracted to; empty: nowhere
  bool extract_again = false;
  std::vector<std::string> notes;  // lines for the log: variables that have no meaning here
};

using Environment = std::map<std::string, std::string>;
// That of this process.
Environment ReadEnvironment();

// kUsage names the option or variable that is wrong.
Result<LocateSettings> ResolveLocateSettings(const LocateServerOptions& options, const Environment& environment);

}  // namespace sightline
