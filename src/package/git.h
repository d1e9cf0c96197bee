// Running git. The only program that this module starts.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "containers/containers.h"
#include "package/package.h"

namespace sightline {

// `git ARGUMENTS` with both outputs kept. Asks nobody for passwords. Any exit code is an answer; fails where there is
// no git or `stop` asked.
Result<ProcessOutput> RunGit(const std::vector<std::string>& arguments, std::stop_token stop = {});

// Output of `git -C folder ARGUMENTS` without the line break at its end; nullopt where git fails or says nothing.
std::optional<std::string> AskGit(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

// The last line of what git complained about: its reason. May be empty.
std::string ReasonOf(const ProcessOutput& output);

// Parts between `separator`, without empty ones.
std::vector<std::string> PartsOf(const std::string& text, char separator);

}  // namespace sightline
