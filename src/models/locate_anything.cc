// MoonViT and the projector: modeling_vit.py and modeling_locateanything.py of NVlabs/Eagle 783f656.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/locate_anything_weights.h"
#include "models/models.h"
#include "models/position_table.h"
#include "models/rotary.h"

namespace sightline {
namespace {

constexpr float kVisionEpsilon = 1e-5f;
constexpr double kVisionTheta = 10000.0;
// Rows of a wide intermediate (projection, MLP) that are in memory at a time; results do not depend on it.
constexpr int64_t kPartRows = 2048;

tl::unexpected<Error> Cancelled() { return Fail(Code::kCancelled, "locate: the request was cancelled"); }

// Stages as the official code orders them: patches row by row.
class VisionTap {
 public:
  VisionTap(const StageTap* tap, Backend& backend, PatchGrid grid) : tap_(tap), backend_(backend), grid_(grid) {}

  explicit operator bool() const { return tap_ != nullptr; }

  void operator()(std::string_view name, const Rows& rows) const {
    if (tap_ == nullptr) return;
    Give(name, backend_.Download(rows), rows.columns);
  }

  void Give(std::string_view name, std::span<const float> values, int64_t columns) const {
    if (tap_ == nullptr) return;
    const std::vector<int32_t> order = MergeOrder(grid_);
    std::vector<float> ordered(values.size());
    const auto width = static_cast<size_t>(columns);
    for (size_t i = 0; i < order.size(); ++i) {
      std::copy_n(&values[i * width], width, &ordered[static_cast<size_t>(order[i]) * width]);
    }
    (*tap_)(name, ordered, {grid_.patches(), columns});
  }

 private:
  const StageTap* tap_;
  Backend& backend_;
  PatchGrid grid_;
};

// Columns turn the even pairs and rows the odd ones: pair 2i by x * f_i, pair 2i + 1 by y * f_i, f_i = 10000^(-4i /
// size) (the docstring of the official file says the reverse).
RotaryTable VisionRotary(PatchGrid grid, int head_size) {
  const int pairs = head_size / 2;
  const std::vector<float> frequencies = RotaryFrequencies(kVisionTheta, head_size, 4, (pairs + 1) / 2);
  RotaryTable table(static_cast<size_t>(grid.patches()), static_cast<size_t>(pairs));
  const std::vector<int32_t> order = MergeOrder(grid);
  for (size_t row = 0; row < order.size(); ++row) {
    const auto x = static_cast<float>(order[row] % grid.width), y = static_cast<float>(order[row] / grid.width);
    for (int pair = 0; pair < pairs; ++pair) {
      table.Set(row, static_cast<size_t>(pair), (pair % 2 == 0 ? x : y) * frequencies[static_cast<size_t>(pair / 2)]);
    }
  }
  return table;
}

// Calls run(part of rows) for parts of at most kPartRows.
template <typename Run>
void InParts(int64_t rows, Run run) {
  for (int64_t first = 0; first < rows; first += kPartRows) run(first, std::min(kPartRows, rows - first));
}

// x += wo(attention(norm0(x))).
void AddAttention(Backend& backend, const LocateAnything::Weights::VisionBlock& block, const Rows& x, int heads,
                  const RotaryTable& rotary, const KeyValues& cache, std::string_view name, const VisionTap& tap) {
  const Storage operand = backend.OperandStorage(block.qkv.matrix.precision);
  const Rows normed = backend.LayerNorm(x, block.norm0.gain, block.norm0.bias, kVisionEpsilon, operand);
  tap(fmt::format("{}norm0", name), normed);
  std::vector<Queries> queries;
  InParts(x.rows, [&](int64_t first, int64_t count) {
    const Rows qkv = backend.Linear(Backend::Slice(normed, first, count), block.qkv.matrix,
                                    {.bias = block.qkv.bias, .stream_output = true});
    if (count == x.rows) tap(fmt::format("{}qkv", name), qkv);
    queries.push_back(backend.SplitHeads(qkv, heads, rotary.Rows(RopePairs::kNeighbours, first, count), first, cache));
  });
  int64_t first = 0;
  for (const Queries& part : queries) {
    const Rows attended = backend.Attention(part, cache, {.keys = x.rows}, operand);
    if (part.rows == x.rows) tap(fmt::format("{}attn", name), attended);
    const Rows to = Backend::Slice(x, first, part.rows);
    backend.Linear(attended, block.wo.matrix, {.bias = block.wo.bias, .add_to = &to});
    first += part.rows;
  }
}

// x += fc1(gelu_tanh(fc0(norm1(x)))).
void AddMlp(Backend& backend, const LocateAnything::Weights::VisionBlock& block, const Rows& x, std::string_view name,
            const VisionTap& tap) {
  const Storage operand = backend.OperandStorage(block.fc0.matrix.precision);
  const Rows normed = backend.LayerNorm(x, block.norm1.gain, block.norm1.bias, kVisionEpsilon, operand);
  tap(fmt::format("{}norm1", name), normed);
  InParts(x.rows, [&](int64_t first, int64_t count) {
    const Rows part = Backend::Slice(x, first, count);
    const Rows hidden = backend.Linear(Backend::Slice(normed, first, count), block.fc0.matrix,
                                       {.bias = block.fc0.bias, .activation = Activation::kGeluTanh});
    if (count == x.rows) tap(fmt::format("{}act", name), hidden);
    backend.Linear(hidden, block.fc1.matrix, {.bias = block.fc1.bias, .add_to = &part});
  });
}

}  // namespace

std::vector<int32_t> MergeOrder(PatchGrid grid) {
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(grid.patches()));
  for (int y = 0; y < grid.height; y += 2) {
    for (int x = 0; x < grid.width; x += 2) {
      for (const int patch :
           {y * grid.width + x, y * grid.width + x + 1, (y + 1) * grid.width + x, (y + 1) * grid.width + x + 1}) {
        order.push_back(patch);
      }
    }
  }
  return order;
}

LocateAnything::LocateAnything(Backend& backend, LocateConfig config, LocatePrecision precision)
    : backend_(backend), config_(std::move(config)), precision_(precision) {}
LocateAnything::~LocateAnything() = default;

Result<std::unique_ptr<LocateAnything>> LocateAnything::Load(Backend& backend, const std::filesystem::path& folder,
                                                             LocatePrecision precision,
                                                             const std::filesystem::path& cache_folder,
                                                             std::vector<std::string>* warnings,
                                                             const PackingProgress& packing) {
  SIGHTLINE_CHECK(precision.vision == Precision::kF32 || precision.vision == Precision::kBF16);
  SIGHTLINE_ASSIGN_OR_RETURN(LocateConfig config, ReadLocateConfig(folder));
  SIGHTLINE_ASSIGN_OR_RETURN(const CheckpointFolder checkpoint, CheckpointFolder::Open(folder));
  static const std::vector<std::string> kTied{"language_model.lm_head.weight"};
  SIGHTLINE_RETURN_IF_ERROR(CheckTensors(checkpoint, LocateTensors(config), kTied));
  std::unique_ptr<LocateAnything> model(new LocateAnything(backend, std::move(config), precision));
  SIGHTLINE_ASSIGN_OR_RETURN(model->weights_, PrepareLocateWeights(backend, checkpoint, model->config_, precision,
                                                                   cache_folder, warnings, packing));
  return model;
}

size_t LocateAnything::packed_bytes() const { return weights_->packed_bytes; }

std::vector<std::span<const std::byte>> LocateAnything::language_weights() const {
  std::vector<std::span<const std::byte>> all;
  for (const Weights::Layer& layer : weights_->layers) {
    for (const LinearWeights* linear : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      all.push_back(linear->matrix.packed);
    }
  }
  all.push_back(weights_->head.matrix.packed);
  return all;
}

Rows LocateAnything::EmbedPatches(std::span<const float> patches, PatchGrid grid, const StageTap* tap) {
  const LocateConfig::Vision& vision = config_.vision;
  if (grid != positions_grid_) {
    const std::vector<float> table = ResizePositionGrid(weights_->positions, vision.position_side, vision.hidden, grid);
    const std::vector<int32_t> order = MergeOrder(grid);
    const auto width = static_cast<size_t>(vision.hidden);
    positions_.resize(table.size());
    for (size_t i = 0; i < order.size(); ++i) {
      std::copy_n(&table[static_cast<size_t>(order[i]) * width], width, &positions_[i * width]);
    }
    positions_grid_ = grid;
  }
  const VisionTap stages(tap, backend_, grid);
  const Rows pixels =
      backend_.Upload(patches, grid.patches(), kPatchValues, backend_.OperandStorage(precision_.vision));
  stages.Give("v.pos_emb", positions_, vision.hidden);
  if (stages) {
    stages("v.patch_conv",
           backend_.Linear(pixels, weights_->patch.matrix, {.bias = weights_->patch.bias, .stream_output = true}));
  }
  const Rows x = backend_.Upload(positions_, grid.patches(), vision.hidden, Storage::kStream);
  backend_.Linear(pixels, weights_->patch.matrix, {.bias = weights_->patch.bias, .add_to = &x});
  stages("v.embed", x);
  return x;
}

Result<std::vector<float>> LocateAnything::Encode(std::span<const float> patches, PatchGrid grid, std::stop_token stop,
                                                  const StageTap* tap) {
  SIGHTLINE_CHECK(grid.height % 2 == 0 && grid.width % 2 == 0 && grid.height < kMaxGridSide &&
                  grid.width < kMaxGridSide);
  SIGHTLINE_CHECK(static_cast<int64_t>(patches.size()) == grid.patches() * kPatchValues && !patches.empty());
  const LocateConfig::Vision& vision = config_.vision;
  const VisionTap stages(tap, backend_, grid);
  const Rows x = EmbedPatches(patches, grid, tap);
  const int head_size = vision.hidden / vision.heads;
  const RotaryTable rotary = VisionRotary(grid, head_size);
  stages.Give("v.rope_cos", rotary.cosine(), head_size / 2);
  stages.Give("v.rope_sin", rotary.sine(), head_size / 2);
  const KeyValues cache =
      backend_.EmptyKeyValues(grid.patches(), vision.heads, head_size, backend_.AttentionStorage(precision_.vision));
  for (size_t i = 0; i < weights_->blocks.size(); ++i) {
    if (stop.stop_requested()) return Cancelled();
    const std::string name = fmt::format("v.{}.", i);
    AddAttention(backend_, weights_->blocks[i], x, vision.heads, rotary, cache, name, stages);
    AddMlp(backend_, weights_->blocks[i], x, name, stages);
    stages(name + "out", x);
  }
  const Rows final =
      backend_.LayerNorm(x, weights_->final_norm.gain, weights_->final_norm.bias, kVisionEpsilon, Storage::kStream);
  stages("v.final", final);
  return Project(Backend::Reshape(final, grid.tokens(), int64_t{4} * vision.hidden), tap);
}

Result<std::vector<float>> LocateAnything::Project(const Rows& merged, const StageTap* tap) {
  const Storage operand = backend_.OperandStorage(precision_.vision);
  const auto give = [&](std::string_view name, const Rows& rows) {
    if (tap != nullptr) (*tap)(name, backend_.Download(rows), {rows.rows, rows.columns});
  };
  give("v.merged", merged);
  const Rows normed =
      backend_.LayerNorm(merged, weights_->merged_norm.gain, weights_->merged_norm.bias, kVisionEpsilon, operand);
  if (tap != nullptr) {
    give("v.mlp1_1", backend_.Linear(normed, weights_->projector_1.matrix,
                                     {.bias = weights_->projector_1.bias, .stream_output = true}));
  }
  const Rows hidden = backend_.Linear(normed, weights_->projector_1.matrix,
                                      {.bias = weights_->projector_1.bias, .activation = Activation::kGelu});
  const Rows projected = backend_.Linear(hidden, weights_->projector_3.matrix,
                                         {.bias = weights_->projector_3.bias, .stream_output = true});
  give("v.mlp1", projected);
  std::vector<float> rows = backend_.Download(projected);
  if (!std::ranges::all_of(rows, [](float v) { return std::isfinite(v); })) {
    return Fail(Code::kNumeric, "locate: the vision tower gives values that are not finite; the weights are damaged");
  }
  return rows;
}

}  // namespace sightline
