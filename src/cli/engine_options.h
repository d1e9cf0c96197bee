// Options that several verbs share.
#pragma once

#include <optional>

#include "cli/options.h"
#include "cli/terminal.h"
#include "pipeline/pipeline.h"

namespace sightline {

inline constexpr int kMostThreads = 1024;
inline constexpr int kMostHeads = 1000;
inline constexpr int64_t kMostPixels = 65'500LL * 65'500LL;  // the longest side twice
inline constexpr char kGazeLle[] = "gaze-lle";
inline constexpr char kLocateAnything[] = "locate-anything";

void DeclareWeights(OptionSet& options, GazeWeightsOptions& weights);
// Opens the group that further options of computing may join.
void DeclareCompute(OptionSet& options, std::optional<Precision>& precision, int& threads);
void DeclareProfile(OptionSet& options, Profile& profile);
void DeclareWeights(OptionSet& options, LocateWeightsOptions& weights);
void DeclareCompute(OptionSet& options, LocatePrecision& precision, int& threads);

// The same for verbs that take either model: what both have. Options of one model stand under its name as heading.
struct EitherModel {
  std::string name;  // the MODEL argument
  std::filesystem::path weights;
  bool synthetic = false;
  std::optional<Precision> precision;
  int threads = 0;
};
void DeclareEither(OptionSet& options, EitherModel& model);
void DeclareGazeWeights(OptionSet& options, GazeWeightsOptions& weights);
// After parsing: kUsage for an option of the other model.
Status CheckForeign(const OptionSet& options, const EitherModel& model);
GazeWeightsOptions GazeWeightsOf(const EitherModel& model, GazeWeightsOptions weights);
LocateWeightsOptions LocateWeightsOf(const EitherModel& model);

// A precision by its name for LocateAnything: of the language model; vision is bf16 then, or f32 with f32.
LocatePrecision LocatePrecisionOf(Precision language);

// For an engine's options: shows how far weights are packed, as long as `progress` lives.
PackingProgress ShowPacking(Progress& progress);

void DeclareModel(OptionSet& options, std::string& model, const std::string& help);

// kUsage where no model was named.
Status CheckModelGiven(const std::string& model);
// kNotFound unless this program knows `model`.
Status CheckModelKnown(const std::string& model);

}  // namespace sightline
