// The tokenizer files of a model folder, for verbs that write such folders.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/base.h"

namespace sightline {

using TokenizerFiles = std::vector<std::pair<std::string, std::string>>;  // name and contents

// Those of `folder`, checked; without a folder those that ship with the program. Of the files that only other programs
// read, the shipped ones stand in for missing ones.
Result<TokenizerFiles> ReadTokenizerFiles(const std::filesystem::path& folder);

}  // namespace sightline
