// Running git. The only program that this module starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "package/package.h"

namespace sightline {

struct GitAnswer {
  int status = 0;  // its exit code; 127 where there is no git
  std::string output, complaint;
};
// `git ARGUMENTS` with both outputs kept. Asks nobody for passwords. Fails where no process could be started.
Result<GitAnswer> RunGit(const std::vector<std::string>& arguments);

// Output of `git -C folder ARGUMENTS` without the line break at its end; nullopt where git fails or says nothing.
std::optional<std::string> AskGit(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

std::vector<std::string> SplitLines(const std::string& text);

// An address without user name and password: addresses are published.
std::string WithoutCredentials(std::string address);

}  // namespace sightline
