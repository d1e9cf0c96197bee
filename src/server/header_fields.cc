#include "server/header_fields.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <string_view>

#include "server/json_fields.h"

namespace sightline {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

// Headers may hold any bytes, messages only text.
std::string Quoted(std::string_view header) {
  return FindInvalidUtf8(header) == header.npos ? fmt::format("'{}'", Shortened(header)) : "no text";
}

}  // namespace

std::string RequestId(const HttpRequest& request) {
  const std::string_view given = request.Header("X-Request-Id");
  const bool sane = !given.empty() && given.size() <= kMaxRequestIdBytes &&
                    std::ranges::all_of(given, [](char c) { return c > ' ' && c < 0x7f; });
  if (sane) return std::string(given);
  uint8_t bytes[16] = {};
  SIGHTLINE_CHECK(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
  std::string id;
  for (const uint8_t byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) id.push_back("0123456789abcdef"[digit]);
  }
  return id;
}

Status CheckContentType(const HttpRequest& head) {
  const std::string_view given = head.Header("Content-Type");
  std::string type(given.substr(0, given.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  for (char& c : type) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (!type.empty() && type != "application/json") {
    return Fail(Code::kUnsupportedMedia, fmt::format("Content-Type is {}, expected application/json", Quoted(type)),
                "Content-Type");
  }
  const std::string_view encoding = head.Header("Content-Encoding");
  if (!encoding.empty() && encoding != "identity") {
    return Fail(Code::kUnsupportedMedia,
                fmt::format("Content-Encoding is {}, expected none: compressed bodies are not read", Quoted(encoding)),
                "Content-Encoding");
  }
  return {};
}

int RetryAfterSeconds(Code code) {
  switch (code) {
    case Code::kBusy:
    case Code::kOutOfMemory:
      return 1;
    case Code::kStarting:
      return 2;
    case Code::kDraining:
    case Code::kDeviceLost:
      return 5;
    default:
      return 0;
  }
}

}  // namespace sightline
