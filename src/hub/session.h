// Requests to one hub: token, offline mode, and whether another try is worth it.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <stop_token>

#include "hub/faults.h"
#include "hub/hub.h"

namespace sightline {

// Why one try did not succeed.
struct FailedTry {
  HubError error;
  bool again = false;                                // another try may go better
  std::optional<std::chrono::milliseconds> pause{};  // that the hub asked for
  std::string commit{};                              // X-Repo-Commit of the refusal
};
using Try = tl::expected<HttpAnswer, FailedTry>;

// Sleeps; false when stopped.
bool SleepFor(std::chrono::milliseconds time, const std::stop_token& stop);

// Counts the tries of one request. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(const HubSettings& settings) : settings_(settings), random_(std::random_device{}()) {}
  // Bytes have come: the tries count anew.
  void Reset() { tries_ = 0; }
  // Waits before another try; gives the error back when there should be none.
  HubStatus Wait(const FailedTry& failed, HubProgressSink* notes, const std::stop_token& stop);

 private:
  const HubSettings& settings_;
  std::minstd_rand random_;
  int tries_ = 0;
};

class HubSession {
 public:
  explicit HubSession(HubSettings settings);
  const HubSettings& settings() const { return settings_; }

  // "<endpoint>/api/models/..."
  std::string Url(const std::string& path) const { return settings_.endpoint + path; }
  // The hub's own URL of something that came with the public hub's name, where the endpoint is another one.
  std::string AtEndpoint(const std::string& url) const;

  // One try. 2xx and 3xx are answers. The token goes along when the URL is the endpoint's; redirects that stay there
  // are followed for GET and HEAD.
  Try Once(HttpCall call, const HubSubject& subject, const std::stop_token& stop) const;
  // As many as the settings allow. `notes` may be null.
  HubResult<HttpAnswer> Send(const HttpCall& call, const HubSubject& subject, HubProgressSink* notes,
                             const std::stop_token& stop) const;
  HubResult<HttpAnswer> Get(const std::string& url, const HubSubject& subject, const std::stop_token& stop) const;
  HubResult<HttpAnswer> SendJson(const std::string& method, const std::string& url, const std::string& body,
                                 const HubSubject& subject, HubProgressSink* notes, const std::stop_token& stop) const;

 private:
  bool IsEndpoint(const std::string& url) const { return UrlOrigin(url) == origin_; }

  HubSettings settings_;
  std::string origin_;
  HttpClient client_;
};

}  // namespace sightline
