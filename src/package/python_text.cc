#include "package/python_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace sightline {

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 400> buffer;
  const double size = std::abs(value);
  // The bounds between which Python writes no exponent.
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string PythonText(const Value& scalar) {
  if (scalar.IsNull()) return "None";
  if (const auto* truth = std::get_if<bool>(&scalar.data)) return *truth ? "True" : "False";
  if (const auto* whole = std::get_if<int64_t>(&scalar.data)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&scalar.data)) return PythonFloat(*real);
  SIGHTLINE_CHECK(scalar.AsText() != nullptr);
  return *scalar.AsText();
}

std::string PythonQuote(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c == quote) out += '\\';
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  return out + quote;
}

std::string PythonList(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + PythonQuote(text);
  return out + "]";
}

}  // namespace sightline
