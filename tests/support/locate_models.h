// LocateAnything networks with synthetic weights, made once per process.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/models.h"
#include "tests/support/temporary_folder.h"

namespace sightline {

inline std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (isa <= *DetectIsa()) isas.push_back(isa);
  }
  return isas;
}

// Checkpoint and packed weights live as long as the process.
inline const std::filesystem::path& SyntheticFolder(const std::string& size, uint64_t seed) {
  static TemporaryFolder folder;
  static std::map<std::pair<std::string, uint64_t>, std::filesystem::path> made;
  std::filesystem::path& path = made[{size, seed}];
  if (path.empty()) {
    path = folder.path() / (size + std::to_string(seed));
    SyntheticLocateOptions options;
    options.size = size;
    options.seed = seed;
    options.folder = path;
    const auto status = WriteSyntheticLocateAnything(options);
    EXPECT_TRUE(status) << status.error().message;
  }
  return path;
}

inline std::unique_ptr<LocateAnything> LoadSynthetic(Backend& backend, const std::string& size, uint64_t seed,
                                                     LocatePrecision precision) {
  std::vector<std::string> warnings;
  const std::filesystem::path& folder = SyntheticFolder(size, seed);
  auto model = LocateAnything::Load(backend, folder, precision, folder.parent_path() / "cache", &warnings);
  EXPECT_TRUE(model) << model.error().message;
  EXPECT_TRUE(warnings.empty());
  return model ? std::move(*model) : nullptr;
}

}  // namespace sightline
