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

namespace sightline {
namespace {

using Time = std::chrono::sys_time<std::chrono::milliseconds>;

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

// "2h30m"
std::optional<std::chrono::seconds> ParseSpan(std::string_view text) {
  constexpr std::chrono::hours kLongest{24 * 365 * 1000};
  std::chrono::seconds span{0};
  while (!text.empty()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0 || number > 1'000'000'000 || end == text.data() + text.size()) return {};
    const char unit = *end;
    const int64_t seconds = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86'400 : 0;
    if (seconds == 0) return {};
    span = std::min<std::chrono::seconds>(span + std::chrono::seconds(number * seconds), kLongest);
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  }
  return span;
}

// The parts of a written time, in order; remembers whether all were as expected.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}
  // Exactly `count` digits.
  int Digits(size_t count) {
    int number = 0;
    for (size_t i = 0; i < count; ++i) {
      valid_ &= i < rest_.size() && IsDigit(rest_[i]);
      if (!valid_) return 0;
      number = 10 * number + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return number;
  }
  // Digits of a fraction, at least one; those beyond milliseconds do not count.
  int Milliseconds() {
    const int first = Digits(1), second = NextIsDigit() ? Digits(1) : 0, third = NextIsDigit() ? Digits(1) : 0;
    while (NextIsDigit()) rest_.remove_prefix(1);
    return 100 * first + 10 * second + third;
  }
  // Takes the next character where it is one of `signs`; 0: it is none.
  char Take(std::string_view signs) {
    if (rest_.empty() || signs.find(rest_.front()) == std::string_view::npos) return 0;
    const char sign = rest_.front();
    rest_.remove_prefix(1);
    return sign;
  }
  void Expect(char sign) { valid_ &= Take({&sign, 1}) != 0; }
  bool valid() const { return valid_ && rest_.empty(); }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  bool NextIsDigit() const { return !rest_.empty() && IsDigit(rest_.front()); }

  std::string_view rest_;
  bool valid_ = true;
};

// RFC 3339. The time of day, its seconds and its offset may be left out.
std::optional<Time> ParseTime(std::string_view text) {
  TimeReader reader(text);
  const std::chrono::year year(reader.Digits(4));
  reader.Expect('-');
  const std::chrono::month month(static_cast<unsigned>(reader.Digits(2)));
  reader.Expect('-');
  const std::chrono::year_month_day date(year, month, std::chrono::day(static_cast<unsigned>(reader.Digits(2))));
  int hour = 0, minute = 0, second = 0, millisecond = 0, offset_minutes = 0;
  if (reader.Take("Tt ") != 0) {
    hour = reader.Digits(2);
    reader.Expect(':');
    minute = reader.Digits(2);
    if (reader.Take(":") != 0) second = reader.Digits(2);
    if (reader.Take(".") != 0) millisecond = reader.Milliseconds();
    if (const char sign = reader.Take("+-"); sign != 0) {
      const int hours = reader.Digits(2);
      reader.Expect(':');
      offset_minutes = (sign == '-' ? -1 : 1) * (60 * hours + reader.Digits(2));
    } else {
      reader.Take("Zz");
    }
  }
  if (!reader.valid() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute - offset_minutes) +
         std::chrono::seconds(second) + std::chrono::milliseconds(millisecond);
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
  const auto span = since.empty() ? std::nullopt : ParseSpan(since);
  const auto then =
      span ? std::optional<Time>(std::chrono::floor<std::chrono::seconds>(now) - *span) : ParseTime(since);
  if (!then) {
    return Fail(Code::kUsage, fmt::format("--since is '{}', expected a span like 10m or 2h30m, or a time like "
                                          "2026-01-31T12:00:00Z",
                                          since));
  }
  const Time time = std::max(Time{}, *then);  // no log is older than 1970
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(second.time_since_epoch().count()),
                     (time - second).count());
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
