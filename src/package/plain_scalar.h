// What a plain scalar (one without quotes) means in YAML 1.1, as PyYAML's safe loader reads it.
#pragma once

#include <string>
#include <string_view>

#include "package/package.h"

namespace sightline {

// The value of `text`; text itself where it is nothing else. Fails with a reason for what has a type that no package
// holds (dates) or a number that cannot be kept.
Result<Value> ReadPlainScalar(std::string_view text);

// As an explicit tag asks for; nullopt where `text` is none.
std::optional<Value> ReadAsInteger(std::string_view text);
std::optional<Value> ReadAsFloat(std::string_view text);
std::optional<Value> ReadAsBool(std::string_view text);

}  // namespace sightline
