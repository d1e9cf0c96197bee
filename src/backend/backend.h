// backend: the seam between the models and the hardware. A Backend owns device memory and runs a handful of operations
// on it; the public methods check shapes once, the private virtuals compute. One Backend is used by one thread at a
// time (the device thread); it spreads the work over its own team.
//
// Repeatability: an output row's bits do not depend on how many rows, sequences or threads are computed with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "tensor/tensor.h"

namespace sightline {

// Number format of a model's weights. Sums over groups of an integer format are exact; everything else accumulates in
// float32.
//   kInt8   8-bit weights, one float32 scale for every 64 inputs of an output; inputs are quantised to 8 bits with one
//           scale for every 128 values of a row
//   kInt8Weights  weights as for kInt8, inputs as for kBF16
//   kInt4   4-bit weights, one float32 scale for every 64 inputs of an output; inputs as for kInt8
enum class Precision { kF32, kBF16, kInt8, kInt8Weights, kInt4 };
std::string_view NameOf(Precision precision);  // "f32", "bf16", "int8", "int8w", "int4"
Result<Precision> ParsePrecision(std::string_view name);

// How rows are kept on the device: kStream is float32 (residual stream, results); kOperand is what a Linear of the
// given precision reads (float32, bfloat16 or 8-bit integers with their scales, the backend's choice).
enum class Storage { kStream, kOperandF32, kOperandBF16, kOperandInt8 };

// Device memory. The block returns to its backend's pool when the last handle goes, so a second identical request
// allocates nothing.
class DeviceBlock {
 public:
  virtual ~DeviceBlock() = default;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// A matrix of rows on the device. Copies share memory.
struct Rows {
  std::shared_ptr<DeviceBlock> block;
  size_t offset = 0;  // bytes into the block
  int64_t rows = 0;
  int64_t columns = 0;
  Storage storage = Storage::kStream;
};

// Weight matrix [outputs, inputs] in the backend's own layout; usually memory of a mapped file.
struct WeightMatrix {
  Precision precision = Precision::kF32;
  int64_t outputs = 0;
  int64_t inputs = 0;
  std::span<const std::byte> packed;
};
// Plain float32 row of numbers (bias, gain).
using WeightVector = std::span<const float>;

// kGelu is the exact erf form, kGeluTanh 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
enum class Activation { kNone, kGelu, kGeluTanh, kRelu };

struct LinearOptions {
  WeightVector bias = {};  // empty: none
  Activation activation = Activation::kNone;
  // Output goes here, added to what is there (kStream, same rows, `outputs` columns). The result is this tensor.
  const Rows* add_to = nullptr;
  // Storage of a fresh output when add_to is null; by default the storage of the input.
  bool stream_output = false;
};

// Attention geometry: `sequences` independent sequences of `length` rows, stacked in one Rows.
struct AttentionShape {
  int64_t sequences = 1;
  int64_t length = 0;
  int heads = 0;
  int head_size = 0;
};

// Queries, keys and values in the backend's own layout.
struct ProjectedHeads {
  std::shared_ptr<DeviceBlock> queries, keys, values;
  AttentionShape shape;
  Storage storage = Storage::kOperandF32;
};

// Rotary position embedding (arXiv 2104.09864): pairs of channels of every query and key turn by angles that belong to
// their row.
enum class RopePairs {
  kNeighbours,  // channels 2p and 2p + 1 (MoonViT)
  kHalves,      // channels p and p + head_size / 2 (Qwen2)
};
struct Rope {
  RopePairs pairs = RopePairs::kHalves;
  std::span<const float> cosine = {}, sine = {};  // [rows, head_size / 2]; both empty: nothing turns
};

// Keys and values of one layer for the positions [0, capacity), in the backend's own layout. Copies share memory. Which
// positions hold something is the caller's business; a fresh one is all zeros.
struct KeyValues {
  std::shared_ptr<DeviceBlock> keys, values;
  int64_t capacity = 0;
  int heads = 0;
  int head_size = 0;
  Storage storage = Storage::kOperandF32;
};

// Rotated and scaled queries in the backend's own layout.
struct Queries {
  std::shared_ptr<DeviceBlock> block;
  int64_t rows = 0;
  int heads = 0;
  int head_size = 0;
  Storage storage = Storage::kOperandF32;
};

// Which of the keys [0, keys) a query row sees. The first `causal_rows` rows see the keys up to their own, row i those
// of [0, first_key + i]; the rows behind them see all keys but `hidden_key`. Full attention has no causal rows, a
// decoder has only such, and the six-token window of LocateAnything is both (its free rows do not see the last token,
// which stands in the window a second time).
struct Mask {
  int64_t keys = 0;
  int64_t causal_rows = 0;
  int64_t first_key = 0;
  std::optional<int64_t> hidden_key = {};
};

// What an operation did, for benchmarks.
struct Operation {
  std::string name;  // "linear 768x3072", "attention 12x64"
  double gflop = 0;  // multiplications and additions of matrix products
  double ms = 0;
};
using OperationObserver = std::function<void(const Operation&)>;

// Factor to fold into the query rows of a projection: Attention computes softmax in base 2 and applies no scale.
float QueryScale(int head_size);  // log2(e) / sqrt(head_size)

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "CPU avx2, 2 threads"
  virtual std::string isa() const = 0;   // "avx2"
  virtual int threads() const = 0;
  // What `auto` means here: bf16 where the processor computes in it, else f32.
  virtual Precision preferred_precision() const = 0;
  // Bytes of activation memory taken so far; constant from the second identical request on.
  virtual size_t allocated_bytes() const = 0;

  // ---- weights
  // Names the arrangement of packed bytes; packed files carry it. "f32-panel16"
  virtual std::string PackedLayout(Precision precision) const = 0;
  virtual size_t PackedBytes(Precision precision, int64_t outputs, int64_t inputs) const = 0;
  // weight is [outputs, inputs], row-major.
  virtual void Pack(Precision precision, std::span<const float> weight, int64_t outputs, int64_t inputs,
                    std::span<std::byte> packed) const = 0;

  // ---- memory
  Rows Empty(int64_t rows, int64_t columns, Storage storage);
  // What Linear reads with weights of this precision.
  Storage OperandStorage(Precision precision) const;
  // How queries, keys and values are kept beside weights of this precision; never kOperandInt8.
  Storage AttentionStorage(Precision precision) const;
  Rows Upload(std::span<const float> values, int64_t rows, int64_t columns, Storage storage);
  std::vector<float> Download(const Rows& rows);
  // Same storage, same columns, to.rows == from.rows.
  void CopyRows(const Rows& from, const Rows& to);
  // `count` rows from `first`, sharing memory.
  static Rows Slice(const Rows& rows, int64_t first, int64_t count);
  // The same numbers as rows of another length, sharing memory. kStream only; rows * columns stays.
  static Rows Reshape(const Rows& rows, int64_t new_rows, int64_t new_columns);
  // kStream rows as operand, rounded or quantised.
  Rows Convert(const Rows& x, Storage storage);
  KeyValues EmptyKeyValues(int64_t capacity, int heads, int head_size, Storage storage);
  // Copies the positions [0, count). Same heads, head size and storage; capacities may differ.
  void CopyKeyValues(const KeyValues& from, int64_t count, const KeyValues& to);

  // ---- compute
  // y = activation(x * w^T + bias), or add_to += that. x is kept as OperandStorage(w.precision); an f32 weight also
  // takes kStream, which is the same on every backend.
  Rows Linear(const Rows& x, const WeightMatrix& w, const LinearOptions& options);
  // Per row: (x - mean) / sqrt(variance + epsilon) * gain + bias, statistics in float32. x is kStream.
  Rows LayerNorm(const Rows& x, WeightVector gain, WeightVector bias, float epsilon, Storage output);
  // x * w^T + bias split into queries, keys and values: w has 3 * heads * head_size outputs ordered
  // [which][head][channel], and its query part carries QueryScale.
  ProjectedHeads Qkv(const Rows& x, const WeightMatrix& w, WeightVector bias, const AttentionShape& shape);
  // softmax2(q k^T) v over all keys of the sequence; heads side by side in the columns. Operand storage.
  Rows Attention(const ProjectedHeads& projected);

  // Per row: x / sqrt(mean of squares + epsilon) * gain, statistics in float32. x is kStream.
  Rows RmsNorm(const Rows& x, WeightVector gain, float epsilon, Storage output);
  // x is [rows, 2 * m], gates then values: silu(gate) * value, [rows, m]. x is kStream.
  Rows SwiGlu(const Rows& x, Storage output);
  // Takes apart a projection, kStream [rows, (heads + 2 * cache.heads) * head_size]: queries, keys, values, each head
  // by head. Turns queries and keys, scales the queries by QueryScale, writes keys and values to the positions
  // [position, position + rows) of the cache and returns the queries. cache.heads divides `heads`.
  Queries SplitHeads(const Rows& projected, int heads, const Rope& rope, int64_t position, const KeyValues& cache);
  // softmax2(q k^T) v over the keys that the mask shows, [rows, heads * head_size]. Query head j reads the keys of head
  // j / (heads / cache.heads). No buffer grows with rows * keys. A row that sees nothing is a bug.
  Rows Attention(const Queries& queries, const KeyValues& cache, const Mask& mask, Storage output);

  // Called after every compute operation from now on; an empty function ends it.
  void Observe(OperationObserver observer) { observer_ = std::move(observer); }

 private:
  OperationObserver observer_;

  // Runs `compute`, and tells the observer when there is one.
  template <typename Compute, typename Name>
  void Observed(const Compute& compute, const Name& name, double gflop) const;

  virtual std::shared_ptr<DeviceBlock> Allocate(size_t bytes) = 0;
  virtual Storage DoOperandStorage(Precision precision) const = 0;
  virtual void DoUpload(std::span<const float> values, const Rows& to) = 0;
  virtual void DoDownload(const Rows& from, std::span<float> values) = 0;
  virtual void DoCopyRows(const Rows& from, const Rows& to) = 0;
  virtual void DoLinear(const Rows& x, const WeightMatrix& w, const LinearOptions& options, const Rows& y) = 0;
  virtual void DoLayerNorm(const Rows& x, WeightVector gain, WeightVector bias, float epsilon, const Rows& y) = 0;
  virtual ProjectedHeads DoQkv(const Rows& x, const WeightMatrix& w, WeightVector bias,
                               const AttentionShape& shape) = 0;
  virtual void DoAttention(const ProjectedHeads& projected, const Rows& y) = 0;
  virtual Storage DoAttentionStorage(Precision precision) const = 0;
  virtual void DoConvert(const Rows& x, const Rows& y) = 0;
  virtual KeyValues DoEmptyKeyValues(int64_t capacity, int heads, int head_size, Storage storage) = 0;
  virtual void DoCopyKeyValues(const KeyValues& from, int64_t count, const KeyValues& to) = 0;
  virtual void DoRmsNorm(const Rows& x, WeightVector gain, float epsilon, const Rows& y) = 0;
  virtual void DoSwiGlu(const Rows& x, const Rows& y) = 0;
  virtual Queries DoSplitHeads(const Rows& projected, int heads, const Rope& rope, int64_t position,
                               const KeyValues& cache) = 0;
  virtual void DoMaskedAttention(const Queries& queries, const KeyValues& cache, const Mask& mask, const Rows& y) = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// CPU

// Instruction sets, weakest first.
enum class Isa { kGeneric, kAvx2, kAvx512, kAvx512Bf16, kAmx };
inline constexpr std::array kAllIsas = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx};
std::string_view NameOf(Isa isa);  // "generic", "avx2", "avx512", "avx512_bf16", "amx"
Result<Isa> ParseIsa(std::string_view name);
// The strongest one this processor and operating system have; lowered by the environment variable SIGHTLINE_ISA.
// kUnsupported when SIGHTLINE_ISA names one that is not there.
Result<Isa> DetectIsa();

struct CpuOptions {
  int threads = 0;          // 0: DefaultThreadCount()
  Isa isa = Isa::kGeneric;  // must be available
};
std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options);

// Floating-point operations a second that this machine reaches now with multiply-adds in registers, on `threads`
// threads: what "share of peak" in benchmarks divides by. bf16 on an ISA without bfloat16 arithmetic is its f32 peak.
double MeasurePeakFlops(Isa isa, Precision precision, int threads);
// Bytes a second that `threads` threads read together from these memories one after the other, once, each thread its
// part of every one. Where they are the weights of a model, and more than any cache holds: the limit of a step of few
// rows.
double MeasureReadRate(Isa isa, int threads, std::span<const std::span<const std::byte>> memories);

// ---------------------------------------------------------------------------------------------------------------------
// Recorder

// Runs nothing: writes down each operation and its shapes, one line an operation. Shapes are checked as on any backend;
// Download gives zeros. The lines are the op plan of a model.
class RecordingBackend;
std::unique_ptr<Backend> MakeRecordingBackend(std::vector<std::string>* lines);

}  // namespace sightline
