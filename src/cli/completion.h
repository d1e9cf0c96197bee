// Completion scripts for shells, from a description of the verbs. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

// What may stand where a value is expected.
struct ValueDescription {
  enum class Kind { kNothing, kAny, kFile, kFolder, kChoice };
  Kind kind = Kind::kNothing;
  std::vector<std::string> choices;
};

struct OptionDescription {
  std::vector<std::string> names;  // "-h", "--help"
  std::string help;
  ValueDescription value;  // kNothing: a flag
};

struct VerbDescription {
  std::string name;  // of the program itself: empty
  std::string help;
  std::vector<OptionDescription> options;
  ValueDescription argument;
};

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// A script for `shell`, one of kShells, that completes verbs, options, choices, files and folders.
Result<std::string> CompletionScript(std::string_view shell, const std::vector<VerbDescription>& verbs);

}  // namespace sightline
