// LocateAnything's language model as a plain Qwen2 folder, which transformers loads.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/base.h"

namespace sightline {

struct LanguageModelFolder {
  bool kept = false;  // it was complete already
  std::vector<std::string> warnings;
};
// Writes the language model of the official folder `from` to `folder`, which is made where it is missing. A complete
// one is kept unless `again`; other weights are an error then. The weights are written last. `progress` is told of
// tensors.
Result<LanguageModelFolder> WriteLanguageModelFolder(const std::filesystem::path& from,
                                                     const std::filesystem::path& folder, bool again,
                                                     const std::function<void(int done, int total)>& progress = {});

}  // namespace sightline
