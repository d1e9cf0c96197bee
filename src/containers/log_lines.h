// Bytes of a log to lines of valid UTF-8.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace sightline {

// \n, \r\n and \r end a line; a line over 64 KiB is handed over in pieces. One thread.
class LineSplitter {
 public:
  using Line = std::function<bool(std::string_view line)>;  // returns whether it wants more
  explicit LineSplitter(Line line) : line_(std::move(line)) {}
  // Both return false as soon as the callback had enough.
  bool Feed(std::span<const std::byte> bytes);
  bool End();  // hands over a last line without an end

 private:
  bool HandOver();

  Line line_;
  std::string pending_;
  bool after_return_ = false;
};

}  // namespace sightline
