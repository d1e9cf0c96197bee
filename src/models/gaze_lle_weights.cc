#include "models/gaze_lle_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/position_table.h"

namespace sightline {
namespace {

// Raised whenever what is folded, or how, changes: packed files of other revisions are made again.
constexpr int kFoldingRevision = 4;

Result<const TensorView*> Need(const Checkpoint& file, const std::string& name) {
  if (const TensorView* view = file.Find(name)) return view;
  return Fail(Code::kCorruptWeights, fmt::format("{}: tensor {} is missing", file.source(), name));
}

Result<std::vector<float>> Read(const Checkpoint& file, const std::string& name) {
  SIGHTLINE_ASSIGN_OR_RETURN(const TensorView* view, Need(file, name));
  std::vector<float> values(static_cast<size_t>(ElementCount(view->shape)));
  SIGHTLINE_RETURN_IF_ERROR(CopyAsFloat(*view, values));
  return values;
}

FillFloats Plain(const Checkpoint& file, std::string name) {
  return [file, name = std::move(name)](std::span<float> out) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const TensorView* view, Need(file, name));
    return CopyAsFloat(*view, out);
  };
}

// For the first tensor that is packed from a file: a damaged download is found before it is kept.
FillFloats Verified(const Checkpoint& file, FillFloats fill) {
  return [file, fill = std::move(fill)](std::span<float> out) -> Status {
    SIGHTLINE_RETURN_IF_ERROR(file.Verify());
    return fill(out);
  };
}

// Multiplies row r of a [rows, n] tensor (n = 1 for a bias) by gain[r].
FillFloats RowsTimes(const Checkpoint& file, std::string name, std::string gain_name) {
  return [file, name = std::move(name), gain_name = std::move(gain_name)](std::span<float> out) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> gain, Read(file, gain_name));
    SIGHTLINE_RETURN_IF_ERROR(Plain(file, name)(out));
    const size_t columns = out.size() / gain.size();
    for (size_t i = 0; i < out.size(); ++i) out[i] *= gain[i / columns];
    return {};
  };
}

// The first third, the query rows, times QueryScale.
FillFloats QueriesScaled(const Checkpoint& file, std::string name, int head_size) {
  return [file, name = std::move(name), head_size](std::span<float> out) -> Status {
    SIGHTLINE_RETURN_IF_ERROR(Plain(file, name)(out));
    const float scale = QueryScale(head_size);
    for (float& value : out.first(out.size() / 3)) value *= scale;
    return {};
  };
}

FillFloats TokenTable(const Checkpoint& backbone, int width, Profile profile) {
  return [backbone, width, profile](std::span<float> out) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> positions, Read(backbone, "pos_embed"));
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> class_token, Read(backbone, "cls_token"));
    std::ranges::copy(ResamplePositions(positions, width, profile), out.begin());
    for (size_t c = 0; c < class_token.size(); ++c) out[c] += class_token[c];
    return {};
  };
}

// [256, 32, 32] as stored to [1024, 256] as added.
FillFloats ScenePositions(const Checkpoint& decoder) {
  return [decoder](std::span<float> out) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> stored, Read(decoder, "pos_embed"));
    for (size_t i = 0; i < out.size(); ++i) out[i] = stored[(i % kDecoderWidth) * kGazePatches + i / kDecoderWidth];
    return {};
  };
}

FillFloats HeatmapMatrix(const Checkpoint& decoder) {
  return [decoder](std::span<float> out) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> transposed, Read(decoder, "heatmap_head.0.weight"));
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> last, Read(decoder, "heatmap_head.1.weight"));
    for (size_t i = 0; i < kDecoderWidth; ++i) {
      for (size_t cell = 0; cell < 4; ++cell) {
        double sum = 0;
        for (size_t o = 0; o < kDecoderWidth; ++o)
          sum += double{last[o]} * transposed[(i * kDecoderWidth + o) * 4 + cell];
        out[cell * kDecoderWidth + i] = static_cast<float>(sum);
      }
    }
    return {};
  };
}

FillFloats HeatmapBias(const Checkpoint& decoder) {
  return [decoder](std::span<float> out) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> bias, Read(decoder, "heatmap_head.0.bias"));
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<float> last, Read(decoder, "heatmap_head.1.weight"));
    double sum = 0;
    for (size_t o = 0; o < kDecoderWidth; ++o) sum += double{last[o]} * bias[o];
    std::ranges::fill(out, static_cast<float>(sum));
    return {};
  };
}

// Adds the prepared tensors of one checkpoint to a plan, under "<prefix><official name>".
struct Planner {
  WeightPlan& plan;
  const Checkpoint& file;
  std::string prefix;
  Precision precision;
  Precision attention_precision = precision;

  void Vector(WeightVector* to, const std::string& name, int64_t size) {
    plan.Vector(to, prefix + name, {size}, Plain(file, name));
  }
  void Norm(NormWeights* to, const std::string& name, int64_t size) {
    Vector(&to->gain, name + ".weight", size);
    Vector(&to->bias, name + ".bias", size);
  }
  void LinearIn(Precision format, LinearWeights* to, const std::string& name, int64_t outputs, int64_t inputs) {
    plan.Matrix(&to->matrix, prefix + name + ".weight", format, outputs, inputs, Plain(file, name + ".weight"));
    Vector(&to->bias, name + ".bias", outputs);
  }
  void Linear(LinearWeights* to, const std::string& name, int64_t outputs, int64_t inputs) {
    LinearIn(precision, to, name, outputs, inputs);
  }
  void Scaled(LinearWeights* to, const std::string& name, const std::string& gain, int64_t outputs, int64_t inputs) {
    plan.Matrix(&to->matrix, prefix + name + ".weight", precision, outputs, inputs,
                RowsTimes(file, name + ".weight", gain));
    plan.Vector(&to->bias, prefix + name + ".bias", {outputs}, RowsTimes(file, name + ".bias", gain));
  }
  void Qkv(LinearWeights* to, const std::string& name, int64_t width, int heads, bool bias) {
    const int head_size = static_cast<int>(width) / heads;
    plan.Matrix(&to->matrix, prefix + name + ".weight", attention_precision, 3 * width, width,
                QueriesScaled(file, name + ".weight", head_size));
    if (bias) {
      plan.Vector(&to->bias, prefix + name + ".bias", {3 * width}, QueriesScaled(file, name + ".bias", head_size));
    }
  }
  void Block(BlockWeights* to, const std::string& name, int64_t width, int heads, bool layer_scale) {
    Norm(&to->norm1, name + "norm1", width);
    Qkv(&to->qkv, name + "attn.qkv", width, heads, layer_scale);
    Norm(&to->norm2, name + "norm2", width);
    Linear(&to->fc1, name + "mlp.fc1", 4 * width, width);
    if (layer_scale) {
      Scaled(&to->projection, name + "attn.proj", name + "ls1.gamma", width, width);
      Scaled(&to->fc2, name + "mlp.fc2", name + "ls2.gamma", width, 4 * width);
    } else {
      LinearIn(attention_precision, &to->projection, name + "attn.proj", width, width);
      Linear(&to->fc2, name + "mlp.fc2", width, 4 * width);
    }
  }
};

void PlanBackbone(Planner planner, const GazeDimensions& dimensions, GazeLle::Weights* weights) {
  const int width = dimensions.width;
  planner.plan.Vector(&weights->class_token, "backbone.cls_token", {width},
                      Verified(planner.file, Plain(planner.file, "cls_token")));
  planner.LinearIn(Precision::kF32, &weights->patch, "patch_embed.proj", width, kPatchValues);
  for (const Profile profile : {Profile::kUpstream, Profile::kPort}) {
    planner.plan.Vector(&weights->tokens[static_cast<int>(profile)], fmt::format("backbone.tokens.{}", NameOf(profile)),
                        {1 + kGazePatches, width}, TokenTable(planner.file, width, profile));
  }
  weights->blocks.resize(static_cast<size_t>(dimensions.depth));
  for (size_t i = 0; i < weights->blocks.size(); ++i) {
    planner.Block(&weights->blocks[i], fmt::format("blocks.{}.", i), width, dimensions.heads, true);
  }
  planner.Norm(&weights->norm, "norm", width);
}

void PlanDecoder(Planner planner, const GazeDimensions& dimensions, GazeLle::Weights* weights) {
  planner.plan.Vector(&weights->head_token, "decoder.head_token", {kDecoderWidth},
                      Verified(planner.file, Plain(planner.file, "head_token.weight")));
  planner.LinearIn(Precision::kF32, &weights->scene, "linear", kDecoderWidth, dimensions.width);
  planner.plan.Vector(&weights->scene_positions, "decoder.pos_embed", {kGazePatches, kDecoderWidth},
                      ScenePositions(planner.file));
  // Its rounded queries and keys would make nine tenths of all difference between bf16 and f32.
  planner.attention_precision = Precision::kF32;
  for (int i = 0; i < kDecoderBlocks; ++i) {
    planner.Block(&weights->decoder[i], fmt::format("transformer.{}.", i), kDecoderWidth, kDecoderHeads, false);
  }
  // The heads are a sliver of the work: always float32, so that reduced precision ends before the answer.
  planner.plan.Matrix(&weights->heatmap.matrix, "decoder.heatmap.weight", Precision::kF32, 4, kDecoderWidth,
                      HeatmapMatrix(planner.file));
  planner.plan.Vector(&weights->heatmap.bias, "decoder.heatmap.bias", {4}, HeatmapBias(planner.file));
  if (!dimensions.inout) return;
  planner.Vector(&weights->inout_token, "inout_token.weight", kDecoderWidth);
  planner.LinearIn(Precision::kF32, &weights->inout_hidden, "inout_head.0", kInoutHidden, kDecoderWidth);
  planner.LinearIn(Precision::kF32, &weights->inout, "inout_head.3", 1, kInoutHidden);
}

}  // namespace

namespace {

constexpr std::string_view kOfBackbone = "norm.weight", kOfDecoder = "linear.weight";

// Two files are easily given the wrong way round.
Status CheckRoles(const GazeLle::Files& files) {
  if (files.backbone.Find(kOfBackbone) == nullptr && files.backbone.Find(kOfDecoder) != nullptr) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: holds a Gaze-LLE decoder, expected a DINOv2 backbone", files.backbone.source()));
  }
  if (files.decoder.Find(kOfDecoder) == nullptr && files.decoder.Find(kOfBackbone) != nullptr) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: holds a DINOv2 backbone, expected a Gaze-LLE decoder", files.decoder.source()));
  }
  SIGHTLINE_RETURN_IF_ERROR(Need(files.backbone, std::string(kOfBackbone)));
  SIGHTLINE_RETURN_IF_ERROR(Need(files.decoder, std::string(kOfDecoder)));
  return {};
}

// One more than the largest i of "blocks.<i>.", so that whatever is missing below it is named. Names that no published
// backbone has are left for CheckGazeTensors to report.
int DepthOf(const Checkpoint& backbone) {
  constexpr int kMostBlocks = 256;
  int depth = 0;
  for (int i = 0; i < kMostBlocks; ++i) {
    const std::string prefix = fmt::format("blocks.{}.", i);
    if (std::ranges::any_of(backbone.names(), [&](const std::string& name) { return name.starts_with(prefix); })) {
      depth = i + 1;
    }
  }
  return depth;
}

}  // namespace

Result<GazeDimensions> ReadGazeDimensions(const GazeLle::Files& files) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRoles(files));
  const TensorView* norm = files.backbone.Find(kOfBackbone);
  GazeDimensions dimensions;
  if (norm->shape.size() != 1 || norm->shape[0] < 64 || norm->shape[0] > 8192 || norm->shape[0] % 64 != 0) {
    return Fail(Code::kCorruptWeights, fmt::format("{}: norm.weight has shape {}, expected one multiple of 64",
                                                   files.backbone.source(), ToString(norm->shape)));
  }
  dimensions.width = static_cast<int>(norm->shape[0]);
  dimensions.heads = dimensions.width / 64;
  dimensions.depth = DepthOf(files.backbone);
  if (dimensions.depth == 0) {
    return Fail(Code::kCorruptWeights, fmt::format("{}: tensors of blocks.0 are missing", files.backbone.source()));
  }
  dimensions.inout = files.decoder.Find("inout_token.weight") != nullptr;
  return dimensions;
}

Status CheckGazeTensors(const GazeLle::Files& files, const GazeDimensions& dimensions) {
  static const std::vector<std::string> kUnused{"mask_token"};  // only training reads it
  SIGHTLINE_RETURN_IF_ERROR(CheckTensors(files.backbone, GazeBackboneTensors(dimensions), kUnused));
  return CheckTensors(files.decoder, GazeDecoderTensors(dimensions));
}

Result<std::shared_ptr<GazeLle::Weights>> PrepareGazeWeights(const Backend& backend, const GazeLle::Files& files,
                                                             const GazeDimensions& dimensions, Precision precision,
                                                             const std::filesystem::path& cache_folder,
                                                             const PackingProgress& packing) {
  auto weights = std::make_shared<GazeLle::Weights>();
  WeightPlan plan(backend, packing);
  PlanBackbone({plan, files.backbone, "backbone.", precision}, dimensions, weights.get());
  PlanDecoder({plan, files.decoder, "decoder.", precision}, dimensions, weights.get());

  const std::string key = fmt::format("gaze-lle {}; {} {}; backbone {}; decoder {}", kFoldingRevision,
                                      backend.PackedLayout(Precision::kF32), backend.PackedLayout(precision),
                                      files.backbone.identity(), files.decoder.identity());
  SIGHTLINE_ASSIGN_OR_RETURN(const PackedFile file, plan.Bind(PackedPath(cache_folder, "gaze-lle", key), key));
  weights->owner = file.owner();
  return weights;
}

}  // namespace sightline
