// Speed of the backend's operations on the shapes of Gaze-LLE, as a share of what the machine reaches in the same run
// with multiply-adds in registers.
//
//   kernels_bench [f32|bf16 [threads [seconds per row [part of a row's name]]]]
//
// SIGHTLINE_ISA forces an instruction set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  Isa isa = Isa::kGeneric;
  Precision precision = Precision::kF32;
  int threads = 0;
  double seconds = 1;
  std::string only;  // rows with this in their name; empty: all
};

// Numbers in [-scale, scale) that differ, so that nothing is faster than with real ones.
std::vector<float> Noise(int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return values;
}

struct PackedWeights {
  std::vector<std::byte> bytes;
  WeightMatrix matrix;
  std::vector<float> bias;

  PackedWeights(const Backend& backend, Precision precision, int64_t outputs, int64_t inputs)
      : bytes(backend.PackedBytes(precision, outputs, inputs)), bias(Noise(outputs, 0.02f)) {
    backend.Pack(precision, Noise(outputs * inputs, 0.05f), outputs, inputs, bytes);
    matrix = {precision, outputs, inputs, bytes};
  }
};

struct Block {
  PackedWeights qkv, projection, fc1, fc2;
  std::vector<float> gain, bias;

  Block(const Backend& backend, Precision precision, int64_t width)
      : qkv(backend, precision, 3 * width, width),
        projection(backend, precision, width, width),
        fc1(backend, precision, 4 * width, width),
        fc2(backend, precision, width, 4 * width),
        gain(static_cast<size_t>(width), 1.0f),
        bias(Noise(width, 0.1f)) {}
};

struct Timing {
  double best = 1e9, median = 0;
};

Timing Measure(double seconds, const std::function<void()>& body) {
  body();
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end || times.size() < 3);
  std::ranges::sort(times);
  return {times.front(), times[times.size() / 2]};
}

class Report {
 public:
  explicit Report(const Settings& settings) : settings_(settings) {}

  bool Wants(const std::string& name) const { return name.find(settings_.only) != std::string::npos; }

  void Row(const std::string& name, double flops, const std::function<void()>& body) {
    if (!Wants(name)) return;
    UpdatePeak();
    const Timing timing = Measure(settings_.seconds, body);
    UpdatePeak();
    std::printf("%-34s best %8.3f ms  median %8.3f ms  %7.1f GFLOP/s  %5.1f %% of peak %.1f\n", name.c_str(),
                timing.best * 1e3, timing.median * 1e3, flops / timing.best * 1e-9, 100 * flops / timing.best / peak_,
                peak_ * 1e-9);
    std::fflush(stdout);
  }

 private:
  // The best seen in this run: a busy machine rarely leaves all processors free for a moment.
  void UpdatePeak() {
    peak_ = std::max(peak_, MeasurePeakFlops(settings_.isa, settings_.precision, settings_.threads));
  }

  const Settings& settings_;
  double peak_ = 0;
};

// One transformer block, as models/ runs it.
void RunBlock(Backend& backend, Precision precision, const Block& block, const Rows& x, const AttentionShape& shape) {
  const Storage operand = backend.OperandStorage(precision);
  Rows normed = backend.LayerNorm(x, block.gain, block.bias, 1e-6f, operand);
  const ProjectedHeads heads = backend.Qkv(normed, block.qkv.matrix, block.qkv.bias, shape);
  const Rows attended = backend.Attention(heads);
  backend.Linear(attended, block.projection.matrix, {.bias = block.projection.bias, .add_to = &x});
  normed = backend.LayerNorm(x, block.gain, block.bias, 1e-6f, operand);
  const Rows hidden =
      backend.Linear(normed, block.fc1.matrix, {.bias = block.fc1.bias, .activation = Activation::kGelu});
  backend.Linear(hidden, block.fc2.matrix, {.bias = block.fc2.bias, .add_to = &x});
}

double BlockFlops(const AttentionShape& shape) {
  const double width = shape.heads * shape.head_size, rows = static_cast<double>(shape.sequences * shape.length);
  return 24 * rows * width * width + 4 * rows * static_cast<double>(shape.length) * width;
}

void BenchLinear(Backend& backend, const Settings& settings, Report& report, int64_t rows, int64_t inputs,
                 int64_t outputs, bool gelu) {
  const std::string name = "linear " + std::to_string(rows) + "x" + std::to_string(inputs) + "x" +
                           std::to_string(outputs) + (gelu ? " gelu" : "");
  if (!report.Wants(name)) return;
  // Enough copies that weights come from far away, as in a model.
  std::vector<PackedWeights> copies;
  const int64_t count = std::max<int64_t>(1, (int64_t{48} << 20) / (inputs * outputs * 4));
  for (int64_t i = 0; i < count; ++i) copies.emplace_back(backend, settings.precision, outputs, inputs);
  const Rows x = backend.Upload(Noise(rows * inputs, 1), rows, inputs, backend.OperandStorage(settings.precision));
  size_t next = 0;
  report.Row(name, 2.0 * static_cast<double>(rows * inputs * outputs), [&] {
    const PackedWeights& w = copies[next++ % copies.size()];
    backend.Linear(x, w.matrix, {.bias = w.bias, .activation = gelu ? Activation::kGelu : Activation::kNone});
  });
}

void BenchAttention(Backend& backend, const Settings& settings, Report& report, const AttentionShape& shape) {
  const int64_t width = int64_t{1} * shape.heads * shape.head_size, rows = shape.sequences * shape.length;
  const std::string name = std::to_string(shape.sequences) + "x" + std::to_string(shape.length) + ", " +
                           std::to_string(shape.heads) + " heads x " + std::to_string(shape.head_size);
  if (!report.Wants("qkv " + name) && !report.Wants("attention " + name)) return;
  const PackedWeights qkv(backend, settings.precision, 3 * width, width);
  const Rows x = backend.Upload(Noise(rows * width, 1), rows, width, backend.OperandStorage(settings.precision));
  ProjectedHeads heads = backend.Qkv(x, qkv.matrix, qkv.bias, shape);
  const double row_count = static_cast<double>(rows), columns = static_cast<double>(width);
  report.Row("qkv " + name, 6 * row_count * columns * columns,
             [&] { heads = backend.Qkv(x, qkv.matrix, qkv.bias, shape); });
  report.Row("attention " + name, 4 * row_count * static_cast<double>(shape.length) * columns,
             [&] { backend.Attention(heads); });
}

void BenchStack(Backend& backend, const Settings& settings, Report& report, const std::string& name, int depth,
                const AttentionShape& shape) {
  const int64_t width = int64_t{1} * shape.heads * shape.head_size, rows = shape.sequences * shape.length;
  if (!report.Wants(name)) return;
  std::vector<Block> blocks;
  for (int i = 0; i < depth; ++i) blocks.emplace_back(backend, settings.precision, width);
  const std::vector<float> start = Noise(rows * width, 1);
  report.Row(name, depth * BlockFlops(shape), [&] {
    const Rows x = backend.Upload(start, rows, width, Storage::kStream);
    for (const Block& block : blocks) RunBlock(backend, settings.precision, block, x, shape);
  });
}

void Run(const Settings& settings) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({settings.threads, settings.isa});
  std::printf("%s, %s\n", backend->name().c_str(), std::string(NameOf(settings.precision)).c_str());
  Report report(settings);
  BenchLinear(*backend, settings, report, 1024, 588, 768, false);
  BenchLinear(*backend, settings, report, 1025, 768, 2304, false);
  BenchLinear(*backend, settings, report, 1025, 768, 768, false);
  BenchLinear(*backend, settings, report, 1025, 768, 3072, false);
  BenchLinear(*backend, settings, report, 1025, 768, 3072, true);
  BenchLinear(*backend, settings, report, 1025, 3072, 768, false);
  BenchLinear(*backend, settings, report, 1025, 256, 1024, true);
  BenchLinear(*backend, settings, report, 10240, 256, 4, false);
  BenchLinear(*backend, settings, report, 12, 768, 3072, false);
  BenchAttention(*backend, settings, report, {1, 1025, 12, 64});
  BenchAttention(*backend, settings, report, {10, 1025, 8, 32});
  const Rows x = backend->Upload(Noise(1025 * 768, 1), 1025, 768, Storage::kStream);
  const std::vector<float> ones(768, 1.0f);
  const Storage operand = backend->OperandStorage(settings.precision);
  report.Row("layer norm 1025x768", 8.0 * 1025 * 768, [&] { backend->LayerNorm(x, ones, ones, 1e-6f, operand); });
  BenchStack(*backend, settings, report, "decoder, 1 head", 3, {1, 1025, 8, 32});
  BenchStack(*backend, settings, report, "decoder, 10 heads", 3, {10, 1025, 8, 32});
  BenchStack(*backend, settings, report, "backbone ViT-B/14", 12, {1, 1025, 12, 64});
}

}  // namespace
}  // namespace sightline

int main(int argc, char** argv) {
  using namespace sightline;
  const auto isa = DetectIsa();
  const auto precision = ParsePrecision(argc > 1 ? argv[1] : "f32");
  if (!isa || !precision) {
    std::fprintf(stderr, "%s\n", (!isa ? isa.error() : precision.error()).message.c_str());
    return 2;
  }
  Settings settings;
  settings.isa = *isa;
  settings.precision = *precision;
  if (argc > 2) settings.threads = std::atoi(argv[2]);
  if (argc > 3) settings.seconds = std::atof(argv[3]);
  if (argc > 4) settings.only = argv[4];
  Run(settings);
  return 0;
}
