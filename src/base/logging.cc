#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "base/base.h"
#include "base/log_file.h"

namespace sightline {
namespace {

constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%eZ %-5l %v";

void SetPattern(spdlog::logger& logger, std::string pattern) {
  logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(std::move(pattern), spdlog::pattern_time_type::utc));
}

// Leaked on purpose: threads may log while the process ends.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* created = new spdlog::logger("sightline", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    SetPattern(*created, kPattern);
    return created;
  }();
  return *logger;
}

void SetUp(spdlog::level::level_enum level, std::string pattern) {
  Logger().set_level(level);
  SetPattern(Logger(), std::move(pattern));
}

// As commands print warnings of their own, over the line of progress that a terminal may show.
std::string QuietPattern() { return std::string(::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "") + "sightline: %l: %v"; }

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
      return SetUp(spdlog::level::warn, QuietPattern());
    case LogLevel::kInfo:
      return SetUp(spdlog::level::info, kPattern);
    case LogLevel::kDebug:
      return SetUp(spdlog::level::debug, kPattern);
  }
}

void LogInfo(std::string_view line) { Log(spdlog::level::info, line); }
void LogWarning(std::string_view line) { Log(spdlog::level::warn, line); }
void LogError(std::string_view line) { Log(spdlog::level::err, line); }
void LogDebug(std::string_view line) { Log(spdlog::level::debug, line); }

}  // namespace sightline
