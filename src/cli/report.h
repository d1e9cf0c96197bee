// Answers in the forms that `sightline gaze` gives them. Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "media/media.h"
#include "pipeline/pipeline.h"

namespace sightline {

// One picture, answered.
struct Answered {
  std::string name;  // as shown: the path, or "-"
  std::shared_ptr<const DecodedImage> picture;
  std::string digest;  // SHA-256 of the file
  GazeAnswer answer;
  double total_ms = 0;  // from bytes to answer
};

// "in frame" is said from here on, and arrows are drawn.
inline constexpr float kInFrame = 0.5f;

// The table for people: a line about the picture and the engine, then one line a person, or why there is none.
std::string TableText(const Answered& answered, const GazeEngineInfo& info);

// What stderr should say beside it.
std::vector<std::string> WarningTexts(const Answered& answered);

// A document of the server as one line of several: "file" and "status" ("ok", "empty" or "error") come first.
std::string DocumentLine(std::string_view document, std::string_view file, std::string_view status);

// A PNG file. Fails as DrawOverlay does.
Result<std::vector<std::byte>> OverlayFile(const Answered& answered, const GazeEngineInfo& info, bool blend_heatmap);

// An .npz file: heatmap [people, 64, 64]; inout [people] where the model has that head.
std::vector<std::byte> HeatmapFile(const GazeAnswer& answer);

}  // namespace sightline
