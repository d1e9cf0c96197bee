// Names of images and artifacts in registries: the grammar of the distribution specification.
#include <fmt/format.h>

#include <algorithm>

#include "oci/oci.h"

namespace sightline {
namespace {

constexpr std::string_view kScheme = "oci://";
constexpr std::string_view kExample = "expected for example oci://registry.example:5000/team/gaze:1.0";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr size_t kMaxRepositoryBytes = 255;

bool IsLower(char c) { return kLower.find(c) != std::string_view::npos; }
bool IsAlphanumeric(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

// [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*
bool IsPathPart(std::string_view part) {
  if (part.empty() || !IsLower(part.front()) || !IsLower(part.back())) return false;
  for (size_t i = 0; i < part.size();) {
    if (IsLower(part[i])) {
      ++i;
      continue;
    }
    const size_t end = std::min(part.find_first_of(kLower, i), part.size());
    const std::string_view separator = part.substr(i, end - i);
    const bool dashes = separator.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && separator != "." && separator != "_" && separator != "__") return false;
    i = end;
  }
  return true;
}

bool IsRepository(std::string_view text) {
  if (text.size() > kMaxRepositoryBytes) return false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (!IsPathPart(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

// [A-Za-z0-9_][A-Za-z0-9._-]{0,127}
bool IsTag(std::string_view text) {
  if (text.empty() || text.size() > 128 || text.front() == '.' || text.front() == '-') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string_view::npos &&
         std::stoi(std::string(text)) > 0 && std::stoi(std::string(text)) < 65536;
}

bool IsHost(std::string_view text) {
  std::string_view name = text;
  if (text.starts_with('[')) {  // an IPv6 address
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return false;
    name = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    const bool digits = !name.empty() && name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
    return digits && (rest.empty() || (rest.front() == ':' && IsPort(rest.substr(1))));
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    if (!IsPort(text.substr(colon + 1))) return false;
    name = text.substr(0, colon);
  }
  const bool edges = !name.empty() && IsAlphanumeric(name.front()) && IsAlphanumeric(name.back());
  return edges &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsAlphanumeric(c) || c == '.' || c == '-'; });
}

tl::unexpected<Error> Wrong(std::string_view text, std::string_view why) {
  return Fail(Code::kUsage, fmt::format("'{}': {}, {}", text.substr(0, 200), why, kExample));
}

}  // namespace

Result<OciReference> ParseOciReference(std::string_view text) {
  const bool scheme = text.starts_with(kScheme);
  std::string_view rest = scheme ? text.substr(kScheme.size()) : text;
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return Wrong(text, "names no repository of a registry");
  OciReference reference;
  reference.host = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  const bool like_host = reference.host.find_first_of(".:") != std::string::npos || reference.host == "localhost";
  if (!scheme && !like_host) return Wrong(text, "does not begin with oci:// or the host of a registry");
  if (!IsHost(reference.host)) return Wrong(text, fmt::format("'{}' is no host", reference.host));
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    reference.digest = rest.substr(at + 1);
    if (!IsDigest(reference.digest)) return Wrong(text, "what follows @ is not sha256: and 64 digits");
    rest = rest.substr(0, at);
  }
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    reference.tag = rest.substr(colon + 1);
    if (!IsTag(reference.tag)) return Wrong(text, fmt::format("'{}' is no tag", reference.tag));
    rest = rest.substr(0, colon);
  }
  reference.repository = rest;
  if (!IsRepository(rest)) return Wrong(text, fmt::format("'{}' is no repository (lower case)", rest));
  if (reference.tag.empty() && reference.digest.empty()) reference.tag = "latest";
  return reference;
}

std::string FormatOciReference(const OciReference& reference) {
  std::string text = fmt::format("{}{}/{}", kScheme, reference.host, reference.repository);
  if (!reference.tag.empty()) text += ":" + reference.tag;
  if (!reference.digest.empty()) text += "@" + reference.digest;
  return text;
}

}  // namespace sightline
