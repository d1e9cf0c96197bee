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

// The same first stage of a wire manifest, and of a sightline.yaml; they have no others.
WireManifest ReadWireManifest(const Value& root, ProblemList& problems);
NativePackage ReadNativePackage(const Value& root, ProblemList& problems);

}  // namespace sightline
