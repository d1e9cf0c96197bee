// Reading a log file that is being written and may be replaced by a new one of the same name at any time.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/base.h"

namespace sightline {

// Gives the lines of a file in order, going on in the file's successor when it is rotated. One thread.
class LogReader {
 public:
  explicit LogReader(std::filesystem::path path) : path_(std::move(path)) {}
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // The lines that have been completed since the last call. A line over 64 KiB comes in pieces.
  std::vector<std::string> Read();
  // What stands behind the last line: a line that is not complete.
  std::string Rest();

 private:
  bool OpenNext();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string partial_;
};

// "90s", "10m", "2h30m", "1d" before `now`, or a time by RFC 3339 as 2026-01-31T12:00:00+09:00, of which everything
// behind the day, the seconds or the offset (then UTC) may be left out: as UTC in the form in which log lines begin.
// kUsage for anything else.
Result<std::string> LogTimeSince(const std::string& since, std::chrono::system_clock::time_point now);

// Lines from `since` on (a time as LogTimeSince gives it; empty: all); a line without a time has that of the line
// before it.
std::vector<std::string> LinesSince(std::vector<std::string> lines, const std::string& since);

}  // namespace sightline
