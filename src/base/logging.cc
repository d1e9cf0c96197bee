#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

#include "base/base.h"
#include "base/log_file.h"

namespace sightline {
namespace {

// Leaked on purpose: threads may log while the process ends.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* created = new spdlog::logger("sightline", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_formatter(
        std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %-5l %v", spdlog::pattern_time_type::utc));
    return created;
  }();
  return *logger;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Text from outside must not be able to forge a second line or move a terminal's cursor.
std::string WithoutControlCharacters(std::string_view line) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string safe;
  safe.reserve(line.size());
  for (const char c : line) {
    if (IsControl(c)) {
      const auto value = static_cast<unsigned char>(c);
      safe.append({'\\', 'x', kDigits[value >> 4], kDigits[value & 15]});
    } else {
      safe.push_back(c);
    }
  }
  return safe;
}

void Log(spdlog::level::level_enum level, std::string_view line) {
  if (!Logger().should_log(level)) return;
  RotateLogFileIfLarge();
  Logger().log(level, WithoutControlCharacters(line));
}

}  // namespace

void SetUpLogging(LogLevel level) {
  switch (level) {
    case LogLevel::kQuiet:
      return Logger().set_level(spdlog::level::err);
    case LogLevel::kInfo:
      return Logger().set_level(spdlog::level::info);
    case LogLevel::kDebug:
      return Logger().set_level(spdlog::level::debug);
  }
}

void LogInfo(std::string_view line) { Log(spdlog::level::info, line); }
void LogWarning(std::string_view line) { Log(spdlog::level::warn, line); }
void LogError(std::string_view line) { Log(spdlog::level::err, line); }
void LogDebug(std::string_view line) { Log(spdlog::level::debug, line); }

}  // namespace sightline
