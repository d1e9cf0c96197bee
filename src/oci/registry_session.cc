#include "oci/registry_session.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <thread>

namespace sightline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstWait{250};
constexpr milliseconds kMaxWait{60'000};
constexpr size_t kMaxTokenBytes = 1u << 20;
constexpr int kRedirects = 5;

std::string BasicAuthorization(const RegistryCredentials& credentials) {
  return "Basic " + EncodeBase64(AsBytes(credentials.user + ":" + credentials.password));
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

void SkipBlanks(std::string_view* text) {
  while (!text->empty() && (text->front() == ' ' || text->front() == '\t' || text->front() == ','))
    text->remove_prefix(1);
}

std::string TakeToken(std::string_view* text) {
  const size_t end = std::min(text->find_first_of(" \t,=\""), text->size());
  std::string token(text->substr(0, end));
  text->remove_prefix(end);
  return token;
}

std::string TakeValue(std::string_view* text) {
  if (!text->starts_with('"')) return TakeToken(text);
  std::string value;
  size_t i = 1;
  for (; i < text->size() && (*text)[i] != '"'; ++i) {
    if ((*text)[i] == '\\' && i + 1 < text->size()) ++i;
    value += (*text)[i];
  }
  text->remove_prefix(std::min(i + 1, text->size()));
  return value;
}

bool IsPassing(const Result<HttpAnswer>& answer) {
  if (!answer) return answer.error().code == Code::kUnreachable || answer.error().code == Code::kDeadline;
  const int status = answer->status;
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// The first message of a registry's JSON of errors.
std::string MessageOf(const std::string& body) {
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  std::string_view message;
  if (body.empty() || parser.parse(body).get(json)) return {};
  if (json["errors"].at(0)["message"].get(message)) return {};
  std::string shown(message.substr(0, 200));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return shown;
}

}  // namespace

AuthChallenge ParseChallenge(std::string_view header) {
  while (true) {
    SkipBlanks(&header);
    if (header.empty()) return {};
    AuthChallenge challenge;
    challenge.scheme = LowerCase(TakeToken(&header));
    while (true) {
      SkipBlanks(&header);
      std::string_view rest = header;
      const std::string name = LowerCase(TakeToken(&rest));
      if (name.empty() || !rest.starts_with('=')) break;  // the next scheme, or nonsense
      rest.remove_prefix(1);
      challenge.parameters[name] = TakeValue(&rest);
      header = rest;
    }
    if (challenge.scheme == "bearer" || challenge.scheme == "basic") return challenge;
    if (challenge.scheme.empty()) return {};
  }
}

RegistrySession::RegistrySession(const OciReference& reference, RegistryOptions options)
    : reference_(reference), options_(std::move(options)) {
  // Docker's own registry answers under another name, and puts what has no owner into library/.
  const bool hub = reference.host == "docker.io" || reference.host == "index.docker.io";
  if (hub && reference.repository.find('/') == std::string::npos)
    reference_.repository = "library/" + reference.repository;
  const std::string base = fmt::format("http://{}/v2/", hub ? "registry-1.docker.io" : reference.host);
  base_ = IsLoopbackUrl(base) ? base : "https" + base.substr(4);
  HttpClientOptions http;
  http.stall_timeout =
      std::max(std::chrono::seconds(1), std::chrono::duration_cast<std::chrono::seconds>(options_.timeout));
  client_ = std::make_unique<HttpClient>(http);
}

std::string RegistrySession::Url(const std::string& rest) const { return base_ + reference_.repository + "/" + rest; }

Result<HttpAnswer> RegistrySession::SendOnce(HttpCall call) {
  const bool ours = UrlOrigin(call.url) == UrlOrigin(base_);
  if (ours && !authorization_.empty()) call.headers.emplace_back("Authorization", authorization_);
  if (call.method == "GET" || call.method == "HEAD") call.redirects = kRedirects;
  return client_->Send(call, options_.transfer.stop);
}

Result<HttpAnswer> RegistrySession::Send(HttpCall call, int attempts, const Again& again) {
  const int most = attempts > 0 ? attempts : options_.attempts;
  bool authorized = false;
  for (int attempt = 1;; ++attempt) {
    auto answer = SendOnce(call);
    const bool asks = answer && answer->status == 401 && !authorized && UrlOrigin(call.url) == UrlOrigin(base_);
    if (!asks && !IsPassing(answer)) return answer;
    SIGHTLINE_ASSIGN_OR_RETURN(const bool gained, again ? again(&call) : Result<bool>(false));
    if (asks) {
      authorized = true;
      SIGHTLINE_RETURN_IF_ERROR(Authorize(*answer));
      continue;
    }
    if (gained) attempt = 1;
    if (attempt >= most) return answer;
    SIGHTLINE_RETURN_IF_ERROR(Wait(attempt, answer ? &*answer : nullptr));
  }
}

Status RegistrySession::Wait(int attempt, const HttpAnswer* answer) const {
  milliseconds wait = std::min(kMaxWait, kFirstWait * (1 << std::min(attempt - 1, 10)));
  if (answer != nullptr) {
    const std::string_view asked = answer->Header("Retry-After");
    int seconds = 0;
    const auto [end, problem] = std::from_chars(asked.data(), asked.data() + asked.size(), seconds);
    if (problem == std::errc() && end == asked.data() + asked.size() && seconds >= 0) {
      wait = std::min(kMaxWait, milliseconds(int64_t{1000} * std::min(seconds, 3600)));
    }
  }
  const auto until = std::chrono::steady_clock::now() + wait;
  while (std::chrono::steady_clock::now() < until) {
    if (options_.transfer.stop.stop_requested()) return Fail(Code::kCancelled, "the transfer was cancelled");
    std::this_thread::sleep_for(milliseconds(20));
  }
  return {};
}

Status RegistrySession::Authorize(const HttpAnswer& answer) {
  std::string offered;  // a registry may offer several, each in a header of its own
  for (const auto& [name, value] : answer.headers) {
    if (LowerCase(name) == "www-authenticate") offered += value + ", ";
  }
  const AuthChallenge challenge = ParseChallenge(offered);
  if (challenge.scheme == "bearer") return FetchToken(challenge);
  if (challenge.scheme == "basic" && options_.credentials) {
    authorization_ = BasicAuthorization(*options_.credentials);
    return {};
  }
  const std::string_view what = challenge.scheme == "basic" ? "asks for a password and none is known"
                                                            : "asks for a way to log in that is not known here";
  return Fail(Code::kNoPermission,
              fmt::format("{}: {}; log in with docker login {}", reference_.host, what, reference_.host));
}

Status RegistrySession::FetchToken(const AuthChallenge& challenge) {
  const auto parameter = [&challenge](const char* name) {
    const auto found = challenge.parameters.find(name);
    return found == challenge.parameters.end() ? std::string() : found->second;
  };
  HttpCall call;
  call.url = parameter("realm");
  // A password may go to whom the registry names, but not in the open.
  if (!UrlOrigin(call.url).starts_with("https:") && !IsLoopbackUrl(call.url)) {
    return Fail(Code::kNoPermission, fmt::format("{}: sends us to {} for a token, expected an https URL",
                                                 reference_.host, PrintableUrl(call.url)));
  }
  const auto add = [&call](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    call.url += call.url.find('?') == std::string::npos ? '?' : '&';
    call.url += fmt::format("{}={}", name, PercentEncoded(value, ":/,"));
  };
  add("service", parameter("service"));
  add("scope", parameter("scope"));
  if (options_.credentials) {
    call.headers.emplace_back("Authorization", BasicAuthorization(*options_.credentials));
  }
  call.max_body_bytes = kMaxTokenBytes;
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, client_->Send(call, options_.transfer.stop));
  if (answer.status != 200) return tl::make_unexpected(Refused(answer, "log in"));
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  std::string_view token;
  const bool read = !parser.parse(answer.body).get(json);
  if (!read || (json["token"].get(token) && json["access_token"].get(token)) || token.empty()) {
    return Fail(Code::kUnreachable, fmt::format("{}: answered without a token", PrintableUrl(call.url)));
  }
  authorization_ = fmt::format("Bearer {}", token);
  return {};
}

Error RegistrySession::Refused(const HttpAnswer& answer, const std::string& what) const {
  const std::string name = reference_.host + "/" + reference_.repository;
  const std::string said = MessageOf(answer.body);
  const std::string why =
      said.empty() ? fmt::format("status {}", answer.status) : fmt::format("status {}: {}", answer.status, said);
  if (answer.status == 401 || answer.status == 403) {
    return Error{Code::kNoPermission,
                 fmt::format("{}: cannot {}, the registry does not allow it ({}); log in with docker login {}", name,
                             what, why, reference_.host),
                 {}};
  }
  const Code code = answer.status == 404 ? Code::kNotFound : answer.status == 429 ? Code::kBusy : Code::kUnreachable;
  return Error{code, fmt::format("{}: cannot {} ({})", name, what, why), {}};
}

}  // namespace sightline
