// Credentials that docker, podman and skopeo keep for registries.
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

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
  // podman login writes there where a user has no folder of the session's.
  const std::filesystem::path shared = std::filesystem::path("/run/containers") / std::to_string(::getuid());
  files.push_back((runtime.empty() ? shared : runtime / "containers") / "auth.json");
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

// "host/team/image", "host/team", "host".
std::vector<std::string> KeysOf(const OciReference& reference) {
  std::vector<std::string> keys{reference.host + "/" + reference.repository};
  while (keys.back() != reference.host) keys.push_back(keys.back().substr(0, keys.back().rfind('/')));
  return keys;
}

std::string_view KnownHost(std::string_view host) {
  return host == "docker.io" || host == "registry-1.docker.io" ? "index.docker.io" : host;
}

// Docker's own keys may be URLs: "https://index.docker.io/v1/".
std::string_view HostOfKey(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) return key.substr(scheme.size(), key.find('/', scheme.size()) - scheme.size());
  }
  return key;
}

// containers-auth.json(5): the most specific path wins, word for word; then whatever else names the host.
std::string_view FindEncoded(const dom::object& auths, const OciReference& reference) {
  std::string_view encoded;
  for (const std::string& key : KeysOf(reference)) {
    for (const auto& [name, entry] : auths) {
      if (name == key && !entry["auth"].get(encoded)) return encoded;
    }
  }
  for (const auto& [name, entry] : auths) {
    if (KnownHost(HostOfKey(name)) == KnownHost(reference.host) && !entry["auth"].get(encoded)) return encoded;
  }
  return {};
}

// The errors of these files name no content: it is secret.
Result<std::optional<RegistryCredentials>> Find(const std::filesystem::path& file, const OciReference& reference) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(file, kMaxFileBytes));
  dom::parser parser;
  dom::object object, auths;
  auto error = parser.allocate(std::max<size_t>(bytes.size(), 64), kMaxJsonDepth);
  if (!error) error = parser.parse(reinterpret_cast<const char*>(bytes.data()), bytes.size()).get(object);
  if (error) return Fail(Code::kInvalidRequest, fmt::format("{}: is no JSON object", file.string()));
  if (object["auths"].get(auths)) return std::optional<RegistryCredentials>();
  const std::string_view encoded = FindEncoded(auths, reference);
  if (encoded.empty()) return std::optional<RegistryCredentials>();
  const auto decoded = DecodeBase64(encoded);
  const size_t colon = decoded ? decoded->find(':') : std::string::npos;
  if (colon == std::string::npos) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{}: the credentials for {} cannot be read", file.string(), reference.host));
  }
  return std::optional(RegistryCredentials{decoded->substr(0, colon), decoded->substr(colon + 1)});
}

}  // namespace

Result<std::optional<RegistryCredentials>> FindRegistryCredentials(const OciReference& reference) {
  for (const auto& file : Files()) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    SIGHTLINE_ASSIGN_OR_RETURN(auto found, Find(file, reference));
    if (found) return found;
  }
  return std::optional<RegistryCredentials>();
}

}  // namespace sightline
