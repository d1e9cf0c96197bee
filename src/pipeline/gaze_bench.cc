#include <algorithm>

#include "pipeline/packed_cache.h"
#include "pipeline/pipeline.h"
#include "pipeline/stage_clock.h"

namespace sightline {
namespace {

// Heads side by side along the middle of the picture.
std::vector<HeadMask> Masks(int heads) {
  std::vector<HeadMask> masks(static_cast<size_t>(heads));
  for (size_t i = 0; i < masks.size(); ++i) {
    masks[i].fill(0);
    const size_t column = (i * 3) % (kGazeGrid - 3);
    for (size_t y = 14; y < 18; ++y) std::fill_n(&masks[i][y * kGazeGrid + column], 3, uint8_t{1});
  }
  return masks;
}

std::string MapsDigest(std::span<const GazeMap> maps) {
  Sha256 digest;
  for (const GazeMap& map : maps) digest.Update(std::as_bytes(std::span(map.heatmap)));
  return digest.HexDigest();
}

}  // namespace

Result<GazeBench> BenchGazeLle(GazeWeights weights, const GazeBenchOptions& options,
                               const std::function<void(int done, int total)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, DetectIsa());
  const auto backend = MakeCpuBackend({.threads = options.threads, .isa = isa});
  const Precision precision = options.precision.value_or(backend->preferred_precision());
  const std::filesystem::path cache = CacheFolderOrMemory();
  const Stopwatch load;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto model,
                             GazeLle::Load(*backend, weights.files, precision, cache, options.packing));

  GazeBench bench;
  bench.load_ms = load.ms();
  const Image image{kGazeInputSize, kGazeInputSize, SyntheticRgb(1, kGazeInputSize, kGazeInputSize)};
  const std::vector<float> patches = PatchRows(ResizeUpstream(image, kGazeInputSize));
  const std::vector<HeadMask> one = Masks(1), ten = Masks(10);

  StageClock encode(*backend, "backbone "), decode(*backend, "decoder "), decode_ten(*backend, "");
  double peak = 0;
  for (int i = -1; i < options.iterations; ++i) {
    // The peak is taken between passes, so that a slower moment of the machine slows both.
    peak = std::max(peak, MeasurePeakFlops(isa, precision, backend->threads()) / 1e9);
    GazeScene scene;
    StageClock warm_encode(*backend, ""), warm_decode(*backend, ""), warm_ten(*backend, "");
    const bool warm_up = i < 0;
    const auto encode_once = [&]() -> Status {
      SIGHTLINE_ASSIGN_OR_RETURN(scene, model->Encode(patches, Profile::kUpstream));
      return {};
    };
    const auto decode_once = [&]() -> Status {
      SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<GazeMap> maps, model->Decode(scene, one));
      bench.output_sha256 = MapsDigest(maps);
      return {};
    };
    const auto decode_ten_once = [&]() -> Status {
      SIGHTLINE_RETURN_IF_ERROR(model->Decode(scene, ten));
      return {};
    };
    SIGHTLINE_RETURN_IF_ERROR((warm_up ? warm_encode : encode).Run(encode_once));
    SIGHTLINE_RETURN_IF_ERROR((warm_up ? warm_decode : decode).Run(decode_once));
    SIGHTLINE_RETURN_IF_ERROR((warm_up ? warm_ten : decode_ten).Run(decode_ten_once));
    if (progress && !warm_up) progress(i + 1, options.iterations);
  }
  bench.peak_gflops = peak;
  encode.Append(peak, &bench.stages);
  decode.Append(peak, &bench.stages);
  bench.backbone = encode.total().Summarize("backbone", peak);
  bench.model_one_head = (encode.total() + decode.total()).Summarize("model, one head", peak);
  bench.model_ten_heads = (encode.total() + decode_ten.total()).Summarize("model, ten heads", peak);
  bench.activation_bytes = backend->allocated_bytes();
  bench.info.device = backend->name();
  bench.info.backend = "cpu";
  bench.info.isa = backend->isa();
  bench.info.threads = backend->threads();
  bench.info.precision = precision;
  bench.info.dimensions = model->dimensions();
  bench.info.backbone = weights.backbone;
  bench.info.decoder = weights.decoder;
  bench.info.synthetic = weights.synthetic;
  bench.info.toy = weights.toy;
  return bench;
}

}  // namespace sightline
