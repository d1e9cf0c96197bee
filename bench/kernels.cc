// Speed of the backend's operations on the shapes of Gaze-LLE and LocateAnything, as a share of what the machine
// reaches in the same run with multiply-adds in registers; for products of few rows also of the limit that reading the
// weights from memory sets.
//
//   kernels_bench [f32|bf16|int8|int4 [threads [seconds per row [part of a row's name]]]]
//
// SIGHTLINE_ISA forces an instruction set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
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

// As weight files have them: at the start of a cache line.
struct AlignedBytes {
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> data;
  size_t size = 0;

  explicit AlignedBytes(size_t bytes) : data(static_cast<std::byte*>(::operator new(bytes, kAlignment))), size(bytes) {}
  operator std::span<std::byte>() const { return {data.get(), size}; }
  operator std::span<const std::byte>() const { return {data.get(), size}; }
};

struct PackedWeights {
  AlignedBytes bytes;
  WeightMatrix matrix;
  std::vector<float> bias;

  PackedWeights(const Backend& backend, Precision precision, int64_t outputs, int64_t inputs)
      : bytes(backend.PackedBytes(precision, outputs, inputs)), bias(Noise(outputs, 0.02f)) {
    backend.Pack(precision, Noise(outputs * inputs, 0.05f), outputs, inputs, bytes);
    matrix = {precision, outputs, inputs, std::span<const std::byte>(bytes)};
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

using Memories = std::vector<std::span<const std::byte>>;

class Report {
 public:
  explicit Report(const Settings& settings) : settings_(settings) {}

  bool Wants(const std::string& name) const { return name.find(settings_.only) != std::string::npos; }

  // Each time one of `memories` is read, which are many of a size; none: not worth mentioning.
  void Row(const std::string& name, double flops, const std::function<void()>& body, const Memories& memories = {}) {
    if (!Wants(name)) return;
    UpdateLimits(memories);
    const Timing timing = Measure(settings_.seconds, body);
    UpdateLimits(memories);
    std::printf("%-34s best %8.3f ms  median %8.3f ms  %7.1f GFLOP/s  %5.1f %% of peak %.1f", name.c_str(),
                timing.best * 1e3, timing.median * 1e3, flops / timing.best * 1e-9, 100 * flops / timing.best / peak_,
                peak_ * 1e-9);
    if (!memories.empty()) {
      const auto bytes = static_cast<double>(memories.front().size());
      const double rate = bytes / timing.best, limit = std::max(flops / peak_, bytes / read_rate_);
      std::printf("  %5.1f GB/s, %5.1f %% of read rate %.1f, %5.1f %% of the limit", rate * 1e-9,
                  100 * rate / read_rate_, read_rate_ * 1e-9, 100 * limit / timing.best);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  // The best seen in this run: a busy machine rarely leaves all processors free for a moment.
  void UpdateLimits(const Memories& memories) {
    peak_ = std::max(peak_, MeasurePeakFlops(settings_.isa, settings_.precision, settings_.threads));
    if (memories.empty()) return;
    read_rate_ = std::max(read_rate_, MeasureReadRate(settings_.isa, settings_.threads, memories));
  }

  const Settings& settings_;
  double peak_ = 0;
  double read_rate_ = 0;
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

struct LinearShape {
  int64_t rows, inputs, outputs;
  Activation activation = Activation::kNone;
};

std::string NameOf(const LinearShape& shape) {
  std::string name =
      "linear " + std::to_string(shape.rows) + "x" + std::to_string(shape.inputs) + "x" + std::to_string(shape.outputs);
  if (shape.activation == Activation::kGelu) name += " gelu";
  if (shape.activation == Activation::kGeluTanh) name += " gelu_tanh";
  return name;
}

void BenchLinear(Backend& backend, const Settings& settings, Report& report, const LinearShape& shape) {
  const auto& [rows, inputs, outputs, activation] = shape;
  const std::string name = NameOf(shape);
  if (!report.Wants(name)) return;
  constexpr int64_t kFewRows = 12;
  // Enough copies that weights come from far away, as in a model; where that is all that counts, more than the last
  // cache of a server holds.
  std::vector<PackedWeights> copies;
  const auto bytes = static_cast<double>(backend.PackedBytes(settings.precision, outputs, inputs));
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>((rows <= kFewRows ? 0x1p30 : 0x1p27) / bytes));
  for (int64_t i = 0; i < count; ++i) copies.emplace_back(backend, settings.precision, outputs, inputs);
  Memories memories;
  if (rows <= kFewRows) {
    for (const PackedWeights& weights : copies) memories.push_back(weights.matrix.packed);
  }
  const Rows x = backend.Upload(Noise(rows * inputs, 1), rows, inputs, backend.OperandStorage(settings.precision));
  size_t next = 0;
  const auto multiply = [&] {
    const PackedWeights& w = copies[next++ % copies.size()];
    backend.Linear(x, w.matrix, {.bias = w.bias, .activation = shape.activation, .stream_output = true});
  };
  report.Row(name, 2.0 * static_cast<double>(rows * inputs * outputs), multiply, memories);
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

void BenchMaskedAttention(Backend& backend, const Settings& settings, Report& report, const std::string& name,
                          int heads, int key_heads, int size, int64_t rows, const Mask& mask) {
  if (!report.Wants(name)) return;
  const KeyValues cache =
      backend.EmptyKeyValues(mask.keys, key_heads, size, backend.AttentionStorage(settings.precision));
  const int64_t columns = int64_t{size} * (heads + 2 * key_heads);
  const Rows projected = backend.Upload(Noise(mask.keys * columns, 1), mask.keys, columns, Storage::kStream);
  backend.SplitHeads(projected, heads, {}, 0, cache);
  const Rows own = Backend::Slice(projected, mask.keys - rows, rows);
  const std::vector<float> angles(static_cast<size_t>(rows * size / 2), 0.5f);
  Queries queries;
  const auto split = [&] {
    queries = backend.SplitHeads(own, heads, {RopePairs::kHalves, angles, angles}, mask.keys - rows, cache);
  };
  report.Row("split heads of " + name, 0, split);
  split();
  double seen = static_cast<double>((rows - mask.causal_rows) * mask.keys);
  for (int64_t row = 0; row < mask.causal_rows; ++row) seen += static_cast<double>(mask.first_key + row + 1);
  report.Row(name, 4 * seen * heads * size, [&] { backend.Attention(queries, cache, mask, Storage::kStream); });
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

void BenchGazeLle(Backend& backend, const Settings& settings, Report& report) {
  const LinearShape shapes[] = {
      {1024, 588, 768},
      {1025, 768, 2304},
      {1025, 768, 768},
      {1025, 768, 3072},
      {1025, 768, 3072, Activation::kGelu},
      {1025, 3072, 768},
      {1025, 256, 1024, Activation::kGelu},
      {10240, 256, 4},
      {12, 768, 3072},
  };
  for (const LinearShape& shape : shapes) BenchLinear(backend, settings, report, shape);
  BenchAttention(backend, settings, report, {1, 1025, 12, 64});
  BenchAttention(backend, settings, report, {10, 1025, 8, 32});
  const Rows x = backend.Upload(Noise(1025 * 768, 1), 1025, 768, Storage::kStream);
  const std::vector<float> ones(768, 1.0f);
  const Storage operand = backend.OperandStorage(settings.precision);
  report.Row("layer norm 1025x768", 8.0 * 1025 * 768, [&] { backend.LayerNorm(x, ones, ones, 1e-6f, operand); });
  BenchStack(backend, settings, report, "decoder, 1 head", 3, {1, 1025, 8, 32});
  BenchStack(backend, settings, report, "decoder, 10 heads", 3, {10, 1025, 8, 32});
  BenchStack(backend, settings, report, "backbone ViT-B/14", 12, {1, 1025, 12, 64});
}

// Of one picture of 1056 patches.
void BenchMoonVit(Backend& backend, const Settings& settings, Report& report) {
  const LinearShape shapes[] = {
      {1056, 1152, 3456}, {1056, 1152, 1152}, {1056, 1152, 4304, Activation::kGeluTanh}, {1056, 4304, 1152}};
  for (const LinearShape& shape : shapes) BenchLinear(backend, settings, report, shape);
  BenchMaskedAttention(backend, settings, report, "attention 1056, 16x72", 16, 16, 72, 1056, {.keys = 1056});
}

// Prompt, box step and token of the language model, and its head.
void BenchQwen(Backend& backend, const Settings& settings, Report& report) {
  for (const int64_t rows : {303, 12, 1}) {
    const LinearShape shapes[] = {{rows, 2048, 22016}, {rows, 11008, 2048}, {rows, 2048, 2560}, {rows, 2048, 2048}};
    for (const LinearShape& shape : shapes) BenchLinear(backend, settings, report, shape);
  }
  BenchLinear(backend, settings, report, {6, 2048, 152681});
  BenchMaskedAttention(backend, settings, report, "attention 303 of 303, 16/2x128", 16, 2, 128, 303,
                       {.keys = 303, .causal_rows = 303});
  BenchMaskedAttention(backend, settings, report, "attention 12 of 320, 16/2x128", 16, 2, 128, 12,
                       {.keys = 320, .causal_rows = 6, .first_key = 308, .hidden_key = 313});
  const Storage operand = backend.OperandStorage(settings.precision);
  const Rows x = backend.Upload(Noise(303 * 2048, 1), 303, 2048, Storage::kStream);
  const std::vector<float> ones(2048, 1.0f);
  report.Row("rms norm 303x2048", 0, [&] { backend.RmsNorm(x, ones, 1e-6f, operand); });
  const Rows gates = backend.Upload(Noise(303 * 22016, 1), 303, 22016, Storage::kStream);
  report.Row("swiglu 303x11008", 0, [&] { backend.SwiGlu(gates, operand); });
}

void Run(const Settings& settings) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({settings.threads, settings.isa});
  std::printf("%s, %s\n", backend->name().c_str(), std::string(NameOf(settings.precision)).c_str());
  Report report(settings);
  if (settings.precision == Precision::kF32 || settings.precision == Precision::kBF16) {
    BenchGazeLle(*backend, settings, report);
    BenchMoonVit(*backend, settings, report);
  }
  BenchQwen(*backend, settings, report);
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
