// What a hub may answer, and names it may give, over any bytes. No name that passes leads out of a folder.
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "hub/hub_json.h"
#include "hub/names.h"

namespace sightline {
namespace {

void CheckNames(const HubResult<std::vector<HubFile>>& files) {
  if (!files || !CheckTree("org/name", *files)) return;
  for (const HubFile& file : *files) {
    const std::filesystem::path path = std::filesystem::path("/cache") / file.path;
    const std::filesystem::path below = path.lexically_normal().lexically_relative("/cache");
    if (below.empty() || *below.begin() == ".." || below.is_absolute()) std::abort();
    if (file.digest().find_first_not_of("0123456789abcdef") != std::string::npos) std::abort();
  }
}

}  // namespace
}  // namespace sightline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckNames(ReadTreePage(text, {}));
  CheckNames(ReadTreeCache(text, {}));
  if (const auto repo = ReadRepo(text, {}); repo && !IsCommit(repo->commit)) std::abort();
  static_cast<void>(ReadRepos(text, {}));
  static_cast<void>(ReadUser(text, {}));
  static_cast<void>(ReadUploadModes(text, {}));
  static_cast<void>(ReadLfsBatch(text, {}));
  static_cast<void>(ReadCommit(text, {}));
  const size_t half = size / 2;
  static_cast<void>(MatchesHubPattern(text.substr(0, half), text.substr(half)));
  if (CheckRepoId(text) && CacheFolderName(text).find('/') != std::string::npos) std::abort();
  return 0;
}
