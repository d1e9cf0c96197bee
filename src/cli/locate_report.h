// Answers in the forms that `sightline locate` gives them to people. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/picture_run.h"
#include "pipeline/pipeline.h"

namespace sightline {

// A line about the picture and the engine, then one line a box or point, or why there is none; then the categories that
// were not found.
std::string LocateTable(const std::string& name, const LocateAnswer& answer, const LocateEngineInfo& info,
                        double total_ms);

// What stderr should say beside it.
std::vector<std::string> LocateWarningTexts(const std::vector<ReadPicture>& pictures, const LocateAnswer& answer);

// "answer, 12 tokens: ...<414><606>", short enough for a line of a terminal.
std::string ProgressText(const LocateProgress& progress);

}  // namespace sightline
