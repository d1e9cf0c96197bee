// Base64 (RFC 4648, section 4) of credentials.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sightline {

std::string EncodeBase64(std::string_view bytes);
std::optional<std::string> DecodeBase64(std::string_view text);  // nothing when it is none; padding may be missing

}  // namespace sightline
