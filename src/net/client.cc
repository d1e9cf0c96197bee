#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "net/net.h"

namespace sightline {
namespace {

constexpr size_t kMostAnswerBytes = size_t{256} << 20;

struct Ended {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

size_t Append(char* data, size_t size, size_t count, void* text) {
  auto& body = *static_cast<std::string*>(text);
  if (body.size() + size * count > kMostAnswerBytes) return 0;  // ends the transfer with an error
  body.append(data, size * count);
  return size * count;
}

tl::unexpected<Error> Unreachable(const std::string& url, CURLcode code) {
  return Fail(Code::kUnreachable, fmt::format("{}: {}", url, curl_easy_strerror(code)));
}

}  // namespace

Result<HttpAnswer> PostJson(const std::string& url, const std::string& body, std::chrono::milliseconds timeout) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, Ended> curl(curl_easy_init());
  const std::unique_ptr<curl_slist, Ended> headers(curl_slist_append(nullptr, "Content-Type: application/json"));
  if (curl == nullptr || headers == nullptr) return Fail(Code::kOutOfMemory, "there is no memory for a request");
  HttpAnswer answer;
  const auto set = [&curl](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_POSTFIELDS, body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  set(CURLOPT_WRITEFUNCTION, &Append);
  set(CURLOPT_WRITEDATA, &answer.body);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  set(CURLOPT_NOSIGNAL, 1L);  // threads
  if (const CURLcode code = curl_easy_perform(curl.get()); code != CURLE_OK) return Unreachable(url, code);
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace sightline
