// What an engine that failed wants to say.
#pragma once

#include "containers/containers.h"

namespace sightline {

// One sentence and a code for a failed command of the engine, with the remedy where we know one. `what` is the subject:
// "podman run".
Error ExplainEngineFailure(const std::string& what, const ProcessOutput& output);

// Whether the engine itself cannot be used, and not only the thing that was asked about.
bool EngineIsUnusable(const ProcessOutput& output);

// The last line that says something; empty when there is none.
std::string LastLine(std::string_view text);

}  // namespace sightline
