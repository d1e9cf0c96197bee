#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "hub/hub.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 64u << 10;

bool IsTrue(std::string value) {
  for (char& c : value) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c;
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// $NAME and ${NAME}; unknown ones stay as they are, as Python's os.path.expandvars leaves them.
std::string ExpandVariables(const std::string& text) {
  std::string expanded;
  for (size_t i = 0; i < text.size();) {
    const bool braced = text.compare(i, 2, "${") == 0;
    const size_t start = i + (braced ? 2 : 1);
    size_t end = start;
    while (text[i] == '$' && end < text.size() && (braced ? text[end] != '}' : IsNameByte(text[end]))) ++end;
    const char* value = end > start ? std::getenv(text.substr(start, end - start).c_str()) : nullptr;
    if (value == nullptr || (braced && end == text.size())) {
      expanded += text[i++];
      continue;
    }
    expanded += value;
    i = end + (braced ? 1 : 0);
  }
  return expanded;
}

fs::path Folder(std::string text) {
  if (text == "~" || text.starts_with("~/")) text = EnvironmentVariable("HOME") + text.substr(1);
  return ExpandVariables(text);
}

Result<fs::path> HubHome() {
  if (const std::string home = EnvironmentVariable("HF_HOME"); !home.empty()) return Folder(home);
  if (const std::string cache = EnvironmentVariable("XDG_CACHE_HOME"); !cache.empty())
    return Folder(cache) / "huggingface";
  const std::string home = EnvironmentVariable("HOME");
  if (home.empty()) return Fail(Code::kUsage, "no folder for the cache of the hub is known: set HF_HOME or HOME");
  return fs::path(home) / ".cache" / "huggingface";
}

std::string Trimmed(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
  return text;
}

// An absent file is no token; one that cannot be read is an error, or a private repository would look missing.
Result<std::string> TokenOfFile(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::string();
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(path, kMostTokenBytes));
  return Trimmed(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Status FindToken(HubSettings& settings) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = Trimmed(EnvironmentVariable(name));
    settings.token_source = name;
    if (!settings.token.empty()) return {};
  }
  SIGHTLINE_ASSIGN_OR_RETURN(settings.token, TokenOfFile(settings.token_file));
  settings.token_source = settings.token.empty() ? "" : "the file " + settings.token_file.string();
  return {};
}

// The value is never shown: it may be a secret in the wrong place.
Status CheckToken(const HubSettings& settings) {
  const bool plain =
      std::all_of(settings.token.begin(), settings.token.end(), [](char c) { return c > ' ' && c < 127; });
  if (plain) return {};
  return Fail(Code::kUsage, fmt::format("the token from {} has spaces or control bytes, expected one word like hf_...",
                                        settings.token_source));
}

}  // namespace

Result<fs::path> HubCacheFromEnvironment() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = EnvironmentVariable(name); !cache.empty()) return Folder(cache);
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path home, HubHome());
  return home / "hub";
}

Result<HubSettings> HubSettingsFromEnvironment() {
  HubSettings settings;
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path home, HubHome());
  SIGHTLINE_ASSIGN_OR_RETURN(settings.cache, HubCacheFromEnvironment());
  if (const std::string endpoint = EnvironmentVariable("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (UrlOrigin(settings.endpoint).empty()) {
    return Fail(Code::kUsage,
                fmt::format("HF_ENDPOINT is '{}', expected an http or https URL", PrintableUrl(settings.endpoint)));
  }
  settings.offline =
      IsTrue(EnvironmentVariable("HF_HUB_OFFLINE")) || IsTrue(EnvironmentVariable("TRANSFORMERS_OFFLINE"));
  const std::string token_file = EnvironmentVariable("HF_TOKEN_PATH");
  settings.token_file = token_file.empty() ? home / "token" : Folder(token_file);
  SIGHTLINE_RETURN_IF_ERROR(FindToken(settings));
  SIGHTLINE_RETURN_IF_ERROR(CheckToken(settings));
  return settings;
}

}  // namespace sightline
