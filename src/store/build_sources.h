// Where the code of a package comes from, resolved: folders on this machine, and commits of repositories.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/reporting.h"
#include "store/store.h"

namespace sightline {

struct ResolvedSources {
  Manifest manifest;  // with commits and pins: what the image is built from
  MetalProvenance metal;
  std::filesystem::path metal_folder;                // a checkout here; empty: the build clones it
  std::filesystem::path plugin_folder, vllm_folder;  // checkouts to be copied into the build; may be empty
  std::vector<std::filesystem::path> wheels;
  Value built{Value::Map{}};  // "vllm" and "plugin" of the manifest's `built`
};
// Runs git; asks remote repositories for the commits of branches and tags.
StoreResult<ResolvedSources> ResolveSources(Manifest manifest, Reporter& reporter);

// The roots of the code, in order. Repositories are cloned into `scratch` at their commits.
StoreResult<std::vector<CodeRoot>> CodeRoots(const ResolvedSources& sources, const std::filesystem::path& scratch,
                                             std::stop_token stop);

}  // namespace sightline
