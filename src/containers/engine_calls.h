// Asking the engine's command line, within the module.
#pragma once

#include "containers/containers.h"

namespace sightline {

// A minute: for questions that an engine answers at once.
ProcessLimits QuickLimits();

// Standard output without its last line end; a failure is explained.
Result<std::string> Ask(const ContainerEngine& engine, std::vector<std::string> arguments, const ProcessLimits& limits);

// The same about a thing that may not be there: then nothing.
Result<std::optional<std::string>> AskAbout(const ContainerEngine& engine, std::vector<std::string> arguments);

// "docker run": the subject of a sentence.
std::string WhatOf(const ContainerEngine& engine, const std::vector<std::string>& arguments);

std::vector<std::string> SplitAt(std::string_view text, char separator);
std::vector<std::string> LinesOf(std::string_view text);  // without empty ones

}  // namespace sightline
