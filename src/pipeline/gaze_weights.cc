#include <fmt/format.h>

#include <algorithm>

#include "pipeline/hub_cache.h"
#include "pipeline/pipeline.h"

extern "C" {
extern const std::byte sightline_toy_backbone[], sightline_toy_backbone_end[];
extern const std::byte sightline_toy_decoder[], sightline_toy_decoder_end[];
}

namespace sightline {
namespace {

namespace fs = std::filesystem;

const std::string kRepo = "changh95/gaze-lle-weights";
constexpr std::string_view kSyntheticSize = "vitb14";
constexpr uint64_t kSyntheticSeed = 1;

std::span<const std::byte> ToyBackbone() { return {sightline_toy_backbone, sightline_toy_backbone_end}; }
std::span<const std::byte> ToyDecoder() { return {sightline_toy_decoder, sightline_toy_decoder_end}; }

// A copy of the toy under any name answers no better than the toy.
bool Holds(const fs::path& path, std::span<const std::byte> bytes) {
  std::error_code error;
  if (fs::file_size(path, error) != bytes.size() || error) return false;
  const auto file = MappedFile::Open(path);
  return file && std::ranges::equal(file->bytes(), bytes);
}

Result<GazeWeights> OpenFiles(const fs::path& backbone, const fs::path& decoder) {
  GazeWeights weights;
  SIGHTLINE_ASSIGN_OR_RETURN(weights.files.backbone, Checkpoint::Open(backbone));
  SIGHTLINE_ASSIGN_OR_RETURN(weights.files.decoder, Checkpoint::Open(decoder));
  weights.backbone = backbone.filename().string();
  weights.decoder = decoder.filename().string();
  weights.synthetic = IsSynthetic(weights.files);
  weights.toy = Holds(backbone, ToyBackbone()) || Holds(decoder, ToyDecoder());
  return weights;
}

// The one regular file in `folder` whose name starts with `prefix`.
Result<fs::path> FindOne(const fs::path& folder, std::string_view prefix) {
  std::error_code error;
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !entry.is_regular_file()) continue;
    if (!found.empty()) {
      return Fail(Code::kNotFound, fmt::format("{}: holds {} and {}, expected one {}* file", folder.string(),
                                               std::min(found.filename().string(), name),
                                               std::max(found.filename().string(), name), prefix));
    }
    found = entry.path();
  }
  if (error) return tl::make_unexpected(ErrnoError("read folder", folder, error.value()));
  if (found.empty()) {
    return Fail(Code::kNotFound, fmt::format("{}: holds no {}* file; a weights folder has one dinov2* and one gazelle*",
                                             folder.string(), prefix));
  }
  return found;
}

Result<GazeWeights> OpenFolder(const fs::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path backbone, FindOne(folder, "dinov2"));
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path decoder, FindOne(folder, "gazelle"));
  SIGHTLINE_ASSIGN_OR_RETURN(GazeWeights weights, OpenFiles(backbone, decoder));
  if (const auto snapshot = SnapshotNameOf(folder)) {
    weights.repo = snapshot->repo;
    weights.revision = snapshot->commit;
  }
  return weights;
}

Result<GazeWeights> OpenToy() {
  GazeWeights weights;
  SIGHTLINE_ASSIGN_OR_RETURN(weights.files.backbone, Checkpoint::FromBytes(ToyBackbone(), "dinov2_toy_pretrain.pth"));
  SIGHTLINE_ASSIGN_OR_RETURN(weights.files.decoder, Checkpoint::FromBytes(ToyDecoder(), "gazelle_toy_inout.pt"));
  weights.backbone = weights.files.backbone.source();
  weights.decoder = weights.files.decoder.source();
  weights.toy = true;
  return weights;
}

Result<GazeWeights> OpenSynthetic(const std::function<void(int, int)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path cache, CacheFolder());
  const fs::path folder = cache / "synthetic" / fmt::format("gaze-lle-{}-seed{}", kSyntheticSize, kSyntheticSeed);
  if (auto made = OpenFolder(folder); made) return made;
  LogInfo(fmt::format("making synthetic {} weights in {}", kSyntheticSize, folder.string()));
  SyntheticGazeOptions options;
  options.size = kSyntheticSize;
  options.seed = kSyntheticSeed;
  options.folder = folder;
  SIGHTLINE_RETURN_IF_ERROR(WriteSyntheticGazeLle(options, progress));
  return OpenFolder(folder);
}

Result<GazeWeights> OpenHubCache() {
  if (const auto snapshot = FindHubSnapshot(kRepo)) return OpenFolder(snapshot->folder);
  return Fail(
      Code::kNotFound,
      fmt::format("weights: there are none of {} in the Hugging Face cache; give --weights DIR with the official "
                  "dinov2*.pth and gazelle*.pt files, or fetch them with `sightline pull gaze-lle`; --toy and "
                  "--synthetic need no download",
                  kRepo));
}

}  // namespace

Result<GazeWeights> OpenGazeWeights(const GazeWeightsOptions& options,
                                    const std::function<void(int done, int total)>& progress) {
  const bool files = !options.backbone.empty() || !options.decoder.empty();
  if (files + !options.folder.empty() + options.toy + options.synthetic > 1) {
    return Fail(Code::kUsage, "weights: give only one of a folder, two files, toy and synthetic");
  }
  if (files && (options.backbone.empty() || options.decoder.empty())) {
    return Fail(Code::kUsage, "weights: backbone and decoder files are given together");
  }
  if (files) return OpenFiles(options.backbone, options.decoder);
  if (!options.folder.empty()) return OpenFolder(options.folder);
  if (options.toy) return OpenToy();
  if (options.synthetic) return OpenSynthetic(progress);
  return OpenHubCache();
}

}  // namespace sightline
