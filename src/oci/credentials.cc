// Credentials that docker, podman and skopeo keep for registries.
#include <fmt/format.h>
#include <simdjson.h>

#include <cstdlib>

#include "oci/oci.h"

namespace sightline {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxFileBytes = 1u << 20;
constexpr int kMaxJsonDepth = 32;

// RFC 4648, section 4; padding may be missing. Nothing when it is none.
std::optional<std::string> DecodeBase64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

// Where they may be, best first.
std::vector<std::filesystem::path> Files() {
  if (const std::filesystem::path own = EnvironmentVariable("REGISTRY_AUTH_FILE"); !own.empty()) return {own};
  std::vector<std::filesystem::path> files;
  const std::filesystem::path home = EnvironmentVariable("HOME"), runtime = EnvironmentVariable("XDG_RUNTIME_DIR"),
                              config = EnvironmentVariable("XDG_CONFIG_HOME");
  if (!runtime.empty()) files.push_back(runtime / "containers/auth.json");
  if (!config.empty() || !home.empty()) {
    files.push_back((config.empty() ? home / ".config" : config) / "containers/auth.json");
  }
  if (const std::filesystem::path docker = EnvironmentVariable("DOCKER_CONFIG"); !docker.empty()) {
    files.push_back(docker / "config.json");
  } else if (!home.empty()) {
    files.push_back(home / ".docker/config.json");
  }
  return files;
}

// "https://index.docker.io/v1/" is about index.docker.io, "host/team" about repositories of one team.
std::string_view HostOfKey(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  }
  return key.substr(0, key.find('/'));
}

bool IsFor(std::string_view key, const std::string& host) {
  if (HostOfKey(key) == host) return true;
  return host == "docker.io" && HostOfKey(key) == "index.docker.io";
}

// The errors of these files name no content: it is secret.
Result<std::optional<RegistryCredentials>> Find(const std::filesystem::path& file, const std::string& host) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(file, kMaxFileBytes));
  dom::parser parser;
  dom::object object, auths;
  auto error = parser.allocate(std::max<size_t>(bytes.size(), 64), kMaxJsonDepth);
  if (!error) error = parser.parse(reinterpret_cast<const char*>(bytes.data()), bytes.size()).get(object);
  if (error) return Fail(Code::kInvalidRequest, fmt::format("{}: is no JSON object", file.string()));
  if (object["auths"].get(auths)) return std::optional<RegistryCredentials>();
  for (const auto& [key, value] : auths) {
    std::string_view encoded;
    dom::element entry = value;
    if (!IsFor(key, host) || entry["auth"].get(encoded)) continue;
    const auto decoded = DecodeBase64(encoded);
    const size_t colon = decoded ? decoded->find(':') : std::string::npos;
    if (colon == std::string::npos) {
      return Fail(Code::kInvalidRequest, fmt::format("{}: the credentials for {} cannot be read", file.string(), host));
    }
    return std::optional(RegistryCredentials{decoded->substr(0, colon), decoded->substr(colon + 1)});
  }
  return std::optional<RegistryCredentials>();
}

}  // namespace

Result<std::optional<RegistryCredentials>> FindRegistryCredentials(const std::string& host) {
  for (const auto& file : Files()) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    SIGHTLINE_ASSIGN_OR_RETURN(auto found, Find(file, host));
    if (found) return found;
  }
  return std::optional<RegistryCredentials>();
}

}  // namespace sightline
