// What a document may hold: no package comes near, and an attack must not cost more than this.
#pragma once

#include <cstddef>

namespace sightline {

inline constexpr size_t kMostDocumentBytes = 1u << 20;  // as YAML
inline constexpr size_t kMostValues = 100'000;
inline constexpr size_t kMostMembers = 1000;  // of one map
inline constexpr size_t kMostLevels = 64;
// Text that aliases repeat counts each time.
inline constexpr size_t kMostTextBytes = 8u << 20;

// The JSON that comes of a YAML document: more around it, and indented.
inline constexpr size_t kMostJsonBytes = 32u << 20;
inline constexpr size_t kMostJsonValues = 2 * kMostValues;
inline constexpr size_t kMostJsonLevels = kMostLevels + 8;

}  // namespace sightline
