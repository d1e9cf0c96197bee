#include "launch/log_reader.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <regex>

namespace sightline {
namespace {

constexpr size_t kLongestLine = 64u << 10;
constexpr size_t kTimeLength = std::string_view("2026-01-31T12:00:00.000Z").size();

// Complete lines of `text`, which keeps what is left.
std::vector<std::string> TakeLines(std::string* text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (;;) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    if (end == text->size() && end - begin < kLongestLine) break;
    const size_t length = std::min(end - begin, kLongestLine);
    lines.push_back(text->substr(begin, length));
    begin += length;
    if (begin < text->size() && (*text)[begin] == '\n') ++begin;
  }
  text->erase(0, begin);
  return lines;
}

std::optional<std::chrono::seconds> ParseSpan(std::string_view text) {
  std::chrono::seconds span{0};
  while (!text.empty()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0 || number > 1'000'000'000 || end == text.data() + text.size()) return {};
    const char unit = *end;
    const int64_t seconds = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86'400 : 0;
    if (seconds == 0) return {};
    span += std::chrono::seconds(number * seconds);
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  }
  return span;
}

bool BeginsWithTime(const std::string& line) {
  return line.size() >= kTimeLength && line[4] == '-' && line[10] == 'T' && line[kTimeLength - 1] == 'Z';
}

}  // namespace

LogReader::~LogReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Opens what the path names now, unless that is what is open already.
bool LogReader::OpenNext() {
  const int next = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (next < 0) return false;
  struct stat now, before;
  const bool same = descriptor_ >= 0 && ::fstat(next, &now) == 0 && ::fstat(descriptor_, &before) == 0 &&
                    now.st_ino == before.st_ino && now.st_dev == before.st_dev;
  if (same) {
    ::close(next);
    return false;
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = next;
  return true;
}

std::vector<std::string> LogReader::Read() {
  std::vector<std::string> lines;
  std::array<char, 1u << 16> bytes;
  bool again = descriptor_ >= 0 || OpenNext();
  while (again) {
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count > 0) {
      partial_.append(bytes.data(), static_cast<size_t>(count));
      std::ranges::move(TakeLines(&partial_), std::back_inserter(lines));
    } else {
      again = OpenNext();
    }
  }
  return lines;
}

std::string LogReader::Rest() { return std::exchange(partial_, {}); }

Result<std::string> LogTimeSince(const std::string& since, std::chrono::system_clock::time_point now) {
  if (const auto span = ParseSpan(since); span && !since.empty()) {
    const auto then = std::chrono::time_point_cast<std::chrono::seconds>(now) - *span;
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z", fmt::gmtime(std::chrono::system_clock::to_time_t(then)));
  }
  static const std::regex kTime(R"((\d{4}-\d\d-\d\d)(T\d\d:\d\d)?(:\d\d)?(\.\d{1,3})?Z?)");
  std::smatch parts;
  if (!std::regex_match(since, parts, kTime)) {
    return Fail(Code::kUsage,
                fmt::format("--since is '{}', expected a span like 10m or a time like 2026-01-31T12:00:00Z", since));
  }
  std::string fraction = parts[4].matched ? parts[4].str() : ".";
  fraction.resize(4, '0');
  return parts[1].str() + (parts[2].matched ? parts[2].str() : "T00:00") + (parts[3].matched ? parts[3].str() : ":00") +
         fraction + "Z";
}

std::vector<std::string> LinesSince(std::vector<std::string> lines, const std::string& since) {
  if (since.empty()) return lines;
  const auto first = std::find_if(lines.begin(), lines.end(), [&since](const std::string& line) {
    return BeginsWithTime(line) && line.compare(0, kTimeLength, since) >= 0;
  });
  lines.erase(lines.begin(), first);
  return lines;
}

}  // namespace sightline
