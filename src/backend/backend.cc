#include "backend/backend.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numbers>

#include "backend/storage.h"

namespace sightline {
namespace {

// Head sizes are multiples of this many channels on every backend.
constexpr int kHeadSizeStep = 16;

// Multiplications and additions of a [m, k] by [k, n] product, in units of 1e9.
double ProductGflop(int64_t m, int64_t n, int64_t k) {
  return 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

void CheckRows(const Rows& rows) {
  SIGHTLINE_CHECK(rows.block != nullptr && rows.rows >= 0 && rows.columns > 0);
  SIGHTLINE_CHECK(rows.offset + static_cast<size_t>(rows.rows) * RowBytes(rows) <= rows.block->bytes);
}

void CheckWeights(const Backend& backend, const WeightMatrix& w) {
  SIGHTLINE_CHECK(w.outputs > 0 && w.inputs > 0);
  SIGHTLINE_CHECK(w.packed.size() == backend.PackedBytes(w.precision, w.outputs, w.inputs));
}

void CheckVector(WeightVector vector, int64_t size) {
  SIGHTLINE_CHECK(vector.empty() || static_cast<int64_t>(vector.size()) == size);
}

void CheckShape(const AttentionShape& shape, const Rows& x) {
  SIGHTLINE_CHECK(shape.sequences > 0 && shape.length > 0 && shape.heads > 0);
  SIGHTLINE_CHECK(shape.head_size > 0 && shape.head_size % kHeadSizeStep == 0);
  SIGHTLINE_CHECK(x.rows == shape.sequences * shape.length);
}

}  // namespace

std::string_view NameOf(Precision precision) { return precision == Precision::kF32 ? "f32" : "bf16"; }

Result<Precision> ParsePrecision(std::string_view name) {
  if (name == "f32") return Precision::kF32;
  if (name == "bf16") return Precision::kBF16;
  return Fail(Code::kUsage, "precision is '" + std::string(name) + "', expected f32 or bf16");
}

float QueryScale(int head_size) { return static_cast<float>(std::numbers::log2e / std::sqrt(double{1} * head_size)); }

template <typename Compute, typename Name>
void Backend::Observed(const Compute& compute, const Name& name, double gflop) const {
  if (!observer_) return compute();
  const auto start = std::chrono::steady_clock::now();
  compute();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  observer_({name(), gflop, spent.count()});
}

Rows Backend::Empty(int64_t rows, int64_t columns, Storage storage) {
  SIGHTLINE_CHECK(rows >= 0 && columns > 0);
  Rows result{nullptr, 0, rows, columns, storage};
  result.block = Allocate(static_cast<size_t>(rows) * RowBytes(result));
  return result;
}

Storage Backend::OperandStorage(Precision precision) const { return DoOperandStorage(precision); }

Rows Backend::Upload(std::span<const float> values, int64_t rows, int64_t columns, Storage storage) {
  SIGHTLINE_CHECK(static_cast<int64_t>(values.size()) == rows * columns);
  Rows result = Empty(rows, columns, storage);
  DoUpload(values, result);
  return result;
}

std::vector<float> Backend::Download(const Rows& rows) {
  CheckRows(rows);
  std::vector<float> values(static_cast<size_t>(rows.rows * rows.columns));
  DoDownload(rows, values);
  return values;
}

void Backend::CopyRows(const Rows& from, const Rows& to) {
  CheckRows(from);
  CheckRows(to);
  SIGHTLINE_CHECK(from.rows == to.rows && from.columns == to.columns && from.storage == to.storage);
  DoCopyRows(from, to);
}

Rows Backend::Slice(const Rows& rows, int64_t first, int64_t count) {
  SIGHTLINE_CHECK(first >= 0 && count >= 0 && first + count <= rows.rows);
  Rows result = rows;
  result.offset += static_cast<size_t>(first) * RowBytes(rows);
  result.rows = count;
  return result;
}

Rows Backend::Linear(const Rows& x, const WeightMatrix& w, const LinearOptions& options) {
  CheckRows(x);
  CheckWeights(*this, w);
  CheckVector(options.bias, w.outputs);
  SIGHTLINE_CHECK(x.columns == w.inputs);
  SIGHTLINE_CHECK(x.storage == OperandStorage(w.precision) ||
                  (x.storage == Storage::kStream && w.precision == Precision::kF32));
  Rows y;
  if (options.add_to != nullptr) {
    y = *options.add_to;
    CheckRows(y);
    SIGHTLINE_CHECK(y.storage == Storage::kStream && y.rows == x.rows && y.columns == w.outputs);
  } else {
    y = Empty(x.rows, w.outputs, options.stream_output ? Storage::kStream : x.storage);
  }
  Observed([&] { DoLinear(x, w, options, y); }, [&] { return fmt::format("linear {}x{}", w.inputs, w.outputs); },
           ProductGflop(x.rows, w.outputs, w.inputs));
  return y;
}

Rows Backend::LayerNorm(const Rows& x, WeightVector gain, WeightVector bias, float epsilon, Storage output) {
  CheckRows(x);
  SIGHTLINE_CHECK(x.storage == Storage::kStream);
  SIGHTLINE_CHECK(static_cast<int64_t>(gain.size()) == x.columns && static_cast<int64_t>(bias.size()) == x.columns);
  const Rows y = Empty(x.rows, x.columns, output);
  Observed([&] { DoLayerNorm(x, gain, bias, epsilon, y); }, [&] { return fmt::format("layer norm {}", x.columns); }, 0);
  return y;
}

ProjectedHeads Backend::Qkv(const Rows& x, const WeightMatrix& w, WeightVector bias, const AttentionShape& shape) {
  CheckRows(x);
  CheckWeights(*this, w);
  CheckVector(bias, w.outputs);
  CheckShape(shape, x);
  SIGHTLINE_CHECK(x.columns == w.inputs && x.storage == OperandStorage(w.precision));
  SIGHTLINE_CHECK(w.outputs == int64_t{3} * shape.heads * shape.head_size);
  ProjectedHeads projected;
  Observed([&] { projected = DoQkv(x, w, bias, shape); }, [&] { return fmt::format("qkv {}x{}", w.inputs, w.outputs); },
           ProductGflop(x.rows, w.outputs, w.inputs));
  return projected;
}

Rows Backend::Attention(const ProjectedHeads& projected) {
  const AttentionShape& shape = projected.shape;
  const Rows y = Empty(shape.sequences * shape.length, int64_t{1} * shape.heads * shape.head_size, projected.storage);
  CheckShape(shape, y);
  SIGHTLINE_CHECK(projected.queries != nullptr && projected.keys != nullptr && projected.values != nullptr);
  Observed([&] { DoAttention(projected, y); },
           [&] { return fmt::format("attention {}x{}", shape.heads, shape.head_size); },
           2 * ProductGflop(y.rows, y.columns, shape.length));
  return y;
}

}  // namespace sightline
