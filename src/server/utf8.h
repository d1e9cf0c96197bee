// UTF-8, RFC 3629.
#pragma once

#include <cstddef>
#include <string_view>

namespace sightline {

// The offset of the first byte that is not part of a well-formed character, or npos.
size_t FindInvalidUtf8(std::string_view text);

}  // namespace sightline
