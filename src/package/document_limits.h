// What a document may hold: no package comes near, and an attack must not cost more than this.
#pragma once

#include <cstddef>

namespace sightline {

inline constexpr size_t kMostDocumentBytes = 1u << 20;
inline constexpr size_t kMostValues = 100'000;
inline constexpr size_t kMostMembers = 1000;  // of one map
inline constexpr size_t kMostLevels = 64;
// Text that aliases repeat counts each time.
inline constexpr size_t kMostTextBytes = 8u << 20;

}  // namespace sightline
