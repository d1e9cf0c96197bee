#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sightline {

// The bytes that a token of vocab.json stands for. The files write each byte as one printable character (openai/gpt-2,
// encoder.py, bytes_to_unicode). Nothing when the text has another character.
std::optional<std::string> BytesOfAlphabet(std::string_view text);

}  // namespace sightline
