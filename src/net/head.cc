#include "net/head.h"

#include <algorithm>
#include <optional>

namespace sightline {
namespace {

bool IsAlphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool IsTokenCharacter(char c) {
  return IsAlphanumeric(c) || (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Status Refuse(std::string message) { return Fail(Code::kInvalidRequest, std::move(message)); }

Status CheckFieldLine(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t') return Refuse("the request head has a folded line");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return Refuse("the request head has a line without a colon");
  const std::string_view name = line.substr(0, colon);
  if (name.empty() || !std::all_of(name.begin(), name.end(), IsTokenCharacter)) {
    return Refuse("the request head has a field name that is not a token");
  }
  const std::string_view value = line.substr(colon + 1);
  if (std::any_of(value.begin(), value.end(), [](char c) { return IsControl(c) && c != '\t'; })) {
    return Refuse("the request head has a control byte in the field " + std::string(name));
  }
  return {};
}

// The values of all fields of one name.
std::vector<std::string_view> Values(const HttpRequest& request, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : request.headers) {
    if (EqualsIgnoringCase(key, name)) values.push_back(value);
  }
  return values;
}

Status CheckHost(const HttpRequest& request, bool is_http_1_0) {
  const auto hosts = Values(request, "Host");
  if (hosts.size() > 1) return Refuse("the request has " + std::to_string(hosts.size()) + " Host fields, expected one");
  if (hosts.empty()) return is_http_1_0 ? Status{} : Refuse("the request has no Host field");
  const auto allowed = [](char c) {
    return IsAlphanumeric(c) ||
           (c != '\0' && std::string_view("-._~%!$&'()*+,;=:[]").find(c) != std::string_view::npos);
  };
  if (!std::all_of(hosts[0].begin(), hosts[0].end(), allowed)) return Refuse("the Host field is not a host and port");
  return {};
}

Status CheckBodyLength(const HttpRequest& request, bool is_http_1_0) {
  const auto lengths = Values(request, "Content-Length");
  const auto codings = Values(request, "Transfer-Encoding");
  if (lengths.size() > 1) {
    return Refuse("the request has " + std::to_string(lengths.size()) + " Content-Length fields, expected one");
  }
  if (!lengths.empty()) {
    const bool digits = std::all_of(lengths[0].begin(), lengths[0].end(), [](char c) { return c >= '0' && c <= '9'; });
    if (lengths[0].empty() || !digits) return Refuse("Content-Length is not a number");
  }
  if (codings.empty()) return {};
  if (!lengths.empty()) return Refuse("the request has both Content-Length and Transfer-Encoding");
  if (is_http_1_0) return Refuse("the request has Transfer-Encoding, which HTTP/1.0 does not know");
  if (codings.size() > 1 || !EqualsIgnoringCase(codings[0], "chunked")) {
    return Refuse("Transfer-Encoding is not 'chunked'");
  }
  return {};
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = LowerCase(c);
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

// "http://host:port/path" to "/path".
std::string_view WithoutAuthority(std::string_view target) {
  const size_t scheme_end = target.find("://");
  if (scheme_end == std::string_view::npos) return target;
  const size_t path = target.find_first_of("/?", scheme_end + 3);
  return path == std::string_view::npos ? std::string_view("/") : target.substr(path);
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerCase(x) == LowerCase(y); });
}

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoringCase(key, name)) return value;
  }
  return {};
}

size_t FindHeadEnd(std::string_view text, size_t from) {
  size_t line_end = text.find('\n', from > 2 ? from - 2 : 0);
  while (line_end != std::string_view::npos) {
    const std::string_view rest = text.substr(line_end + 1, 2);
    if (rest.starts_with('\n')) return line_end + 2;
    if (rest == "\r\n") return line_end + 3;
    line_end = text.find('\n', line_end + 1);
  }
  return 0;
}

Status CheckHeadBytes(std::string_view head) {
  bool request_line = true;
  while (!head.empty()) {
    const size_t line_end = head.find('\n');
    if (line_end == std::string_view::npos || line_end == 0 || head[line_end - 1] != '\r') {
      return Refuse("the request head has a line feed without a CR");
    }
    const std::string_view line = head.substr(0, line_end - 1);
    head.remove_prefix(line_end + 1);
    if (line.empty()) continue;
    if (request_line) {
      if (std::any_of(line.begin(), line.end(), IsControl)) return Refuse("the request line has a control byte");
    } else {
      SIGHTLINE_RETURN_IF_ERROR(CheckFieldLine(line));
    }
    request_line = false;
  }
  return {};
}

Status CheckHeadFields(const HttpRequest& request, bool is_http_1_0) {
  SIGHTLINE_RETURN_IF_ERROR(CheckHost(request, is_http_1_0));
  return CheckBodyLength(request, is_http_1_0);
}

Result<std::string> DecodePath(std::string_view target) {
  if (target == "*") return "*";
  const std::string_view origin = target.starts_with('/') ? target : WithoutAuthority(target);
  const std::string_view encoded = origin.substr(0, origin.find_first_of("?#"));
  std::string path;
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      path.push_back(encoded[i]);
      continue;
    }
    const auto high = i + 2 < encoded.size() ? HexDigit(encoded[i + 1]) : std::nullopt;
    const auto low = i + 2 < encoded.size() ? HexDigit(encoded[i + 2]) : std::nullopt;
    if (!high || !low) return Fail(Code::kInvalidRequest, "the request target has a '%' without two hex digits");
    const auto byte = static_cast<char>(*high * 16 + *low);
    if (IsControl(byte)) return Fail(Code::kInvalidRequest, "the request target has an encoded control byte");
    path.push_back(byte);
    i += 2;
  }
  if (!path.empty() && path.front() != '/') return Fail(Code::kInvalidRequest, "the request target is not a path");
  return path.empty() ? "/" : path;
}

}  // namespace sightline
