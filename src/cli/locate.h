// What `sightline locate` was asked for, and the work itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "server/server.h"

namespace sightline {

struct LocateOptions {
  std::vector<std::string> images;  // files, folders, "-" for standard input
  bool together = false;            // all pictures in one prompt
  LocateQuestion question;
  LocateScaling scaling;
  GenerationOptions generation;
  LocateWeightsOptions weights;
  LocateEngineOptions engine;
  DecodeOptions decode;
  bool json = false;
  std::filesystem::path overlay;  // empty: not wanted
  bool keep_going = false;
};

// Answers every picture, or one question about all of them, and writes what was asked for. Returns the exit code; fails
// with what went wrong where there was one question only, or where nothing could be answered at all (no weights).
Result<int> LocateInPictures(const LocateOptions& options);

}  // namespace sightline
