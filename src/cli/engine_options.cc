#include "cli/engine_options.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace sightline {
namespace {

const std::vector<std::string> kSyntheticSizes = {"tiny", "full", "puppet"};
const std::vector kPrecisions = {Precision::kF32, Precision::kBF16, Precision::kInt8, Precision::kInt8Weights,
                                 Precision::kInt4};

}  // namespace

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

void DeclareWeights(OptionSet& options, LocateWeightsOptions& weights) {
  options.Group("Weights (one of them; else those in the Hugging Face cache)");
  options.Folder("--weights", weights.folder, "the model folder as downloaded");
  options.Choice("--synthetic", kSyntheticSizes, "random weights, for speed and tests; made on first use",
                 [&weights](size_t index) { weights.synthetic = kSyntheticSizes[index]; });
}

void DeclareEither(OptionSet& options, EitherModel& model) {
  options.Group("Weights (one of them; else those in the Hugging Face cache)");
  options.Folder("--weights", model.weights, "the model's folder as downloaded");
  options.Flag("--synthetic", model.synthetic, "random weights of full size, for speed and tests; made on first use");
  options.Group("Computing");
  options.Choice("--precision", model.precision, kPrecisions,
                 "default: of gaze-lle bf16 where the processor computes in\nit, else f32; of locate-anything int8");
  options.Whole("--threads", model.threads, 1, kMostThreads, "default: as many as there are cores free for us");
}

void DeclareGazeWeights(OptionSet& options, GazeWeightsOptions& weights) {
  options.Group(kGazeLle);
  options.File("--backbone", weights.backbone, "DINOv2 file, together with --decoder");
  options.File("--decoder", weights.decoder, "Gaze-LLE file, together with --backbone");
  options.Flag("--toy", weights.toy, "the small network that ships with the program, trained on drawings");
}

Status CheckForeign(const OptionSet& options, const EitherModel& model) {
  const std::string foreign = options.GivenUnder(model.name == kGazeLle ? kLocateAnything : kGazeLle);
  if (!foreign.empty()) return Fail(Code::kUsage, fmt::format("{} does not belong to {}", foreign, model.name));
  const bool floats = !model.precision || *model.precision == Precision::kF32 || *model.precision == Precision::kBF16;
  if (model.name == kGazeLle && !floats) {
    return Fail(Code::kUsage,
                fmt::format("--precision {} does not belong to {}", NameOf(*model.precision), model.name));
  }
  return {};
}

GazeWeightsOptions GazeWeightsOf(const EitherModel& model, GazeWeightsOptions weights) {
  weights.folder = model.weights;
  weights.synthetic = model.synthetic;
  return weights;
}

LocateWeightsOptions LocateWeightsOf(const EitherModel& model) {
  return {model.weights, model.synthetic ? "full" : ""};
}

LocatePrecision LocatePrecisionOf(Precision language) {
  return {language == Precision::kF32 ? Precision::kF32 : Precision::kBF16, language};
}

void DeclareCompute(OptionSet& options, LocatePrecision& precision, int& threads) {
  options.Group("Computing");
  std::vector<std::string> names;
  for (const Precision known : kPrecisions) names.emplace_back(NameOf(known));
  options.Choice("--precision", names, "of the language model (default int8); vision is bf16, or f32 with f32",
                 [&precision](size_t index) { precision = LocatePrecisionOf(kPrecisions[index]); });
  options.Whole("--threads", threads, 1, kMostThreads, "default: as many as there are cores free for us");
}

PackingProgress ShowPacking(Progress& progress) {
  return [&progress](size_t done, size_t total) {
    progress.ShowLong(fmt::format("packing weights for this processor, which is done once: {:.0f} %",
                                  100.0 * static_cast<double>(done) / static_cast<double>(total)));
  };
}

void DeclareModel(OptionSet& options, std::string& model, const std::string& help) {
  options.Argument("MODEL", model, fmt::format("{}|{}", kGazeLle, kLocateAnything),
                   fmt::format("{}: {} or {}", help, kGazeLle, kLocateAnything));
}

Status CheckModelGiven(const std::string& model) {
  if (!model.empty()) return {};
  return Fail(Code::kUsage, fmt::format("no model is given, expected {} or {}", kGazeLle, kLocateAnything));
}

Status CheckModelKnown(const std::string& model) {
  if (model == kGazeLle || model == kLocateAnything) return {};
  return Fail(Code::kNotFound,
              fmt::format("model '{}' is not known: there are {} and {}", model, kGazeLle, kLocateAnything));
}

}  // namespace sightline
