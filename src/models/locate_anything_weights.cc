#include "models/locate_anything_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sightline {
namespace {

// Raised whenever what is folded, or how, changes: packed files of other revisions are made again.
constexpr int kFoldingRevision = 2;

const std::string kEmbedding = "language_model.model.embed_tokens.weight";
const std::string kHead = "language_model.lm_head.weight";

std::span<const std::byte> BytesOf(const TensorView& view) {
  return {view.data, static_cast<size_t>(ElementCount(view.shape)) * SizeOf(view.dtype)};
}

// The tensors `names` below each other.
FillFloats Stacked(const CheckpointFolder& checkpoint, std::vector<std::string> names) {
  return [checkpoint, names = std::move(names)](std::span<float> out) -> Status {
    for (const std::string& name : names) {
      const TensorView& view = *checkpoint.Find(name);
      const auto count = static_cast<size_t>(ElementCount(view.shape));
      SIGHTLINE_RETURN_IF_ERROR(CopyAsFloat(view, out.first(count)));
      ReleasePages(BytesOf(view));
      out = out.subspan(count);
    }
    return {};
  };
}

// Adds the prepared tensors of the checkpoint to a plan, under their official names.
struct Planner {
  WeightPlan& plan;
  const CheckpointFolder& file;
  Precision precision;

  void Vector(WeightVector* to, const std::string& name, Shape shape) {
    plan.Vector(to, name, std::move(shape), Stacked(file, {name}));
  }
  void Norm(NormWeights* to, const std::string& name, int64_t size) {
    Vector(&to->gain, name + ".weight", {size});
    Vector(&to->bias, name + ".bias", {size});
  }
  void Matrix(LinearWeights* to, const std::string& name, int64_t outputs, int64_t inputs) {
    plan.Matrix(&to->matrix, name, precision, outputs, inputs, Stacked(file, {name}));
  }
  void Linear(LinearWeights* to, const std::string& name, int64_t outputs, int64_t inputs) {
    Matrix(to, name + ".weight", outputs, inputs);
    Vector(&to->bias, name + ".bias", {outputs});
  }
};

void PlanVision(Planner planner, const LocateConfig& config, LocateAnything::Weights* weights) {
  const int64_t width = config.vision.hidden, side = config.vision.position_side, hidden = config.language.hidden;
  planner.Linear(&weights->patch, "vision_model.patch_embed.proj", width, kPatchValues);
  planner.Vector(&weights->positions, "vision_model.patch_embed.pos_emb.weight", {side, side, width});
  weights->blocks.resize(static_cast<size_t>(config.vision.layers));
  for (size_t i = 0; i < weights->blocks.size(); ++i) {
    LocateAnything::Weights::VisionBlock& block = weights->blocks[i];
    const std::string name = fmt::format("vision_model.encoder.blocks.{}.", i);
    planner.Norm(&block.norm0, name + "norm0", width);
    planner.Linear(&block.qkv, name + "wqkv", 3 * width, width);
    planner.Linear(&block.wo, name + "wo", width, width);
    planner.Norm(&block.norm1, name + "norm1", width);
    planner.Linear(&block.fc0, name + "mlp.fc0", config.vision.intermediate, width);
    planner.Linear(&block.fc1, name + "mlp.fc1", width, config.vision.intermediate);
  }
  planner.Norm(&weights->final_norm, "vision_model.encoder.final_layernorm", width);
  planner.Norm(&weights->merged_norm, "mlp1.0", 4 * width);
  planner.Linear(&weights->projector_1, "mlp1.1", hidden, 4 * width);
  planner.Linear(&weights->projector_3, "mlp1.3", hidden, hidden);
}

void PlanLanguage(Planner planner, const LocateConfig::Language& language, LocateAnything::Weights* weights) {
  const int64_t hidden = language.hidden, intermediate = language.intermediate;
  const int64_t projected = int64_t{language.heads + 2 * language.kv_heads} * language.head_size;
  weights->layers.resize(static_cast<size_t>(language.layers));
  for (size_t i = 0; i < weights->layers.size(); ++i) {
    LocateAnything::Weights::Layer& layer = weights->layers[i];
    const std::string name = fmt::format("language_model.model.layers.{}.", i);
    const auto of_qkv = [&](const char* part) {
      return std::vector{name + "self_attn.q_proj." + part, name + "self_attn.k_proj." + part,
                         name + "self_attn.v_proj." + part};
    };
    planner.Vector(&layer.input_norm, name + "input_layernorm.weight", {hidden});
    planner.plan.Matrix(&layer.qkv.matrix, name + "self_attn.qkv.weight", planner.precision, projected, hidden,
                        Stacked(planner.file, of_qkv("weight")));
    planner.plan.Vector(&layer.qkv.bias, name + "self_attn.qkv.bias", {projected},
                        Stacked(planner.file, of_qkv("bias")));
    planner.Matrix(&layer.o, name + "self_attn.o_proj.weight", hidden, hidden);
    planner.Vector(&layer.post_attention_norm, name + "post_attention_layernorm.weight", {hidden});
    planner.plan.Matrix(&layer.gate_up.matrix, name + "mlp.gate_up.weight", planner.precision, 2 * intermediate, hidden,
                        Stacked(planner.file, {name + "mlp.gate_proj.weight", name + "mlp.up_proj.weight"}));
    planner.Matrix(&layer.down, name + "mlp.down_proj.weight", hidden, intermediate);
  }
  planner.Vector(&weights->norm, "language_model.model.norm.weight", {hidden});
  planner.Matrix(&weights->head, kEmbedding, language.vocabulary, hidden);
}

}  // namespace

bool HeadIsEmbedding(const CheckpointFolder& checkpoint) {
  constexpr size_t kPiece = size_t{8} << 20;
  const TensorView* head = checkpoint.Find(kHead);
  if (head == nullptr) return true;
  auto a = BytesOf(*head), b = BytesOf(*checkpoint.Find(kEmbedding));
  bool same = a.size() == b.size();
  while (same && !a.empty()) {
    const size_t count = std::min(a.size(), kPiece);
    same = std::memcmp(a.data(), b.data(), count) == 0;
    for (auto* rest : {&a, &b}) {
      ReleasePages(rest->first(count));
      *rest = rest->subspan(count);
    }
  }
  return same;
}

Result<std::shared_ptr<LocateAnything::Weights>> PrepareLocateWeights(
    const Backend& backend, const CheckpointFolder& checkpoint, const LocateConfig& config, LocatePrecision precision,
    const std::filesystem::path& cache_folder, std::vector<std::string>* warnings, const PackingProgress& packing) {
  auto weights = std::make_shared<LocateAnything::Weights>();
  WeightPlan plan(backend, packing);
  PlanVision({plan, checkpoint, precision.vision}, config, weights.get());
  PlanLanguage({plan, checkpoint, precision.language}, config.language, weights.get());
  // Costs a read of both, so it is found out when packing, and kept for later starts.
  WeightVector head_differs;
  plan.Vector(&head_differs, kHead + ".differs", {1}, [checkpoint](std::span<float> out) -> Status {
    out[0] = HeadIsEmbedding(checkpoint) ? 0 : 1;
    return {};
  });

  const std::string key = fmt::format("locate-anything {}; vision {}; language {}; {}", kFoldingRevision,
                                      backend.PackedLayout(precision.vision), backend.PackedLayout(precision.language),
                                      checkpoint.identity());
  const std::filesystem::path path = PackedPath(cache_folder, "locate-anything", key);
  SIGHTLINE_ASSIGN_OR_RETURN(const PackedFile file, plan.Bind(path, key));
  if (head_differs[0] != 0) {
    warnings->push_back(fmt::format("{}: {} differs from {}, which config.json ties to it; the latter is used",
                                    checkpoint.source(), kHead, kEmbedding));
  }
  weights->packed = file.owner();
  for (const PackedFile::Entry& entry : file.entries()) weights->packed_bytes += entry.bytes.size();
  weights->checkpoint = checkpoint;
  weights->embedding = weights->checkpoint.Find(kEmbedding);
  return weights;
}

}  // namespace sightline
