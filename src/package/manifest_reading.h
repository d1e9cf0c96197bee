// The three stages of reading a tt-model.yaml. Each writes down what it finds wrong and goes on.
#pragma once

#include "package/fields.h"
#include "package/package.h"

namespace sightline {

// Types, required and unknown keys, and what each value must look like by itself. Fields that are wrong keep defaults.
Manifest ReadManifestFields(const Value& root, ProblemList& problems);

// How values fit together. `problems` holds those of the first stage: rules about keys named there are left out.
void CheckManifestRules(const Manifest& manifest, const Value& root, ProblemList& problems);

// That local code exists.
void CheckManifestSources(const Manifest& manifest, const Value& root, ProblemList& problems);

// Line of the key at `path`, or of the nearest one around it.
int LineOf(const Value& root, std::string_view path);

// Everything that is wrong with a wire manifest, or a sightline.yaml.
std::vector<ManifestProblem> FindWireProblems(const std::filesystem::path& path);
std::vector<ManifestProblem> FindNativeProblems(const std::filesystem::path& path);

}  // namespace sightline
