// The parts of a card that take more than a line.
#pragma once

#include <string>
#include <vector>

#include "package/package.h"

namespace sightline {

// The YAML between the two lines of dashes, these included.
std::string CardFrontMatter(const WireManifest& manifest);
// The table of what the image was built from.
std::string CardProvenance(const WireManifest& manifest);
// What a client sends, from the kind and the capabilities.
std::string CardUsage(const WireManifest& manifest, const std::vector<ServeProfile>& profiles);
// A cell of a Markdown table: one line, no bars.
std::string TableCell(std::string_view text);
// 131072 as "131,072".
std::string WithCommas(int64_t count);

}  // namespace sightline
