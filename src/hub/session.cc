#include "hub/session.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <mutex>

namespace sightline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostRedirects = 5;
constexpr std::string_view kPublicHub = "https://huggingface.co";

bool IsWorthAnotherTry(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::optional<seconds> Seconds(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  return seconds(value);
}

// RFC 9110, 10.2.3: seconds or a date. The hub also sends RateLimit: "api";r=0;t=55, the seconds until it counts anew.
std::optional<milliseconds> PauseOf(const HttpAnswer& answer) {
  const std::string after(answer.Header("Retry-After"));
  if (const auto told = Seconds(after)) return *told;
  std::tm date{};
  if (!after.empty() && ::strptime(after.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) != nullptr) {
    return seconds(std::max<std::time_t>(0, ::timegm(&date) - std::time(nullptr)));
  }
  const std::string_view limit = answer.Header("RateLimit");
  const size_t time = limit.find("t=");
  if (answer.status != 429 || time == std::string_view::npos || limit.find("r=0") == std::string_view::npos) {
    return std::nullopt;
  }
  if (const auto told = Seconds(limit.substr(time + 2))) return *told;
  return std::nullopt;
}

}  // namespace

bool SleepFor(milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

HubStatus Backoff::Wait(const FailedTry& failed, HubProgressSink* notes, const std::stop_token& stop) {
  if (!failed.again || ++tries_ >= settings_.attempts) return tl::make_unexpected(failed.error);
  milliseconds pause = std::min(settings_.first_pause * (1 << std::min(tries_ - 1, 16)), settings_.longest_pause);
  // Many clients that lost the same server must not come back at the same moment.
  pause = pause / 2 + milliseconds(std::uniform_int_distribution<int64_t>(0, pause.count() / 2)(random_));
  if (failed.pause) {
    if (*failed.pause > settings_.longest_retry_after) return tl::make_unexpected(failed.error);
    pause = std::max(pause, *failed.pause);
  }
  if (notes != nullptr) {
    const std::string& reason = failed.error.evidence.empty() ? failed.error.message : failed.error.evidence;
    notes->OnNote(fmt::format("{}: trying again in {:.1f} s", reason, static_cast<double>(pause.count()) / 1000));
  }
  if (!SleepFor(pause, stop)) return tl::make_unexpected(HubError(Error{Code::kCancelled, "cancelled", {}}));
  return {};
}

HubSession::HubSession(HubSettings settings)
    : settings_(std::move(settings)),
      origin_(UrlOrigin(settings_.endpoint)),
      client_(HttpClientOptions{"sightline/" + std::string(Version()), settings_.connect_timeout,
                                settings_.stall_timeout}) {}

std::string HubSession::AtEndpoint(const std::string& url) const {
  const bool is_public =
      url.starts_with(kPublicHub) && (url.size() == kPublicHub.size() || url[kPublicHub.size()] == '/');
  return is_public ? settings_.endpoint + url.substr(kPublicHub.size()) : url;
}

Try HubSession::Once(HttpCall call, const HubSubject& subject, const std::stop_token& stop) const {
  if (settings_.offline) return tl::make_unexpected(FailedTry{OfflineError(subject)});
  if (IsEndpoint(call.url)) {
    if (!settings_.token.empty()) call.headers.emplace_back("Authorization", "Bearer " + settings_.token);
  }
  // Hops are taken one by one: a redirect away from the endpoint is an answer of the hub, with headers of its own.
  for (int hop = 0;; ++hop) {
    auto answer = client_.Send(call, stop);
    if (!answer) {
      const Code code = answer.error().code;
      return tl::make_unexpected(FailedTry{ErrorOfNetwork(answer.error(), subject, settings_),
                                           code == Code::kUnreachable || code == Code::kDeadline});
    }
    if (answer->status / 100 == 2) return std::move(*answer);
    if (answer->status / 100 == 3) {
      const std::string next = ResolveUrl(call.url, std::string(answer->Header("Location")));
      const bool follows = (call.method == "GET" || call.method == "HEAD") && IsEndpoint(call.url) && IsEndpoint(next);
      if (!follows || hop == kMostRedirects) return std::move(*answer);
      call.url = next;
      continue;
    }
    return tl::make_unexpected(FailedTry{ErrorOfAnswer(*answer, subject, settings_), IsWorthAnotherTry(answer->status),
                                         PauseOf(*answer), std::string(answer->Header("X-Repo-Commit"))});
  }
}

HubResult<HttpAnswer> HubSession::Send(const HttpCall& call, const HubSubject& subject, HubProgressSink* notes,
                                       const std::stop_token& stop) const {
  Backoff backoff(settings_);
  for (;;) {
    Try answer = Once(call, subject, stop);
    if (answer) return std::move(*answer);
    SIGHTLINE_RETURN_IF_ERROR(backoff.Wait(answer.error(), notes, stop));
  }
}

HubResult<HttpAnswer> HubSession::Get(const std::string& url, const HubSubject& subject,
                                      const std::stop_token& stop) const {
  HttpCall call;
  call.url = url;
  return Send(call, subject, nullptr, stop);
}

HubResult<HttpAnswer> HubSession::SendJson(const std::string& method, const std::string& url, const std::string& body,
                                           const HubSubject& subject, HubProgressSink* notes,
                                           const std::stop_token& stop) const {
  HttpCall call;
  call.method = method;
  call.url = url;
  call.headers = {{"Content-Type", "application/json"}};
  call.body = body;
  return Send(call, subject, notes, stop);
}

}  // namespace sightline
