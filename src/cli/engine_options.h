// Options that several verbs share.
#pragma once

#include <optional>

#include "cli/options.h"
#include "pipeline/pipeline.h"

namespace sightline {

inline constexpr int kMostThreads = 1024;
inline constexpr int kMostHeads = 1000;
inline constexpr int64_t kMostPixels = 65'500LL * 65'500LL;  // the longest side twice
inline constexpr char kModels[] = "gaze-lle";

void DeclareWeights(OptionSet& options, GazeWeightsOptions& weights);
// Opens the group that further options of computing may join.
void DeclareCompute(OptionSet& options, std::optional<Precision>& precision, int& threads);
void DeclareProfile(OptionSet& options, Profile& profile);
void DeclareModel(OptionSet& options, std::string& model, const std::string& help);

// kUsage where no model was named.
Status CheckModelGiven(const std::string& model);
// kNotFound unless this program knows `model`.
Status CheckModelKnown(const std::string& model);

}  // namespace sightline
