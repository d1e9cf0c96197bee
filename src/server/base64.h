// Base64, RFC 4648.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sightline {

// Standard alphabet, padded.
std::string EncodeBase64(std::span<const std::byte> bytes);

}  // namespace sightline
