// Synthetic LocateAnything folders in the official layout. Rules and sizes are those of the goldens' generator, so the
// same seed gives the same bits.
#include "models/locate_anything_synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sightline {
namespace {

constexpr uint64_t kShardBytes = 5'000'000'000;
constexpr std::string_view kEmbedding = "language_model.model.embed_tokens.weight";
constexpr std::string_view kHead = "language_model.lm_head.weight";  // a copy of the embedding

// The rule of all tensors whose name ends so: centre, and an amplitude or a gain over the square root of the inputs.
struct Rule {
  std::string_view ending;
  float centre;
  double amplitude, gain;
};
constexpr double kByGain = 0;
constexpr Rule kRules[] = {
    {"patch_embed.proj.weight", 0, kByGain, 1.5},
    {"patch_embed.proj.bias", 0, 0.2, 0},
    {"patch_embed.pos_emb.weight", 0, 0.8, 0},
    {".norm0.weight", 1, 0.3, 0},
    {".norm1.weight", 1, 0.3, 0},
    {".norm0.bias", 0, 0.2, 0},
    {".norm1.bias", 0, 0.2, 0},
    {".wqkv.weight", 0, kByGain, 1.2},
    {".wqkv.bias", 0, 0.3, 0},
    {".wo.weight", 0, kByGain, 0.8},
    {".wo.bias", 0, 0.1, 0},
    {".mlp.fc0.weight", 0, kByGain, 1.0},
    {".mlp.fc0.bias", 0, 0.3, 0},
    {".mlp.fc1.weight", 0, kByGain, 0.7},
    {".mlp.fc1.bias", 0, 0.1, 0},
    {".final_layernorm.weight", 1, 0.3, 0},
    {".final_layernorm.bias", 0, 0.2, 0},
    {"mlp1.0.weight", 1, 0.3, 0},
    {"mlp1.0.bias", 0, 0.2, 0},
    {"mlp1.1.weight", 0, kByGain, 1.2},
    {"mlp1.1.bias", 0, 0.3, 0},
    {"mlp1.3.weight", 0, kByGain, 1.2},
    {"mlp1.3.bias", 0, 0.1, 0},
    {".input_layernorm.weight", 1, 0.3, 0},
    {".post_attention_layernorm.weight", 1, 0.3, 0},
    {".q_proj.weight", 0, kByGain, 1.3},
    {".k_proj.weight", 0, kByGain, 1.3},
    {".q_proj.bias", 0, 1.0, 0},
    {".k_proj.bias", 0, 1.0, 0},
    {".v_proj.weight", 0, kByGain, 1.2},
    {".v_proj.bias", 0, 0.1, 0},
    {".o_proj.weight", 0, kByGain, 1.4},
    {".gate_proj.weight", 0, kByGain, 1.2},
    {".up_proj.weight", 0, kByGain, 1.2},
    {".down_proj.weight", 0, kByGain, 1.2},
    {"language_model.model.norm.weight", 7, 1.5, 0},
};

// Gains of the rows of the embedding from `first` on, up to the next line. A row's length is about its gain, so these
// decide how probable tokens are: structure tokens over coordinates over text.
struct EmbeddingRows {
  int64_t first;
  double gain;
};
constexpr EmbeddingRows kEmbeddingRows[] = {
    {0, 0.3},      {4064, 3.2},   {4065, 0.3},    // None
    {151645, 2.8}, {151646, 0.3},                 // <|im_end|>
    {151668, 3.6}, {151669, 3.8}, {151670, 0.3},  // <box>, </box>
    {151672, 2.8}, {151673, 2.4}, {151674, 0.3},  // <ref>, </ref>
    {151677, 1.6}, {152678, 3.4}, {152679, 0.3},  // <0> to <1000>, <null>
};

double FanIn(const Shape& shape) {
  double product = 1;
  for (size_t i = 1; i < shape.size(); ++i) product *= static_cast<double>(shape[i]);
  return product;
}

std::vector<NoiseRun> EmbeddingNoise(const Shape& shape) {
  std::vector<NoiseRun> runs;
  const auto columns = static_cast<uint64_t>(shape[1]);
  for (size_t i = 0; i < std::size(kEmbeddingRows); ++i) {
    const int64_t first = kEmbeddingRows[i].first;
    const int64_t end = i + 1 < std::size(kEmbeddingRows) ? kEmbeddingRows[i + 1].first : shape[0];
    runs.push_back({static_cast<uint64_t>(first) * columns, static_cast<uint64_t>(end - first) * columns, 0,
                    SyntheticAmplitude(kEmbeddingRows[i].gain, static_cast<double>(shape[1]))});
  }
  return runs;
}

}  // namespace

std::vector<NoiseRun> LocateNoise(const TensorSpec& tensor) {
  if (tensor.name == kEmbedding) return EmbeddingNoise(tensor.shape);
  const auto rule = std::ranges::find_if(kRules, [&](const Rule& row) { return tensor.name.ends_with(row.ending); });
  SIGHTLINE_CHECK(rule != std::end(kRules));
  const float amplitude = rule->amplitude == kByGain ? SyntheticAmplitude(rule->gain, FanIn(tensor.shape))
                                                     : static_cast<float>(rule->amplitude);
  return {{0, static_cast<uint64_t>(ElementCount(tensor.shape)), rule->centre, amplitude}};
}

Result<SyntheticLocateTensors> SyntheticLocateTensors::Make(std::string_view size, uint64_t seed) {
  SyntheticLocateTensors tensors;
  SIGHTLINE_ASSIGN_OR_RETURN(tensors.config_, SyntheticLocateSize(size));
  tensors.seed_ = seed;
  tensors.specs_ = LocateTensors(tensors.config_);
  if (size == "puppet") tensors.puppet_.emplace(tensors.config_);
  tensors.team_ = std::make_unique<ThreadTeam>();
  return tensors;
}

Status SyntheticLocateTensors::Fill(size_t index, PieceSink sink) {
  constexpr uint64_t kPiece = 1 << 22, kTask = 1 << 16;  // elements; both are whole rows of every embedding
  TensorSpec tensor = specs_[index];
  if (tensor.name == kHead) tensor.name = kEmbedding;
  for (const NoiseRun& run : puppet_ ? puppet_->Noise(tensor) : LocateNoise(tensor)) {
    for (uint64_t done = 0; done < run.count; done += kPiece) {
      const uint64_t first = run.first + done, count = std::min(kPiece, run.count - done);
      piece_.resize(count);
      team_->Run(static_cast<int64_t>((count + kTask - 1) / kTask), [&](int64_t task, int) {
        const uint64_t at = static_cast<uint64_t>(task) * kTask;
        const auto part = std::span(piece_).subspan(at, std::min(kTask, count - at));
        SyntheticPiece(tensor.name, seed_, first + at, run.centre, run.amplitude, part);
      });
      if (puppet_) puppet_->Edit(tensor, first, piece_);
      SIGHTLINE_RETURN_IF_ERROR(sink(piece_));
    }
  }
  return {};
}

Status WriteSyntheticLocateAnything(const SyntheticLocateOptions& options,
                                    const std::function<void(int done, int total)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(auto tensors, SyntheticLocateTensors::Make(options.size, options.seed));
  std::error_code error;
  if (!options.folder.empty()) std::filesystem::create_directories(options.folder, error);
  if (error) return tl::make_unexpected(ErrnoError("create", options.folder, error.value()));
  for (const auto& [name, contents] : SyntheticLocateFiles(options.size, tensors.config())) {
    SIGHTLINE_RETURN_IF_ERROR(WriteFileAtomically(options.folder / name, AsBytes(contents)));
  }
  for (const auto& [name, contents] : options.tokenizer) {
    SIGHTLINE_RETURN_IF_ERROR(WriteFileAtomically(options.folder / name, AsBytes(contents)));
  }
  const int total = static_cast<int>(tensors.specs().size());
  const auto fill = [&](size_t index, PieceSink sink) -> Status {
    SIGHTLINE_RETURN_IF_ERROR(tensors.Fill(index, sink));
    if (progress) progress(static_cast<int>(index) + 1, total);
    return {};
  };
  return WriteSafetensors(options.folder, tensors.specs(), kShardBytes, fill, kSyntheticNote);
}

}  // namespace sightline
