#include "containers/inspect_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdio>
#include <cstring>
#include <ctime>

namespace sightline {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaxJsonDepth = 64;

std::string Text(simdjson::simdjson_result<dom::element> value) {
  std::string_view text;
  if (value.get(text)) return {};
  return std::string(text);
}

// "2026-09-30T12:00:00.123456789+02:00" in seconds since 1970; nothing for what is no time, and for the year 1, which
// means never.
std::optional<int64_t> SecondsOf(const std::string& text) {
  std::tm time{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  constexpr int kUnixYear = 70;
  if (rest == nullptr || time.tm_year < kUnixYear) return std::nullopt;
  const int64_t seconds = ::timegm(&time);
  if (*rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
  int hours = 0, minutes = 0;
  const bool offset = std::sscanf(rest + (*rest != '\0'), "%2d:%2d", &hours, &minutes) == 2;  // NOLINT: checked
  const int64_t east = offset ? 60 * (60 * int64_t{hours} + minutes) : 0;
  return *rest == '-' ? seconds + east : seconds - east;
}

bool Truth(simdjson::simdjson_result<dom::element> value) {
  bool truth = false;
  return !value.get(truth) && truth;
}

std::vector<std::string> TextsOf(simdjson::simdjson_result<dom::element> list, const char* key) {
  std::vector<std::string> texts;
  dom::array items;
  if (list.get(items)) return texts;
  for (const dom::element item : items) {
    if (std::string text = Text(item[key]); !text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

ContainerState StateOf(dom::element item) {
  ContainerState state;
  state.id = Text(item["Id"]);
  state.name = Text(item["Name"]);
  if (state.name.starts_with('/')) state.name.erase(0, 1);
  state.image = Text(item["Config"]["Image"]);
  state.running = Truth(item["State"]["Running"]);
  state.started = SecondsOf(Text(item["State"]["StartedAt"]));
  int64_t exit_code = 0;
  if (!item["State"]["ExitCode"].get(exit_code)) state.exit_code = static_cast<int>(exit_code);
  dom::object labels;
  if (!item["Config"]["Labels"].get(labels)) {
    for (const auto& [key, value] : labels) state.labels.emplace(key, Text(dom::element(value)));
  }
  state.device_paths = TextsOf(item["HostConfig"]["Devices"], "PathOnHost");
  state.mount_sources = TextsOf(item["Mounts"], "Source");
  state.ipc_mode = Text(item["HostConfig"]["IpcMode"]);
  state.privileged = Truth(item["HostConfig"]["Privileged"]);
  return state;
}

}  // namespace

Result<std::vector<ContainerState>> ParseInspect(const std::string& json, const std::string& what) {
  dom::parser parser;
  dom::array items;
  auto error = parser.allocate(json.size(), kMaxJsonDepth);
  if (!error) error = parser.parse(json).get(items);
  if (error) {
    return Fail(Code::kInternal,
                fmt::format("{}: did not print a JSON list: {}", what, simdjson::error_message(error)));
  }
  std::vector<ContainerState> states;
  for (const dom::element item : items) states.push_back(StateOf(item));
  return states;
}

}  // namespace sightline
