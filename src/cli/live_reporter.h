// Rows of steps; how they are written on a terminal and elsewhere.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cli/reporter.h"

namespace sightline {

// A step that has ended: "✓ label  detail  1.2s"; the time is left out below 0.8 s. At most `columns` wide on a
// terminal.
std::string StepRow(const StepReport& step, std::chrono::milliseconds elapsed, size_t columns, bool color);
// "▕██████░░░░░░░░▏ 42 %  1.2 GB of 2.9 GB  12.3 MB/s  2:10 left"
std::string ProgressText(const ProgressReport& progress, std::chrono::steady_clock::duration elapsed);
// A step that goes on, at most `columns` wide: its label is cut before its figures are.
std::string LiveRow(const std::string& label, const std::string& figures, size_t columns);

// For a standard error that is a terminal. Draws on a thread of its own.
std::unique_ptr<ShownReporter> MakeLiveReporter();

}  // namespace sightline
