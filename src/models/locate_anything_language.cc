// The decoder of LocateAnything as a checkpoint of its own.
#include <algorithm>

#include "models/locate_anything_weights.h"
#include "models/models.h"

namespace sightline {
namespace {

constexpr std::string_view kPrefix = "language_model.";
constexpr std::string_view kHead = "language_model.lm_head.weight";

size_t BytesOf(const TensorView& view) { return static_cast<size_t>(ElementCount(view.shape)) * SizeOf(view.dtype); }

// Hands on the values of a tensor without gaps piece by piece, and gives its pages back.
Status CopyTensor(const TensorView& view, PieceSink sink) {
  constexpr int64_t kPiece = 1 << 20;
  const int64_t total = ElementCount(view.shape);
  std::vector<float> values;
  for (int64_t first = 0; first < total; first += kPiece) {
    const int64_t count = std::min(kPiece, total - first);
    const TensorView piece{view.data + static_cast<size_t>(first) * SizeOf(view.dtype), view.dtype, {count}, {1}};
    values.resize(static_cast<size_t>(count));
    SIGHTLINE_RETURN_IF_ERROR(CopyAsFloat(piece, values));
    SIGHTLINE_RETURN_IF_ERROR(sink(values));
  }
  ReleasePages({view.data, BytesOf(view)});
  return {};
}

}  // namespace

std::vector<TensorSpec> LanguageModelTensors(const LocateConfig& config) {
  std::vector<TensorSpec> specs;
  for (TensorSpec& spec : LocateTensors(config)) {
    if (!spec.name.starts_with(kPrefix) || spec.name == kHead) continue;
    spec.name.erase(0, kPrefix.size());
    specs.push_back(std::move(spec));
  }
  return specs;
}

Status ExtractLanguageModel(const std::filesystem::path& from, const std::filesystem::path& folder,
                            std::vector<std::string>* warnings,
                            const std::function<void(int done, int total)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateConfig config, ReadLocateConfig(from));
  SIGHTLINE_ASSIGN_OR_RETURN(const CheckpointFolder checkpoint, CheckpointFolder::Open(from));
  const std::string head(kHead);
  SIGHTLINE_RETURN_IF_ERROR(CheckTensors(checkpoint, LocateTensors(config), std::span(&head, 1)));
  if (!HeadIsEmbedding(checkpoint)) {
    warnings->push_back(
        "the language head differs from the embedding; the embedding is used for both, as the model's "
        "own code does");
  }
  const std::vector<TensorSpec> specs = LanguageModelTensors(config);
  const auto fill = [&](size_t index, PieceSink sink) -> Status {
    SIGHTLINE_RETURN_IF_ERROR(CopyTensor(*checkpoint.Find(std::string(kPrefix) + specs[index].name), sink));
    if (progress) progress(static_cast<int>(index) + 1, static_cast<int>(specs.size()));
    return {};
  };
  return WriteSafetensors(folder, specs, 0, fill, checkpoint.note() == kSyntheticNote ? kSyntheticNote : "");
}

}  // namespace sightline
