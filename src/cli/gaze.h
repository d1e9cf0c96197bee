// What `sightline gaze` was asked for, and the work itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "server/server.h"

namespace sightline {

struct GazeOptions {
  std::vector<std::string> images;        // files, folders, "-" for standard input
  std::vector<std::optional<Box>> boxes;  // nullopt: "none"
  BoxUnits units = BoxUnits::kPixels;
  bool detect_heads = false;
  HeadOptions heads;
  GazeWeightsOptions weights;
  GazeEngineOptions engine;
  DecodeOptions decode;
  bool reference = false;
  bool json = false;
  HeatmapFormat heatmap_format = HeatmapFormat::kPng;  // in the JSON document
  std::filesystem::path overlay, heatmap;              // empty: not wanted
  bool blend_heatmap = false;
  bool keep_going = false;
};

// Answers every picture and writes what was asked for. Returns the exit code; fails with what went wrong where there
// was one picture only, or where nothing could be answered at all (no weights).
Result<int> AnswerPictures(const GazeOptions& options);

}  // namespace sightline
