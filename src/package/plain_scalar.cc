#include "package/plain_scalar.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace sightline {
namespace {

using Predicate = bool (*)(char);
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsDigitOrBar(char c) { return IsDigit(c) || c == '_'; }
bool IsBinary(char c) { return c == '0' || c == '1' || c == '_'; }
bool IsOctal(char c) { return (c >= '0' && c <= '7') || c == '_'; }
bool IsHexadecimal(char c) { return IsDigitOrBar(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Walks over a scalar; every method that returns bool moves only where it is true.
class Cursor {
 public:
  explicit Cursor(std::string_view rest) : rest_(rest) {}
  bool AtEnd() const { return rest_.empty(); }
  bool Take(std::string_view start) {
    if (rest_.substr(0, start.size()) != start) return false;
    rest_.remove_prefix(start.size());
    return true;
  }
  bool Sign() { return Take("+") || Take("-"); }
  bool One(Predicate allowed) {
    if (rest_.empty() || !allowed(rest_.front())) return false;
    rest_.remove_prefix(1);
    return true;
  }
  size_t Run(Predicate allowed) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), allowed);
    const auto count = static_cast<size_t>(end - rest_.begin());
    rest_.remove_prefix(count);
    return count;
  }
  // Zero or more of ":59".
  size_t BaseSixtyGroups() {
    size_t groups = 0;
    while (rest_.size() > 1 && rest_[0] == ':' && IsDigit(rest_[1])) {
      const bool two = rest_.size() > 2 && IsDigit(rest_[2]);
      if (two && rest_[1] > '5') break;
      rest_.remove_prefix(two ? 3 : 2);
      ++groups;
    }
    return groups;
  }

 private:
  std::string_view rest_;
};

bool IsInteger(std::string_view text) {
  Cursor cursor(text);
  cursor.Sign();
  if (cursor.Take("0")) {
    if (cursor.AtEnd()) return true;
    if (cursor.Take("b")) return cursor.Run(IsBinary) > 0 && cursor.AtEnd();
    if (cursor.Take("x")) return cursor.Run(IsHexadecimal) > 0 && cursor.AtEnd();
    return cursor.Run(IsOctal) > 0 && cursor.AtEnd();
  }
  if (!cursor.One(IsDigit)) return false;
  cursor.Run(IsDigitOrBar);
  cursor.BaseSixtyGroups();
  return cursor.AtEnd();
}

bool TakeExponent(Cursor& cursor) {
  if (!cursor.Take("e") && !cursor.Take("E")) return true;
  return cursor.Sign() && cursor.Run(IsDigit) > 0;
}

bool IsInfinityName(Cursor& cursor) { return cursor.Take(".inf") || cursor.Take(".Inf") || cursor.Take(".INF"); }

bool IsFloat(std::string_view text) {
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return true;
  Cursor cursor(text);
  const bool has_sign = cursor.Sign();
  if (Cursor special = cursor; IsInfinityName(special)) return special.AtEnd();
  if (cursor.One(IsDigit)) {
    cursor.Run(IsDigitOrBar);
    const bool sixty = cursor.BaseSixtyGroups() > 0;
    if (!cursor.Take(".")) return false;
    cursor.Run(IsDigitOrBar);
    return (sixty || TakeExponent(cursor)) && cursor.AtEnd();
  }
  if (has_sign || !cursor.Take(".") || !cursor.One(IsDigit)) return false;
  cursor.Run(IsDigitOrBar);
  return TakeExponent(cursor) && cursor.AtEnd();
}

// 2026-09-13, and with a time behind it. Only as much of the grammar as tells a date from text.
bool IsDate(std::string_view text) {
  Cursor cursor(text);
  if (cursor.Run(IsDigit) != 4 || !cursor.Take("-")) return false;
  const size_t month = cursor.Run(IsDigit);
  if (month < 1 || month > 2 || !cursor.Take("-")) return false;
  const size_t day = cursor.Run(IsDigit);
  if (day < 1 || day > 2) return false;
  if (cursor.AtEnd()) return month == 2 && day == 2;
  if (!cursor.Take("T") && !cursor.Take("t") && cursor.Run([](char c) { return c == ' ' || c == '\t'; }) == 0) {
    return false;
  }
  const size_t hour = cursor.Run(IsDigit);
  if (hour < 1 || hour > 2) return false;
  return cursor.Take(":") && cursor.Run(IsDigit) == 2 && cursor.Take(":") && cursor.Run(IsDigit) == 2;
}

std::string WithoutBars(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

// The magnitude of what follows a sign; nullopt: too large, or no digits.
std::optional<uint64_t> Magnitude(std::string_view digits) {
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    base = digits[1] == 'b' ? 2 : digits[1] == 'x' ? 16 : 8;
    digits.remove_prefix(base == 8 ? 1 : 2);
  }
  uint64_t total = 0;
  while (true) {
    const size_t colon = digits.find(':');
    const std::string_view group = digits.substr(0, colon);
    uint64_t part = 0;
    const auto read = std::from_chars(group.data(), group.data() + group.size(), part, base);
    if (read.ec != std::errc() || read.ptr != group.data() + group.size()) return std::nullopt;
    if (__builtin_mul_overflow(total, uint64_t{60}, &total) || __builtin_add_overflow(total, part, &total)) {
      return std::nullopt;
    }
    if (colon == std::string_view::npos) return total;
    digits.remove_prefix(colon + 1);
  }
}

std::optional<int64_t> IntegerValue(std::string_view text) {
  std::string digits = WithoutBars(text);
  const bool negative = digits[0] == '-';
  if (negative || digits[0] == '+') digits.erase(0, 1);
  const auto magnitude = Magnitude(digits);
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!magnitude || *magnitude > kMost) return std::nullopt;
  const auto value = static_cast<int64_t>(*magnitude);
  return negative ? -value : value;
}

std::optional<double> FloatValue(std::string_view text) {
  std::string digits = WithoutBars(text);
  const double sign = digits[0] == '-' ? -1 : 1;
  if (digits[0] == '-' || digits[0] == '+') digits.erase(0, 1);
  std::transform(digits.begin(), digits.end(), digits.begin(), [](char c) { return c == 'E' ? 'e' : c; });
  if (digits == ".nan" || digits == ".NaN" || digits == ".NAN") return std::numeric_limits<double>::quiet_NaN();
  if (Cursor cursor(digits); IsInfinityName(cursor)) return sign * std::numeric_limits<double>::infinity();
  double total = 0;
  std::string_view rest = digits;
  while (true) {
    const size_t colon = rest.find(':');
    const std::string_view group = rest.substr(0, colon);
    double part = 0;
    const auto read = std::from_chars(group.data(), group.data() + group.size(), part);
    if (read.ec != std::errc()) return std::nullopt;
    total = total * 60 + part;
    if (colon == std::string_view::npos) return sign * total;
    rest.remove_prefix(colon + 1);
  }
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace

std::optional<Value> ReadAsBool(std::string_view text) {
  if (IsOneOf(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return Value{true};
  if (IsOneOf(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return Value{false};
  return std::nullopt;
}

std::optional<Value> ReadAsInteger(std::string_view text) {
  if (!IsInteger(text)) return std::nullopt;
  const auto value = IntegerValue(text);
  return value ? std::optional(Value{*value}) : std::nullopt;
}

std::optional<Value> ReadAsFloat(std::string_view text) {
  if (!IsFloat(text)) {
    const auto whole = ReadAsInteger(text);
    return whole ? std::optional(Value{static_cast<double>(std::get<int64_t>(whole->data))}) : std::nullopt;
  }
  const auto value = FloatValue(text);
  return value ? std::optional(Value{*value}) : std::nullopt;
}

Result<Value> ReadPlainScalar(std::string_view text) {
  const std::string word(text.substr(0, 60));
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) return Value{};
  if (auto truth = ReadAsBool(text)) return *truth;
  if (IsInteger(text)) {
    if (auto whole = ReadAsInteger(text)) return *whole;
    return Fail(Code::kInvalidRequest, word + " is no integer of 64 bits; put it in quotes if it is text");
  }
  if (IsFloat(text)) {
    if (auto real = ReadAsFloat(text)) return *real;
    return Fail(Code::kInvalidRequest, word + " is no number of 64 bits; put it in quotes if it is text");
  }
  if (IsDate(text)) return Fail(Code::kInvalidRequest, word + " is a date in YAML; put it in quotes");
  if (text == "=") return Fail(Code::kInvalidRequest, "= has a meaning of its own in YAML; put it in quotes");
  return Value{std::string(text)};
}

}  // namespace sightline
