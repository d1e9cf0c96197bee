// Small JSON files of the store, as package's Value.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "package/package.h"

namespace sightline {

Result<std::string> ReadTextFile(const std::filesystem::path& file, size_t limit = 8u << 20);
// Makes the folder where it is missing.
Status WriteTextFile(const std::filesystem::path& file, std::string_view text);
// An absent file is an empty map; one that holds anything but a map is kCorruptWeights.
Result<Value> ReadMapFile(const std::filesystem::path& file);
Status WriteMapFile(const std::filesystem::path& file, const Value& map);

Value TextValue(std::string_view text);
// null where there is none.
Value TextValue(const std::optional<std::string>& text);
Value BoolValue(bool value);
Value TextList(const std::vector<std::string>& texts);
// Of a map's member that is a text; an empty one otherwise.
std::string TextMember(const Value& map, std::string_view key);
bool BoolMember(const Value& map, std::string_view key);
// False when it was not there.
bool RemoveMember(Value& map, std::string_view key);

// "2026-09-30T12:00:00Z": of SOURCE_DATE_EPOCH where that is set, else now.
std::string UtcNow();

}  // namespace sightline
