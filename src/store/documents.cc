#include "store/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <system_error>

namespace sightline {

Result<std::string> ReadTextFile(const std::filesystem::path& file, size_t limit) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(file, limit));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status WriteTextFile(const std::filesystem::path& file, std::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return tl::make_unexpected(ErrnoError("write", file.parent_path(), error.value()));
  return WriteFileAtomically(file, AsBytes(text));
}

Result<Value> ReadMapFile(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) return Value{Value::Map{}};
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file));
  Result<Value> document = ParseJson(text, file.string());
  if (!document) return Fail(Code::kCorruptWeights, document.error().message);
  if (document->AsMap() == nullptr) {
    return Fail(Code::kCorruptWeights, fmt::format("{}: no JSON object, expected one", file.string()));
  }
  return document;
}

Status WriteMapFile(const std::filesystem::path& file, const Value& map) { return WriteTextFile(file, ToJson(map, 2)); }

Value TextValue(std::string_view text) { return Value{std::string(text)}; }
Value TextValue(const std::optional<std::string>& text) { return text ? Value{*text} : Value{}; }
Value BoolValue(bool value) { return Value{value}; }

Value TextList(const std::vector<std::string>& texts) {
  Value::List list;
  for (const std::string& text : texts) list.push_back(Value{text});
  return Value{std::move(list)};
}

std::string TextMember(const Value& map, std::string_view key) { return TextIn(map, key).value_or(std::string()); }

bool BoolMember(const Value& map, std::string_view key) {
  const Value* member = map.Find(key);
  const bool* value = member == nullptr ? nullptr : std::get_if<bool>(&member->data);
  return value != nullptr && *value;
}

bool RemoveMember(Value& map, std::string_view key) {
  Value::Map* members = map.AsMap();
  return members != nullptr && std::erase_if(*members, [&](const Value::Member& member) { return member.key == key; });
}

std::string UtcNow() {
  std::time_t seconds = std::time(nullptr);
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH")) {
    const std::string_view text(fixed);
    long long value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) {
      seconds = static_cast<std::time_t>(value);
    }
  }
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace sightline
