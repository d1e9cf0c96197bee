// Launch settings between documents and structs. The two manifests share them.
#pragma once

#include <string>

#include "package/fields.h"
#include "package/package.h"

namespace sightline {

// Unknown keys are refused: a misspelt setting must not be lost.
ServeSettings ReadServeSettings(const Value& value, const std::string& path, ProblemList& problems);
ServeProfile ReadServeProfile(const Value& value, const std::string& path, ProblemList& problems);
Value ToValue(const ServeSettings& settings);
Value ToValue(const ServeProfile& profile);

Value TextOrNull(const std::optional<std::string>& text);
Value WholeOrNull(const std::optional<int64_t>& whole);
Value TextsOrNull(const std::optional<std::vector<std::string>>& texts);
Value ToValue(const std::vector<std::string>& texts);
Value ToValue(const EnvironmentList& environment);

// "org/name" as the Hub allows it.
bool IsRepositoryId(std::string_view id);
// Whether a revision may become part of a path.
bool IsSafeRevision(std::string_view revision);

}  // namespace sightline
