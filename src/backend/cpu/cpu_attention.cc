// Heads and attention: where they lie, and how they are cut into tasks.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/panels.inl.h"
#include "backend/storage.h"

namespace sightline::cpu {
namespace {

int64_t ElementBytes(Storage storage) { return storage == Storage::kOperandBF16 ? 2 : 4; }

}  // namespace

KeyValues CpuBackend::DoEmptyKeyValues(int64_t capacity, int heads, int head_size, Storage storage) {
  const HeadLayout layout = MakeHeadLayout(kernels_, storage == Storage::kOperandBF16, capacity, head_size);
  const auto take = [&](int64_t elements) {
    const size_t bytes = static_cast<size_t>(heads * elements * ElementBytes(storage));
    auto block = Allocate(bytes);
    std::memset(block->data, 0, bytes);
    return block;
  };
  return {take(layout.key_elements), take(layout.value_elements), capacity, heads, head_size, storage};
}

void CpuBackend::DoCopyKeyValues(const KeyValues& from, int64_t count, const KeyValues& to) {
  const int64_t element = ElementBytes(from.storage);
  const HeadLayout source =
      MakeHeadLayout(kernels_, from.storage == Storage::kOperandBF16, from.capacity, from.head_size);
  const HeadLayout target = MakeHeadLayout(kernels_, to.storage == Storage::kOperandBF16, to.capacity, to.head_size);
  // Columns [0, count) of the keys, which are panels of `pair` rows in a lane; rows [0, count) of the values.
  const auto copy_keys = [&](const std::byte* a, std::byte* b) {
    const int64_t lane = source.keys.pair * element;
    for (int64_t first = 0; first < count; first += source.keys.panel_columns) {
      const int64_t columns = std::min<int64_t>(source.keys.panel_columns, count - first);
      for (int64_t k = 0; k < source.keys.padded_depth; k += source.keys.pair) {
        std::memcpy(b + (target.keys.offset(first) + k * target.keys.width(first)) * element,
                    a + (source.keys.offset(first) + k * source.keys.width(first)) * element,
                    static_cast<size_t>(columns * lane));
      }
    }
  };
  const auto copy_values = [&](const std::byte* a, std::byte* b) {
    for (int64_t first = 0; first < source.values.columns; first += source.values.panel_columns) {
      const int64_t width = source.values.width(first), pair = source.values.pair, whole = count / pair * pair;
      const std::byte* x = a + source.values.offset(first) * element;
      std::byte* y = b + target.values.offset(first) * element;
      std::memcpy(y, x, static_cast<size_t>(whole * width * element));
      for (int64_t j = 0; whole < count && j < width; ++j) {
        std::memcpy(y + (whole * width + j * pair) * element, x + (whole * width + j * pair) * element,
                    static_cast<size_t>(element));
      }
    }
  };
  team_.Run(from.heads, [&](int64_t head, int) {
    copy_keys(from.keys->data + head * source.key_elements * element,
              to.keys->data + head * target.key_elements * element);
    copy_values(from.values->data + head * source.value_elements * element,
                to.values->data + head * target.value_elements * element);
  });
}

Queries CpuBackend::DoSplitHeads(const Rows& projected, int heads, const Rope& rope, int64_t position,
                                 const KeyValues& cache) {
  const FormatKernels& kernels = KernelsOf(cache.storage);
  const int64_t bytes = projected.rows * heads * cache.head_size * ElementBytes(cache.storage);
  Queries queries{Allocate(static_cast<size_t>(bytes)), projected.rows, heads, cache.head_size, cache.storage};
  ReserveScratch(SplitHeadsScratchElements(cache.head_size));
  team_.Run(CeilDivide(projected.rows, kSplitRows), [&](int64_t task, int member) {
    kernels.split_heads({.projected = reinterpret_cast<const float*>(DataOf(projected)),
                         .query_heads = heads,
                         .key_heads = cache.heads,
                         .head_size = cache.head_size,
                         .cosine = rope.cosine.empty() ? nullptr : rope.cosine.data(),
                         .sine = rope.sine.empty() ? nullptr : rope.sine.data(),
                         .neighbours_turn = rope.pairs == RopePairs::kNeighbours,
                         .query_scale = QueryScale(cache.head_size),
                         .rows = projected.rows,
                         .row_begin = task * kSplitRows,
                         .row_end = std::min((task + 1) * kSplitRows, projected.rows),
                         .first_key = position,
                         .queries = queries.block->data,
                         .keys = cache.keys->data,
                         .values = cache.values->data,
                         .capacity = cache.capacity,
                         .scratch = ScratchOf(member)});
  });
  return queries;
}

void CpuBackend::RunAttention(const FormatKernels& kernels, int64_t matrices, int64_t rows,
                              const AttentionTask& parameters,
                              FunctionRef<void(int64_t matrix, AttentionTask& task)> place) {
  const int64_t rows_at_once = QueriesAtOnce(kernels_.rows_at_once), blocks = CeilDivide(rows, rows_at_once);
  const int64_t row_bytes = parameters.head_size * (kernels.operand == RowFormat::kBF16 ? 2 : 4);
  ReserveScratch(AttentionScratchElements(parameters.key_count, parameters.head_size, kernels_.panel_columns));
  // Neighbouring tasks share keys and values.
  team_.Run(matrices * blocks, [&](int64_t index, int member) {
    AttentionTask task = parameters;
    place(index / blocks, task);
    task.first_row = index % blocks * rows_at_once;
    task.rows = std::min(rows_at_once, rows - task.first_row);
    task.queries = static_cast<const std::byte*>(task.queries) + task.first_row * row_bytes;
    task.scratch = ScratchOf(member);
    kernels.attention(task);
  });
}

void CpuBackend::DoAttention(const ProjectedHeads& projected, const Rows& y) {
  const AttentionShape& shape = projected.shape;
  const HeadLayout layout =
      MakeHeadLayout(kernels_, projected.storage == Storage::kOperandBF16, shape.length, shape.head_size);
  const int64_t element = ElementBytes(projected.storage), width = y.columns;
  RunAttention(KernelsOf(projected.storage), shape.sequences * shape.heads, shape.length,
               {.capacity = shape.length,
                .head_size = shape.head_size,
                .key_count = shape.length,
                .format = FormatOf(y.storage),
                .y_stride = width},
               [&](int64_t head, AttentionTask& task) {
                 task.queries = projected.queries->data + head * QueryElements(shape.length, shape.head_size) * element;
                 task.keys = projected.keys->data + head * layout.key_elements * element;
                 task.values = projected.values->data + head * layout.value_elements * element;
                 task.y = DataOf(y) +
                          (head / shape.heads * shape.length * width + head % shape.heads * shape.head_size) * element;
               });
}

void CpuBackend::DoMaskedAttention(const Queries& queries, const KeyValues& cache, const Mask& mask, const Rows& y) {
  if (y.storage == Storage::kOperandInt8) {
    // A group of 128 channels may be of several heads.
    const Rows unrounded = Empty(y.rows, y.columns, Storage::kStream);
    DoMaskedAttention(queries, cache, mask, unrounded);
    return DoConvert(unrounded, y);
  }
  const HeadLayout layout =
      MakeHeadLayout(kernels_, cache.storage == Storage::kOperandBF16, cache.capacity, cache.head_size);
  const int64_t element = ElementBytes(cache.storage);
  const int group = queries.heads / cache.heads;
  const int64_t group_rows = queries.rows * group, group_width = int64_t{group} * cache.head_size;
  RunAttention(KernelsOf(cache.storage), cache.heads, group_rows,
               {.capacity = cache.capacity,
                .head_size = cache.head_size,
                .group = group,
                .key_count = mask.keys,
                .causal_rows = mask.causal_rows,
                .first_key = mask.first_key,
                .hidden_key = mask.hidden_key.value_or(-1),
                .format = FormatOf(y.storage),
                .y_stride = y.columns},
               [&](int64_t head, AttentionTask& task) {
                 task.queries = queries.block->data + head * group_rows * cache.head_size * element;
                 task.keys = cache.keys->data + head * layout.key_elements * element;
                 task.values = cache.values->data + head * layout.value_elements * element;
                 task.y = DataOf(y) + head * group_width * ElementBytes(y.storage);
               });
}

}  // namespace sightline::cpu
