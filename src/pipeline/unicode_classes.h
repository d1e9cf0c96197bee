// The classes of characters that Python's \d and \s take (Unicode 14), for readers that must agree with Python
// programs.
#pragma once

#include <optional>
#include <string_view>

namespace sightline {

struct Character {
  char32_t code = 0;
  size_t length = 1;  // bytes
};
// The first character of `text`, which is not empty. A byte that begins no UTF-8 character stands for U+FFFD.
Character FirstCharacter(std::string_view text);

std::optional<int> DecimalDigit(char32_t code);  // 0 to 9 of any script
bool IsSpace(char32_t code);

std::string_view StripSpace(std::string_view text);

}  // namespace sightline
