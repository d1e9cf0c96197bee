#include "backend/backend.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numbers>

#include "backend/storage.h"

namespace sightline {
namespace {

// Head sizes are multiples of this many channels on every backend; those of Qkv, which cuts its product into heads, of
// twice as many.
constexpr int kHeadSizeStep = 8;
constexpr int kQkvHeadSizeStep = 16;

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
  SIGHTLINE_CHECK(shape.head_size > 0 && shape.head_size % kQkvHeadSizeStep == 0);
  SIGHTLINE_CHECK(x.rows == shape.sequences * shape.length);
}

void CheckCache(const KeyValues& cache) {
  SIGHTLINE_CHECK(cache.keys != nullptr && cache.values != nullptr);
  SIGHTLINE_CHECK(cache.capacity > 0 && cache.heads > 0);
  SIGHTLINE_CHECK(cache.head_size > 0 && cache.head_size % kHeadSizeStep == 0);
}

// Every row sees a key.
void CheckMask(const Mask& mask, int64_t rows, int64_t capacity) {
  SIGHTLINE_CHECK(mask.keys > 0 && mask.keys <= capacity);
  SIGHTLINE_CHECK(mask.causal_rows >= 0 && mask.causal_rows <= rows);
  SIGHTLINE_CHECK(mask.first_key >= 0 && mask.first_key + mask.causal_rows <= mask.keys);
  if (!mask.hidden_key) return;
  SIGHTLINE_CHECK(*mask.hidden_key >= 0 && *mask.hidden_key < mask.keys);
  SIGHTLINE_CHECK(mask.keys > 1 || mask.causal_rows == rows);
}

// Keys that all rows see together.
double SeenKeys(const Mask& mask, int64_t rows) {
  const auto causal = static_cast<double>(mask.causal_rows), first = static_cast<double>(mask.first_key);
  return causal * (first + (causal + 1) / 2) +
         static_cast<double>(rows - mask.causal_rows) * static_cast<double>(mask.keys);
}

constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBF16, Precision::kInt8, Precision::kInt8Weights,
                                     Precision::kInt4};

}  // namespace

std::string_view NameOf(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return "f32";
    case Precision::kBF16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
    case Precision::kInt8Weights:
      return "int8w";
    case Precision::kInt4:
      return "int4";
  }
  return "unknown";
}

Result<Precision> ParsePrecision(std::string_view name) {
  for (const Precision precision : kPrecisions) {
    if (name == NameOf(precision)) return precision;
  }
  return Fail(Code::kUsage, "precision is '" + std::string(name) + "', expected f32, bf16, int8, int8w or int4");
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

Storage Backend::AttentionStorage(Precision precision) const { return DoAttentionStorage(precision); }

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

Rows Backend::Reshape(const Rows& rows, int64_t new_rows, int64_t new_columns) {
  SIGHTLINE_CHECK(rows.storage == Storage::kStream && new_rows >= 0 && new_columns > 0);
  SIGHTLINE_CHECK(rows.rows * rows.columns == new_rows * new_columns);
  Rows result = rows;
  result.rows = new_rows;
  result.columns = new_columns;
  return result;
}

Rows Backend::Convert(const Rows& x, Storage storage) {
  CheckRows(x);
  SIGHTLINE_CHECK(x.storage == Storage::kStream);
  const Rows y = Empty(x.rows, x.columns, storage);
  Observed([&] { DoConvert(x, y); }, [&] { return fmt::format("convert {}", x.columns); }, 0);
  return y;
}

KeyValues Backend::EmptyKeyValues(int64_t capacity, int heads, int head_size, Storage storage) {
  SIGHTLINE_CHECK(capacity > 0 && heads > 0 && head_size > 0 && head_size % kHeadSizeStep == 0);
  SIGHTLINE_CHECK(storage == Storage::kOperandF32 || storage == Storage::kOperandBF16);
  return DoEmptyKeyValues(capacity, heads, head_size, storage);
}

void Backend::CopyKeyValues(const KeyValues& from, int64_t count, const KeyValues& to) {
  CheckCache(from);
  CheckCache(to);
  SIGHTLINE_CHECK(from.heads == to.heads && from.head_size == to.head_size && from.storage == to.storage);
  SIGHTLINE_CHECK(count >= 0 && count <= from.capacity && count <= to.capacity);
  DoCopyKeyValues(from, count, to);
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

Rows Backend::RmsNorm(const Rows& x, WeightVector gain, float epsilon, Storage output) {
  CheckRows(x);
  SIGHTLINE_CHECK(x.storage == Storage::kStream && static_cast<int64_t>(gain.size()) == x.columns);
  const Rows y = Empty(x.rows, x.columns, output);
  Observed([&] { DoRmsNorm(x, gain, epsilon, y); }, [&] { return fmt::format("rms norm {}", x.columns); }, 0);
  return y;
}

Rows Backend::SwiGlu(const Rows& x, Storage output) {
  CheckRows(x);
  SIGHTLINE_CHECK(x.storage == Storage::kStream && x.columns % 2 == 0);
  const Rows y = Empty(x.rows, x.columns / 2, output);
  Observed([&] { DoSwiGlu(x, y); }, [&] { return fmt::format("swiglu {}", y.columns); }, 0);
  return y;
}

Queries Backend::SplitHeads(const Rows& projected, int heads, const Rope& rope, int64_t position,
                            const KeyValues& cache) {
  CheckRows(projected);
  CheckCache(cache);
  SIGHTLINE_CHECK(projected.storage == Storage::kStream);
  SIGHTLINE_CHECK(heads > 0 && heads % cache.heads == 0);
  SIGHTLINE_CHECK(projected.columns == (int64_t{heads} + 2 * int64_t{cache.heads}) * cache.head_size);
  SIGHTLINE_CHECK(position >= 0 && position + projected.rows <= cache.capacity);
  CheckVector(rope.cosine, projected.rows * cache.head_size / 2);
  SIGHTLINE_CHECK(rope.cosine.size() == rope.sine.size());
  Queries queries;
  Observed([&] { queries = DoSplitHeads(projected, heads, rope, position, cache); },
           [&] { return fmt::format("split heads {}+2x{}x{}", heads, cache.heads, cache.head_size); }, 0);
  return queries;
}

Rows Backend::Attention(const Queries& queries, const KeyValues& cache, const Mask& mask, Storage output) {
  CheckCache(cache);
  SIGHTLINE_CHECK(queries.block != nullptr && queries.heads % cache.heads == 0);
  SIGHTLINE_CHECK(queries.head_size == cache.head_size && queries.storage == cache.storage);
  CheckMask(mask, queries.rows, cache.capacity);
  const Rows y = Empty(queries.rows, int64_t{queries.heads} * queries.head_size, output);
  Observed([&] { DoMaskedAttention(queries, cache, mask, y); },
           [&] { return fmt::format("attention {}x{}", queries.heads, queries.head_size); },
           4e-9 * static_cast<double>(y.columns) * SeenKeys(mask, queries.rows));
  return y;
}

}  // namespace sightline
