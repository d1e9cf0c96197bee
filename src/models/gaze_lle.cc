// Gaze-LLE's forward pass, as in fkryan/gazelle model.py (c845713) over facebookresearch/dinov2 vision_transformer.py
// (b8931f7).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/gaze_lle_weights.h"
#include "models/models.h"

namespace sightline {
namespace {

constexpr float kBackboneEpsilon = 1e-6f;
constexpr int kTokens = 1 + kGazePatches;
// The hidden rows of an MLP are four times as wide as the others: many heads are taken through it in parts.
constexpr int64_t kMlpRows = 2 * kTokens;

float DecoderEpsilon(Profile profile) { return profile == Profile::kUpstream ? 1e-5f : 1e-6f; }

float Sigmoid(float x) { return static_cast<float>(1.0 / (1.0 + std::exp(-double{x}))); }

tl::unexpected<Error> Cancelled() { return Fail(Code::kCancelled, "gaze: the request was cancelled"); }

void Tap(const StageTap* tap, std::string_view name, Backend& backend, const Rows& rows, const Shape& shape) {
  if (tap != nullptr) (*tap)(name, backend.Download(rows), shape);
}

// x += Proj(Attention(LN1(x))); x += FC2(GELU(FC1(LN2(x)))).
void RunBlock(Backend& backend, const BlockWeights& block, const Rows& x, const AttentionShape& shape, float epsilon) {
  Rows normed = backend.LayerNorm(x, block.norm1.gain, block.norm1.bias, epsilon,
                                  backend.OperandStorage(block.qkv.matrix.precision));
  const ProjectedHeads projected = backend.Qkv(normed, block.qkv.matrix, block.qkv.bias, shape);
  const Rows attended = backend.Attention(projected);
  backend.Linear(attended, block.projection.matrix, {.bias = block.projection.bias, .add_to = &x});
  normed = backend.LayerNorm(x, block.norm2.gain, block.norm2.bias, epsilon,
                             backend.OperandStorage(block.fc1.matrix.precision));
  for (int64_t first = 0; first < x.rows; first += kMlpRows) {
    const int64_t count = std::min(kMlpRows, x.rows - first);
    const Rows part = Backend::Slice(x, first, count);
    const Rows hidden = backend.Linear(Backend::Slice(normed, first, count), block.fc1.matrix,
                                       {.bias = block.fc1.bias, .activation = Activation::kGelu});
    backend.Linear(hidden, block.fc2.matrix, {.bias = block.fc2.bias, .add_to = &part});
  }
}

// "patch_tokens" and "pos_embed_448" exist only folded into other things; tests see them undone.
void TapEmbedding(const StageTap* tap, Backend& backend, const GazeLle::Weights& weights, const Rows& patches,
                  WeightVector tokens, int width) {
  if (tap == nullptr) return;
  const Rows embedded =
      backend.Linear(patches, weights.patch.matrix, {.bias = weights.patch.bias, .stream_output = true});
  Tap(tap, "patch_tokens", backend, embedded, {kGazePatches, width});
  std::vector<float> positions(tokens.begin(), tokens.end());
  for (size_t c = 0; c < weights.class_token.size(); ++c) positions[c] -= weights.class_token[c];
  (*tap)("pos_embed_448", positions, {kTokens, width});
}

void TapProjected(const StageTap* tap, const GazeLle::Weights& weights, std::span<const float> features) {
  if (tap == nullptr) return;
  std::vector<float> projected(features.size());
  for (size_t i = 0; i < features.size(); ++i) {
    projected[(i % kDecoderWidth) * kGazePatches + i / kDecoderWidth] = features[i] - weights.scene_positions[i];
  }
  (*tap)("projected", projected, {kDecoderWidth, kGazeGrid, kGazeGrid});
}

// Decoder rows of one person: the in/out token where the checkpoint has one, then the scene with the head marked.
void FillPerson(const GazeLle::Weights& weights, std::span<const float> features, const HeadMask& mask, float* rows) {
  rows = std::ranges::copy(weights.inout_token, rows).out;
  for (size_t p = 0; p < kGazePatches; ++p, rows += kDecoderWidth) {
    const float* feature = &features[p * kDecoderWidth];
    std::copy_n(feature, kDecoderWidth, rows);
    if (mask[p] == 0) continue;
    for (size_t c = 0; c < kDecoderWidth; ++c) rows[c] += weights.head_token[c];
  }
}

// Logits [patches, 4] of one person to the 64x64 map: cell (2y + a, 2x + b) is logit 2a + b of patch (y, x).
void PlaceCells(const float* logits, float* map) {
  for (int cell = 0; cell < kHeatmapCells; ++cell) {
    const int row = cell / kHeatmapSize, column = cell % kHeatmapSize;
    const int patch = (row / 2) * kGazeGrid + column / 2;
    map[cell] = logits[patch * 4 + (row % 2) * 2 + column % 2];
  }
}

bool AllFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

}  // namespace

std::string_view NameOf(Profile profile) { return profile == Profile::kUpstream ? "upstream" : "port"; }

Result<Profile> ParseProfile(std::string_view name) {
  if (name == "upstream") return Profile::kUpstream;
  if (name == "port") return Profile::kPort;
  return Fail(Code::kUsage, fmt::format("profile is '{}', expected upstream or port", name));
}

std::string GazeDimensions::variant() const {
  if (width == 768 && depth == 12) return "vitb14";
  if (width == 1024 && depth == 24) return "vitl14";
  return fmt::format("width {}, depth {}", width, depth);
}

std::vector<float> PatchRows(std::span<const float> pixels) {
  SIGHTLINE_CHECK(pixels.size() == size_t{3} * kGazeInputSize * kGazeInputSize);
  std::vector<float> rows(size_t{kGazePatches} * kPatchValues);
  float* out = rows.data();
  for (int y = 0; y < kGazeGrid; ++y) {
    for (int x = 0; x < kGazeGrid; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        for (int line = 0; line < kPatchSize; ++line) {
          const size_t row = static_cast<size_t>(channel * kGazeInputSize + y * kPatchSize + line);
          out = std::copy_n(&pixels[row * kGazeInputSize + static_cast<size_t>(x * kPatchSize)], kPatchSize, out);
        }
      }
    }
  }
  return rows;
}

GazeLle::GazeLle(Backend& backend, GazeDimensions dimensions, Precision precision)
    : backend_(backend), dimensions_(std::move(dimensions)), precision_(precision) {}

Result<std::unique_ptr<GazeLle>> GazeLle::Load(Backend& backend, const Files& files, Precision precision,
                                               const std::filesystem::path& cache_folder,
                                               const PackingProgress& packing) {
  SIGHTLINE_ASSIGN_OR_RETURN(GazeDimensions dimensions, ReadGazeDimensions(files));
  SIGHTLINE_RETURN_IF_ERROR(CheckGazeTensors(files, dimensions));
  std::unique_ptr<GazeLle> model(new GazeLle(backend, dimensions, precision));
  SIGHTLINE_ASSIGN_OR_RETURN(model->weights_,
                             PrepareGazeWeights(backend, files, model->dimensions_, precision, cache_folder, packing));
  return model;
}

Result<GazeScene> GazeLle::Encode(std::span<const float> patches, Profile profile, std::stop_token stop,
                                  const StageTap* tap) {
  SIGHTLINE_CHECK(patches.size() == size_t{kGazePatches} * kPatchValues);
  const Weights& weights = *weights_;
  const int width = dimensions_.width;
  const WeightVector tokens = weights.tokens[static_cast<int>(profile)];
  // What all later layers build on, and what all answers read, is float32 in every precision (2 % of the work).
  const Storage exact = backend_.OperandStorage(Precision::kF32);

  const Rows pixels = backend_.Upload(patches, kGazePatches, kPatchValues, exact);
  const Rows x = backend_.Upload(tokens, kTokens, width, Storage::kStream);
  const Rows image_rows = Backend::Slice(x, 1, kGazePatches);
  backend_.Linear(pixels, weights.patch.matrix, {.bias = weights.patch.bias, .add_to = &image_rows});
  TapEmbedding(tap, backend_, weights, pixels, tokens, width);

  const AttentionShape shape{1, kTokens, dimensions_.heads, width / dimensions_.heads};
  for (size_t i = 0; i < weights.blocks.size(); ++i) {
    if (stop.stop_requested()) return Cancelled();
    RunBlock(backend_, weights.blocks[i], x, shape, kBackboneEpsilon);
    if (tap != nullptr) Tap(tap, fmt::format("block_{:02}", i), backend_, x, {kTokens, width});
  }
  if (tap != nullptr) {
    const Rows all = backend_.LayerNorm(x, weights.norm.gain, weights.norm.bias, kBackboneEpsilon, Storage::kStream);
    Tap(tap, "backbone_norm", backend_, all, {kTokens, width});
  }
  const Rows normed = backend_.LayerNorm(image_rows, weights.norm.gain, weights.norm.bias, kBackboneEpsilon, exact);
  const Rows scene = backend_.Upload(weights.scene_positions, kGazePatches, kDecoderWidth, Storage::kStream);
  backend_.Linear(normed, weights.scene.matrix, {.bias = weights.scene.bias, .add_to = &scene});

  GazeScene result{backend_.Download(scene), profile};
  if (!AllFinite(result.features)) {
    return Fail(Code::kNumeric,
                "gaze: backbone and projection give values that are not finite; one of the files is damaged");
  }
  TapProjected(tap, weights, result.features);
  return result;
}

Result<std::vector<GazeMap>> GazeLle::Decode(const GazeScene& scene, std::span<const HeadMask> masks,
                                             std::stop_token stop, const StageTap* tap) {
  std::vector<GazeMap> maps;
  maps.reserve(masks.size());
  for (size_t first = 0; first < masks.size(); first += kMaxBatch) {
    const auto batch = masks.subspan(first, std::min<size_t>(kMaxBatch, masks.size() - first));
    SIGHTLINE_RETURN_IF_ERROR(DecodeBatch(scene, batch, stop, tap, &maps));
  }
  return maps;
}

Status GazeLle::DecodeBatch(const GazeScene& scene, std::span<const HeadMask> masks, std::stop_token stop,
                            const StageTap* tap, std::vector<GazeMap>* maps) {
  const Weights& weights = *weights_;
  const int64_t people = static_cast<int64_t>(masks.size());
  const int64_t length = kGazePatches + (dimensions_.inout ? 1 : 0);
  const Shape tap_shape{people, length, kDecoderWidth};

  std::vector<float> rows(static_cast<size_t>(people * length * kDecoderWidth));
  for (size_t i = 0; i < masks.size(); ++i) {
    FillPerson(weights, scene.features, masks[i], &rows[i * static_cast<size_t>(length * kDecoderWidth)]);
  }
  const Rows x = backend_.Upload(rows, people * length, kDecoderWidth, Storage::kStream);
  if (tap != nullptr) (*tap)("decoder_input", rows, tap_shape);

  const AttentionShape shape{people, length, kDecoderHeads, kDecoderWidth / kDecoderHeads};
  for (int i = 0; i < kDecoderBlocks; ++i) {
    if (stop.stop_requested()) return Cancelled();
    RunBlock(backend_, weights.decoder[i], x, shape, DecoderEpsilon(scene.profile));
    if (tap != nullptr) Tap(tap, fmt::format("decoder_{}", i), backend_, x, tap_shape);
  }
  return ReadMaps(x, people, length, tap, maps);
}

Status GazeLle::ReadMaps(const Rows& x, int64_t people, int64_t length, const StageTap* tap,
                         std::vector<GazeMap>* maps) {
  const Weights& weights = *weights_;
  const std::vector<float> cells = backend_.Download(
      backend_.Linear(x, weights.heatmap.matrix, {.bias = weights.heatmap.bias, .stream_output = true}));
  std::vector<float> logits(static_cast<size_t>(people) * kHeatmapCells);
  for (int64_t i = 0; i < people; ++i) {
    PlaceCells(&cells[static_cast<size_t>(((i + 1) * length - kGazePatches) * 4)],
               &logits[static_cast<size_t>(i) * kHeatmapCells]);
  }
  const std::vector<float> inout = dimensions_.inout ? InoutLogits(x, people, length) : std::vector<float>{};
  if (!AllFinite(logits) || !AllFinite(inout)) {
    return Fail(Code::kNumeric, "gaze: the decoder gives values that are not finite; its file is damaged");
  }
  if (tap != nullptr) {
    (*tap)("heatmap_logit", logits, {people, kHeatmapSize, kHeatmapSize});
    if (dimensions_.inout) (*tap)("inout_logit", inout, {people});
  }
  for (size_t i = 0; i < static_cast<size_t>(people); ++i) {
    GazeMap& map = maps->emplace_back();
    std::transform(&logits[i * kHeatmapCells], &logits[i * kHeatmapCells] + kHeatmapCells, map.heatmap.begin(),
                   Sigmoid);
    if (dimensions_.inout) map.inout = Sigmoid(inout[i]);
  }
  return {};
}

std::vector<float> GazeLle::InoutLogits(const Rows& x, int64_t people, int64_t length) {
  const Weights& weights = *weights_;
  const Rows tokens = backend_.Empty(people, kDecoderWidth, Storage::kStream);
  for (int64_t i = 0; i < people; ++i) {
    backend_.CopyRows(Backend::Slice(x, i * length, 1), Backend::Slice(tokens, i, 1));
  }
  const Rows hidden =
      backend_.Linear(tokens, weights.inout_hidden.matrix,
                      {.bias = weights.inout_hidden.bias, .activation = Activation::kRelu, .stream_output = true});
  return backend_.Download(
      backend_.Linear(hidden, weights.inout.matrix, {.bias = weights.inout.bias, .stream_output = true}));
}

}  // namespace sightline
