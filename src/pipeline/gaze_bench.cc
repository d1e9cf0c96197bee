#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "pipeline/pipeline.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Times of one thing over all iterations.
struct Series {
  std::vector<double> ms;
  double gflop = 0;

  GazeBench::Stage Summarize(std::string name, double peak_gflops) const {
    std::vector<double> sorted = ms;
    std::ranges::sort(sorted);
    const double best = sorted.front();
    return {std::move(name), best, sorted[sorted.size() / 2], gflop, gflop / (best / 1000) / peak_gflops};
  }
};

// Adds up what the backend reports during one forward pass, by operation.
class StageClock {
 public:
  explicit StageClock(Backend& backend, std::string prefix) : backend_(backend), prefix_(std::move(prefix)) {}

  template <typename Pass>
  Status Run(Pass&& pass) {
    std::map<std::string, Series> once;
    std::vector<std::string> order;
    backend_.Observe([&](const Operation& operation) {
      Series& series = once[operation.name];
      if (series.ms.empty()) {
        series.ms.push_back(0);
        order.push_back(operation.name);
      }
      series.ms[0] += operation.ms;
      series.gflop += operation.gflop;
    });
    const auto start = Clock::now();
    Status status = pass();
    total_.ms.push_back(MillisecondsSince(start));
    backend_.Observe({});
    total_.gflop = 0;
    for (const std::string& name : order) {
      Series& series = stages_[name];
      if (series.ms.empty()) order_.push_back(name);
      series.ms.push_back(once[name].ms[0]);
      series.gflop = once[name].gflop;
      total_.gflop += series.gflop;
    }
    return status;
  }

  const Series& total() const { return total_; }
  void Append(double peak_gflops, std::vector<GazeBench::Stage>* stages) const {
    for (const std::string& name : order_) {
      stages->push_back(stages_.at(name).Summarize(prefix_ + name, peak_gflops));
    }
  }

 private:
  Backend& backend_;
  std::string prefix_;
  std::map<std::string, Series> stages_;
  std::vector<std::string> order_;
  Series total_;
};

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

Series Sum(const Series& encode, const Series& decode) {
  Series sum{{}, encode.gflop + decode.gflop};
  for (size_t i = 0; i < encode.ms.size(); ++i) sum.ms.push_back(encode.ms[i] + decode.ms[i]);
  return sum;
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
  SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path cache, CacheFolder());
  const auto load_start = Clock::now();
  SIGHTLINE_ASSIGN_OR_RETURN(const auto model, GazeLle::Load(*backend, weights.files, precision, cache));

  GazeBench bench;
  bench.load_ms = MillisecondsSince(load_start);
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
  bench.model_one_head = Sum(encode.total(), decode.total()).Summarize("model, one head", peak);
  bench.model_ten_heads = Sum(encode.total(), decode_ten.total()).Summarize("model, ten heads", peak);
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
