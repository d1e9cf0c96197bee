// The body of the gaze server's POST /predict: JSON text to typed fields, every one checked (docs/http-api.md,
// "Request").
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/base.h"
#include "media/media.h"
#include "pipeline/pipeline.h"
#include "server/server.h"

namespace sightline {

struct GazeFields {
  std::vector<std::byte> file;  // the picture's bytes, not yet looked at
  std::vector<Box> boxes;
  BoxUnits units = BoxUnits::kPixels;
  HeatmapFormat heatmap_format = HeatmapFormat::kPng;
  bool detect_heads = false;
  int max_heads = 0;
  double head_threshold = 0;
  std::vector<Warning> warnings;  // "unknown_field"
};

// What a request may ask for, and what it gets when it does not say.
struct GazeLimits {
  int max_heads = 10;
  double head_threshold = 0.5;
};

// `body` may be enlarged, its text stays. Errors are those of the code table with the offending field as `param`; no
// message repeats more than 64 bytes of the request.
Result<GazeFields> ParseGazeFields(std::string& body, const GazeLimits& limits);

}  // namespace sightline
