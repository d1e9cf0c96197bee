#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "net/net.h"

namespace sightline {
namespace {

struct Freed {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(char* text) const { curl_free(text); }
};
using Url = std::unique_ptr<CURLU, Freed>;

Url Parse(const std::string& text) {
  Url url(curl_url());
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return nullptr;
  }
  return url;
}

std::string Part(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  return std::unique_ptr<char, Freed>(text).get();
}

bool IsHttp(std::string_view scheme) { return scheme == "http" || scheme == "https"; }

// 127.x.y.z: four numbers, which no name can be.
bool IsLoopbackAddress(std::string_view host) {
  if (!host.starts_with("127.") || std::count(host.begin(), host.end(), '.') != 3) return false;
  for (size_t start = 0; start <= host.size();) {
    const size_t end = std::min(host.find('.', start), host.size());
    const std::string_view number = host.substr(start, end - start);
    if (number.empty() || number.size() > 3 || number.find_first_not_of("0123456789") != number.npos) return false;
    start = end + 1;
  }
  return true;
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return text;
}

}  // namespace

std::string UrlOrigin(const std::string& text) {
  const Url url = Parse(text);
  if (url == nullptr) return {};
  const std::string scheme = LowerCase(Part(url, CURLUPART_SCHEME));
  if (!IsHttp(scheme)) return {};
  return scheme + "://" + LowerCase(Part(url, CURLUPART_HOST)) + ":" + Part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool IsLoopbackUrl(const std::string& text) {
  if (UrlOrigin(text).empty()) return false;
  const std::string host = LowerCase(Part(Parse(text), CURLUPART_HOST));
  return host == "localhost" || host == "[::1]" || IsLoopbackAddress(host);
}

std::string ResolveUrl(const std::string& base, const std::string& location) {
  const Url url = Parse(base);
  if (url == nullptr || location.empty()) return {};
  // Setting a whole URL on one that is there resolves it as a reference.
  if (curl_url_set(url.get(), CURLUPART_URL, location.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) return {};
  return IsHttp(LowerCase(Part(url, CURLUPART_SCHEME))) ? Part(url, CURLUPART_URL) : std::string();
}

std::string PrintableUrl(const std::string& text) {
  const Url url = Parse(text);
  if (url == nullptr) return "a malformed URL";
  for (const CURLUPart part :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    curl_url_set(url.get(), part, nullptr, 0);
  }
  return Part(url, CURLUPART_URL);
}

std::string PercentEncoded(std::string_view text, std::string_view kept) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos ||
                       kept.find(c) != std::string_view::npos;
    if (plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

}  // namespace sightline
