#include "cli/engine_options.h"

#include <fmt/format.h>

namespace sightline {

void DeclareWeights(OptionSet& options, GazeWeightsOptions& weights) {
  options.Group("Weights (one of them; else those in the Hugging Face cache)");
  options.Folder("--weights", weights.folder, "folder with one dinov2* and one gazelle* file");
  options.File("--backbone", weights.backbone, "DINOv2 file, together with --decoder");
  options.File("--decoder", weights.decoder, "Gaze-LLE file, together with --backbone");
  options.Flag("--toy", weights.toy, "the small network that ships with the program, trained on drawings");
  options.Flag("--synthetic", weights.synthetic, "random ViT-B/14 weights, for speed and tests; made on first use");
}

void DeclareCompute(OptionSet& options, std::optional<Precision>& precision, int& threads) {
  options.Group("Computing");
  options.Choice("--precision", precision, std::vector{Precision::kF32, Precision::kBF16},
                 "default bf16 where the processor computes in it");
  options.Whole("--threads", threads, 1, kMostThreads, "default: as many as there are cores free for us");
}

void DeclareProfile(OptionSet& options, Profile& profile) {
  options.Choice("--profile", profile, std::vector{Profile::kUpstream, Profile::kPort},
                 "which published program to follow (default upstream)");
}

void DeclareModel(OptionSet& options, std::string& model, const std::string& help) {
  options.Argument("MODEL", model, kModels, help + ": " + kModels);
}

Status CheckModelGiven(const std::string& model) {
  if (!model.empty()) return {};
  return Fail(Code::kUsage, fmt::format("no model is given, expected {}", kModels));
}

Status CheckModelKnown(const std::string& model) {
  if (model == kModels) return {};
  return Fail(Code::kNotFound, fmt::format("model '{}' is not known: there is {}", model, kModels));
}

}  // namespace sightline
