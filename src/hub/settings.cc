#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "hub/hub.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 64u << 10;

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : value;
}

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
  if (text == "~" || text.starts_with("~/")) text = Variable("HOME") + text.substr(1);
  return ExpandVariables(text);
}

Result<fs::path> HubHome() {
  if (const std::string home = Variable("HF_HOME"); !home.empty()) return Folder(home);
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) return Folder(cache) / "huggingface";
  const std::string home = Variable("HOME");
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

Status FindToken(const fs::path& home, HubSettings& settings) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = Trimmed(Variable(name));
    settings.token_source = name;
    if (!settings.token.empty()) return {};
  }
  const std::string named = Variable("HF_TOKEN_PATH");
  const fs::path file = named.empty() ? home / "token" : Folder(named);
  SIGHTLINE_ASSIGN_OR_RETURN(settings.token, TokenOfFile(file));
  settings.token_source = settings.token.empty() ? "" : "the file " + file.string();
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

Result<HubSettings> HubSettingsFromEnvironment() {
  HubSettings settings;
  SIGHTLINE_ASSIGN_OR_RETURN(const fs::path home, HubHome());
  settings.cache = home / "hub";
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string cache = Variable(name); !cache.empty()) {
      settings.cache = Folder(cache);
      break;
    }
  }
  if (const std::string endpoint = Variable("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (UrlOrigin(settings.endpoint).empty()) {
    return Fail(Code::kUsage,
                fmt::format("HF_ENDPOINT is '{}', expected an http or https URL", PrintableUrl(settings.endpoint)));
  }
  settings.offline = IsTrue(Variable("HF_HUB_OFFLINE")) || IsTrue(Variable("TRANSFORMERS_OFFLINE"));
  SIGHTLINE_RETURN_IF_ERROR(FindToken(home, settings));
  SIGHTLINE_RETURN_IF_ERROR(CheckToken(settings));
  return settings;
}

}  // namespace sightline
