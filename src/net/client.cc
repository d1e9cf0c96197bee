#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "net/head.h"
#include "net/net.h"
#include "net/transfer.h"

namespace sightline {
namespace {

constexpr size_t kMostJsonBytes = size_t{256} << 20;

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

void DropSecrets(HttpHeaders& headers) {
  std::erase_if(headers, [](const auto& header) {
    return EqualsIgnoringCase(header.first, "Authorization") || EqualsIgnoringCase(header.first, "Cookie");
  });
}

// Where a redirect leads, with what may go there.
Status Follow(const HttpAnswer& answer, HttpCall& call) {
  const std::string next = ResolveUrl(call.url, std::string(answer.Header("Location")));
  const std::string from = UrlOrigin(call.url), to = UrlOrigin(next);
  if (to.empty()) {
    return Fail(Code::kUnreachable, fmt::format("{}: the answer {} redirects to no http or https URL",
                                                PrintableUrl(call.url), answer.status));
  }
  if (from.starts_with("https:") && to.starts_with("http:")) {
    return Fail(Code::kUnreachable, fmt::format("{}: the answer {} redirects to {}, which is not encrypted",
                                                PrintableUrl(call.url), answer.status, PrintableUrl(next)));
  }
  if (from != to) DropSecrets(call.headers);
  call.url = next;
  return {};
}

}  // namespace

std::string_view HttpAnswer::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoringCase(key, name)) return value;
  }
  return {};
}

struct HttpClient::State {
  HttpClientOptions options;
  std::mutex mutex{};
  std::vector<std::unique_ptr<ClientConnection>> idle{};

  std::unique_ptr<ClientConnection> Take() {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto connection = std::move(idle.back());
        idle.pop_back();
        return connection;
      }
    }
    return std::make_unique<ClientConnection>();
  }

  void GiveBack(std::unique_ptr<ClientConnection> connection) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(connection));
  }
};

HttpClient::HttpClient(HttpClientOptions options) : state_(new State{.options = std::move(options)}) {}
HttpClient::~HttpClient() = default;

Result<HttpAnswer> HttpClient::Send(const HttpCall& asked, std::stop_token stop) const {
  HttpCall call = asked;
  auto connection = state_->Take();
  Result<HttpAnswer> answer;
  for (int left = call.method == "GET" || call.method == "HEAD" ? call.redirects : 0;; --left) {
    answer = connection->Send(call, state_->options, stop);
    if (!answer || !IsRedirect(answer->status) || left == 0) break;
    if (const Status followed = Follow(*answer, call); !followed) {
      answer = tl::make_unexpected(followed.error());
      break;
    }
  }
  state_->GiveBack(std::move(connection));
  return answer;
}

Result<HttpAnswer> PostJson(const std::string& url, const std::string& body, std::chrono::milliseconds timeout) {
  HttpCall call;
  call.method = "POST";
  call.url = url;
  call.headers = {{"Content-Type", "application/json"}};
  call.body = body;
  call.max_body_bytes = kMostJsonBytes;
  call.timeout = timeout;
  HttpClientOptions options;
  options.stall_timeout = std::chrono::duration_cast<std::chrono::seconds>(timeout) + std::chrono::seconds(1);
  auto answer = HttpClient(std::move(options)).Send(call);
  if (!answer && (answer.error().code == Code::kDeadline || answer.error().code == Code::kBodyTooLarge)) {
    answer.error().code = Code::kUnreachable;
  }
  return answer;
}

}  // namespace sightline
