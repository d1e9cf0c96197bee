// The card between documents and structs. The two manifests share it.
#pragma once

#include <string>

#include "package/fields.h"
#include "package/package.h"

namespace sightline {

// Where an author writes it, everything is checked; what is published may hold sections that are not known yet.
enum class CardSource { kAuthor, kWire };
Card ReadCard(const Value& value, const std::string& path, CardSource source, ProblemList& problems);
Value ToValue(const Card& card);

// The license as the Hub takes it, with a problem under `path` for what it does not.
CardLicense ReadLicense(const Value& value, const std::string& path, CardSource source, ProblemList& problems);

// Runs of blanks and line breaks as one blank, none at the ends: folded YAML text as a single line.
std::string Unwrapped(std::string_view text);

}  // namespace sightline
