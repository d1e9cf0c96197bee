#include "containers/boot_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace sightline {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Finds `text`, in which '#' stands for one or more digits, at or behind `from`; gives the end of it, or npos.
size_t FindEnd(std::string_view line, std::string_view text, size_t from) {
  const size_t digits = text.find('#');
  if (digits == std::string_view::npos) {
    const size_t at = line.find(text, from);
    return at == std::string_view::npos ? at : at + text.size();
  }
  const std::string_view before = text.substr(0, digits), after = text.substr(digits + 1);
  for (size_t at = line.find(before, from); at != std::string_view::npos; at = line.find(before, at + 1)) {
    size_t end = at + before.size();
    const size_t first = end;
    while (end < line.size() && IsDigit(line[end])) ++end;
    if (end > first && line.substr(end).starts_with(after)) return end + after.size();
  }
  return std::string_view::npos;
}

// The digits, dots and commas that stand at or behind `from` first.
std::string_view NumberAfter(std::string_view line, size_t from) {
  while (from < line.size() && !IsDigit(line[from])) ++from;
  size_t end = from;
  while (end < line.size() && (IsDigit(line[end]) || line[end] == '.' || line[end] == ',')) ++end;
  while (end > from && !IsDigit(line[end - 1])) --end;
  return line.substr(from, end - from);
}

std::string NoDetail(std::string_view) { return {}; }

// Other programs print versions too: of the driver and of the firmware.
std::string VllmVersion(std::string_view line) {
  const bool other = line.find("UMD") != std::string_view::npos || line.find("irmware") != std::string_view::npos;
  if (other || (line.find("vLLM") == std::string_view::npos && line.find("LLM engine") == std::string_view::npos)) {
    return {};
  }
  for (const std::string_view before : {"version ", "(v"}) {
    const size_t at = line.find(before);
    if (at == std::string_view::npos || at + before.size() >= line.size()) continue;
    if (!IsDigit(line[at + before.size()])) continue;
    return fmt::format("vLLM {}", NumberAfter(line, at));
  }
  return {};
}

std::string Chips(std::string_view count) { return fmt::format("{} chip{}", count, count == "1" ? "" : "s"); }

std::string DeviceGrid(std::string_view line) {
  const size_t at = line.find("multidevice with ");
  if (at == std::string_view::npos) return {};
  const std::string_view count = NumberAfter(line, at);
  if (count.empty()) return {};
  const size_t grid = line.find("grid", at);
  const size_t open = grid == std::string_view::npos ? grid : line.find('(', grid);
  const size_t close = open == std::string_view::npos ? open : line.find(')', open);
  if (close == std::string_view::npos) return Chips(count);
  return fmt::format("{} · mesh {}", Chips(count), line.substr(open, close + 1 - open));
}

std::string FabricDevices(std::string_view line) {
  const size_t at = line.find("Fabric initialized on ");
  const std::string_view count = at == std::string_view::npos ? "" : NumberAfter(line, at);
  return count.empty() ? "" : Chips(count);
}

std::string CacheTokens(std::string_view line) {
  const size_t at = line.find("KV cache size");
  const std::string_view count = at == std::string_view::npos ? "" : NumberAfter(line, at);
  return count.empty() || line.find("token") == std::string_view::npos ? "" : fmt::format("{} tokens", count);
}

const std::array<StageRule, 6>& VllmRules() {
  static const std::array<StageRule, 6> rules{{
      {"starting the engine",
       "engine initialised",
       {"Available plugins for group vllm.platform_plugins", "Platform plugin tt is activated", "vLLM server version",
        "Initializing a V1 LLM engine"},
       "",
       VllmVersion},
      {"opening Tenstorrent device",
       "Tenstorrent device opened",
       {"Opening user mode device driver", "Attempting to open mesh device", "Starting devices in cluster"},
       "multidevice with #*grid*is created",
       DeviceGrid},
      {"loading weights",
       "weights loaded",
       {"Checkpoint directory:", "Loading checkpoint shards", "Fetching # files", "Loading safetensors",
        "Loading weights"},
       "",
       NoDetail},
      {"configuring KV cache",
       "KV cache configured",
       {"KV cache size", "Allocating TT kv caches", "num_gpu_blocks"},
       "",
       CacheTokens},
      {"warming up the model",
       "model warmed up",
       {"Warming up prefill", "Starting decode warmup", "Done Compiling Model", "Capturing*Trace"},
       "init engine*took *seconds",
       NoDetail},
      {"starting API server",
       "API server started",
       {"Starting vLLM API server", "Warming up chat template", "Uvicorn running on", "Started server process"},
       "",
       NoDetail},
  }};
  return rules;
}

const std::array<StageRule, 4>& ServerRules() {
  static const std::array<StageRule, 4> rules{{
      {"starting the server",
       "server process started",
       {"Started server process", "Waiting for application startup"},
       "",
       NoDetail},
      {"opening Tenstorrent device",
       "Tenstorrent device opened",
       {"Opening user mode device driver", "Starting devices in cluster"},
       "Fabric initialized on # devices",
       FabricDevices},
      {"loading weights",
       "weights loaded",
       {"Fetching # files", "Loading pipeline", "safetensors", "Loading weights", "Loading checkpoint"},
       "",
       NoDetail},
      {"warming up the pipeline",
       "pipeline warmed up",
       {"warm up", "Warm up", "warmup", "Warmup", "warming up", "Warming up", "Capturing trace", "Compiling"},
       "",
       NoDetail},
  }};
  return rules;
}

// Of a text that is a number.
bool Number(std::string_view text, uint64_t* value) {
  return !text.empty() && std::from_chars(text.data(), text.data() + text.size(), *value).ec == std::errc();
}

constexpr std::string_view kLevels[] = {"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"};

// How much of the line's beginning is a prefix of a logger: one piece of it.
size_t PrefixLength(std::string_view line) {
  if (line.empty()) return 0;
  if (line[0] == ' ' || line[0] == '\t' || line[0] == '|') return 1;
  if (line.starts_with("- ")) return 2;
  for (const std::string_view level : kLevels) {
    const char after = line.size() > level.size() ? line[level.size()] : ' ';
    if (line.starts_with(level) && (after == ' ' || after == ':')) return std::min(line.size(), level.size() + 1);
  }
  const std::pair<char, char> brackets[] = {{'[', ']'}, {'(', ')'}};
  for (const auto& [open, close] : brackets) {
    if (line[0] != open) continue;
    const size_t end = line.find(close);
    const bool source = open == '[' || line.find("pid=") < end;
    return source && end != std::string_view::npos ? end + 1 : 0;
  }
  // A date or a time: digits and marks, at least two marks ("12:00:01", "09-14").
  size_t end = 0, marks = 0;
  while (end < line.size() &&
         (IsDigit(line[end]) || std::string_view("-:.,/TZ").find(line[end]) != std::string_view::npos)) {
    marks += IsDigit(line[end]) ? 0 : 1;
    ++end;
  }
  const bool ends = end == line.size() || line[end] == ' ' || line[end] == '|';
  return ends && end >= 5 && marks >= 1 && IsDigit(line[0]) ? end : 0;
}

std::string WithoutEscapes(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      text += static_cast<unsigned char>(line[i]) < ' ' ? ' ' : line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && !(line[i] >= '@' && line[i] <= '~')) ++i;
    }
  }
  return text;
}

}  // namespace

bool HasSign(std::string_view line, std::string_view sign) {
  size_t from = 0;
  while (!sign.empty()) {
    const size_t star = std::min(sign.find('*'), sign.size());
    from = FindEnd(line, sign.substr(0, star), from);
    if (from == std::string_view::npos) return false;
    sign.remove_prefix(std::min(star + 1, sign.size()));
  }
  return true;
}

std::span<const StageRule> StageRules(bool vllm) {
  if (vllm) return VllmRules();
  return ServerRules();
}

bool NamesACause(std::string_view line) {
  constexpr std::string_view signs[] = {"Error",
                                        "error:",
                                        "ERROR",
                                        "Exception",
                                        "FATAL",
                                        "Fatal",
                                        "fatal:",
                                        "CRITICAL",
                                        "Killed",
                                        "out of memory",
                                        "Out of memory",
                                        "CHIP_IN_USE",
                                        "No space left",
                                        "no such option",
                                        "No such option",
                                        "unrecognized arguments",
                                        "Address already in use",
                                        "address already in use",
                                        "Sysmem mapped at unexpected NOC address",
                                        "stale process holding",
                                        "Segmentation fault",
                                        "terminate called"};
  return std::any_of(std::begin(signs), std::end(signs),
                     [line](std::string_view sign) { return line.find(sign) != std::string_view::npos; });
}

bool ReadCounts(std::string_view line, uint64_t* done, uint64_t* total) {
  const size_t percent = line.find("%|");
  const size_t bar = percent == std::string_view::npos ? percent : line.find('|', percent + 2);
  const size_t slash = bar == std::string_view::npos ? bar : line.find('/', bar);
  if (slash == std::string_view::npos || percent == 0 || !IsDigit(line[percent - 1])) return false;
  std::string_view before = line.substr(bar + 1, slash - bar - 1), after = line.substr(slash + 1);
  while (before.starts_with(' ')) before.remove_prefix(1);
  size_t end = 0;
  while (end < after.size() && IsDigit(after[end])) ++end;
  const bool whole = end == after.size() || after[end] == ' ';
  const bool digits = std::all_of(before.begin(), before.end(), IsDigit);
  return whole && digits && Number(before, done) && Number(after.substr(0, end), total) && *total > 0 &&
         *done <= *total;
}

std::string CleanLine(std::string_view line) {
  const std::string text = WithoutEscapes(line);
  std::string_view rest = text;
  for (size_t length = PrefixLength(rest); length > 0 && length < rest.size(); length = PrefixLength(rest)) {
    rest.remove_prefix(length);
  }
  while (rest.ends_with(' ')) rest.remove_suffix(1);
  return std::string(rest);
}

}  // namespace sightline
