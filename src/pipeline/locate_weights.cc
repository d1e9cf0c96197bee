#include <fmt/format.h>

#include "pipeline/hub_cache.h"
#include "pipeline/pipeline.h"
#include "text/text.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

const std::string kRepo = "nvidia/LocateAnything-3B";
const std::string kRevision = "c32291ca5e996f5a7a485845b4f57a233936bba0";  // what the p150a port pins
constexpr uint64_t kSyntheticSeed = 1;

Result<LocateWeights> OpenFolder(const fs::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateConfig config, ReadLocateConfig(folder));
  const SnapshotName snapshot = SnapshotNameOf(folder).value_or(SnapshotName());
  return LocateWeights{folder, snapshot.repo, snapshot.commit, config.synthetic};
}

Result<LocateWeights> OpenSynthetic(const std::string& size, const std::function<void(int, int)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path cache, CacheFolder());
  const fs::path folder = cache / "synthetic" / fmt::format("locate-anything-{}-seed{}", size, kSyntheticSeed);
  if (fs::exists(folder / "model.safetensors.index.json")) return OpenFolder(folder);  // it is written last
  LogInfo(fmt::format("making synthetic {} weights in {}", size, folder.string()));
  SyntheticLocateOptions options;
  options.size = size;
  options.seed = kSyntheticSeed;
  options.folder = folder;
  for (const TokenizerFile& file : ShippedTokenizer())
    options.tokenizer.push_back({std::string(file.name), file.contents});
  SIGHTLINE_RETURN_IF_ERROR(WriteSyntheticLocateAnything(options, progress));
  return OpenFolder(folder);
}

}  // namespace

Result<LocateWeights> OpenLocateWeights(const LocateWeightsOptions& options,
                                        const std::function<void(int done, int total)>& progress) {
  if (!options.folder.empty() && !options.synthetic.empty()) {
    return Fail(Code::kUsage, "weights: give only one of a folder and synthetic");
  }
  if (!options.folder.empty()) return OpenFolder(options.folder);
  if (!options.synthetic.empty()) return OpenSynthetic(options.synthetic, progress);
  if (const auto snapshot = FindHubSnapshot(kRepo, kRevision)) return OpenFolder(snapshot->folder);
  return Fail(
      Code::kNotFound,
      fmt::format("weights: {} is not in the Hugging Face cache; give --weights DIR with the downloaded folder, or "
                  "fetch it with `sightline pull locate-anything`; --synthetic needs no download",
                  kRepo));
}

}  // namespace sightline
