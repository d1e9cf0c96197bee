#include "hub/faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace sightline {
namespace {

constexpr size_t kMostEvidenceBytes = 300;

// The first line of what the hub says, without the number of the request, which differs each time.
std::string Evidence(const HttpAnswer& answer) {
  std::string text(answer.Header("X-Error-Message"));
  if (text.empty() && answer.Header("Content-Type").starts_with("text/plain")) text = answer.body;
  text = text.substr(0, text.find_first_of("\r\n"));
  if (const size_t number = text.find("(Request ID"); number != std::string::npos) text.resize(number);
  text.resize(std::min(text.size(), kMostEvidenceBytes));
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string WhereToAsk(const HubSubject& subject, const HubSettings& settings) {
  return PrintableUrl(settings.endpoint + "/" + subject.repo);
}

HubError Gated(const HubSubject& subject, const HubSettings& settings, const std::string& evidence) {
  const std::string advice =
      settings.token.empty()
          ? fmt::format("open {} and accept its conditions, then set HF_TOKEN to a token of that account",
                        WhereToAsk(subject, settings))
          : fmt::format("open {} and accept its conditions with the account whose token comes from {}",
                        WhereToAsk(subject, settings), settings.token_source);
  return MakeHubError(HubFault::kGated, Code::kNoPermission, subject, "you do not have access: the repository is gated",
                      advice, evidence);
}

HubError NoRepo(const HubSubject& subject, const HubSettings& settings, const std::string& evidence) {
  const std::string advice =
      settings.token.empty()
          ? std::string("check the name; for a private repository set HF_TOKEN to a token that may read it")
          : fmt::format("check the name, and that the token from {} may read it", settings.token_source);
  return MakeHubError(HubFault::kNoRepo, Code::kNotFound, subject, "there is no such repository, or no access to it",
                      advice, evidence);
}

HubError TokenRejected(const HubSubject& subject, const HubSettings& settings, const std::string& evidence) {
  const std::string what = settings.token.empty()
                               ? "the hub wants a token and there is none"
                               : fmt::format("the hub rejected the token from {}", settings.token_source);
  return MakeHubError(
      HubFault::kTokenRejected, Code::kNoPermission, subject, what,
      fmt::format("make one at {} and set HF_TOKEN to it", PrintableUrl(settings.endpoint + "/settings/tokens")),
      evidence);
}

HubError Forbidden(const HubSubject& subject, const HubSettings& settings, const std::string& evidence) {
  const std::string who = settings.token.empty() ? "a request without a token is"
                                                 : fmt::format("the token from {} is", settings.token_source);
  return MakeHubError(HubFault::kForbidden, Code::kNoPermission, subject, who + " not authorised to do this",
                      "use a token with the right to read or write this repository", evidence);
}

HubError NoRevision(const HubSubject& subject, const std::string& evidence) {
  return MakeHubError(HubFault::kNoRevision, Code::kNotFound, HubSubject{subject.repo, {}, {}},
                      fmt::format("there is no revision '{}'", subject.revision),
                      "give a branch, a tag or a commit of this repository", evidence);
}

HubError NoEntry(const HubSubject& subject, const std::string& evidence) {
  return MakeHubError(HubFault::kNoEntry, Code::kNotFound, HubSubject{subject.repo, subject.revision, {}},
                      fmt::format("there is no file '{}'", subject.path), "", evidence);
}

HubError ServerError(const HttpAnswer& answer, const HubSubject& subject, const std::string& evidence) {
  return MakeHubError(HubFault::kUnreachable, Code::kUnreachable, subject,
                      fmt::format("the hub answers with status {}", answer.status),
                      "try again later; what was loaded is kept", evidence);
}

}  // namespace

std::string HubSubject::Name() const {
  if (repo.empty()) return "the hub";
  std::string name = repo;
  if (!revision.empty() && revision != "main") name += "@" + (IsCommit(revision) ? revision.substr(0, 12) : revision);
  return path.empty() ? name : name + ": " + path;
}

std::string_view HubFaultTitle(HubFault fault) {
  switch (fault) {
    case HubFault::kOffline:
    case HubFault::kUnreachable:
      return "cannot reach the Hub";
    case HubFault::kGated:
      return "you do not have access";
    case HubFault::kNoRepo:
      return "no such bundle, or no access";
    case HubFault::kTokenRejected:
      return "your token was rejected";
    case HubFault::kForbidden:
      return "not authorised";
    case HubFault::kNoRevision:
      return "no such revision";
    case HubFault::kNoEntry:
      return "no such file";
    case HubFault::kIncomplete:
      return "only a part is on this machine";
    case HubFault::kRateLimited:
      return "the Hub asks for fewer requests";
    case HubFault::kConflict:
      return "the repository changed meanwhile";
    case HubFault::kDamaged:
      return "the Hub sent wrong bytes";
    case HubFault::kUnsafe:
      return "refused as unsafe";
    default:
      return "the Hub request failed";
  }
}

HubError MakeHubError(HubFault fault, Code code, const HubSubject& subject, const std::string& what,
                      const std::string& advice, const std::string& evidence) {
  std::string sentence = subject.Name() + ": " + what;
  if (!evidence.empty()) sentence += " (" + evidence + ")";
  if (!advice.empty()) sentence += "; " + advice;
  HubError error(fault, code, std::move(sentence));
  error.advice = advice;
  error.evidence = evidence;
  return error;
}

HubError ErrorOfAnswer(const HttpAnswer& answer, const HubSubject& subject, const HubSettings& settings) {
  const std::string_view code = answer.Header("X-Error-Code");
  const std::string evidence = Evidence(answer);
  const bool bad_token = evidence.starts_with("Invalid credentials in Authorization header");
  if (code == "GatedRepo") return Gated(subject, settings, evidence);
  if (code == "RevisionNotFound") return NoRevision(subject, evidence);
  if (code == "EntryNotFound") return NoEntry(subject, evidence);
  if (code == "RepoNotFound") return NoRepo(subject, settings, evidence);
  if (answer.status == 401) {  // without a code it stands for missing, private and gated repositories alike
    return bad_token || subject.repo.empty() ? TokenRejected(subject, settings, evidence)
                                             : NoRepo(subject, settings, evidence);
  }
  if (answer.status == 403) return Forbidden(subject, settings, evidence);
  if (answer.status == 404) return NoRepo(subject, settings, evidence);
  if (answer.status == 407) {
    return MakeHubError(HubFault::kUnreachable, Code::kNoPermission, subject,
                        "the proxy does not let us through without a password, or not with this one",
                        "name user and password in the proxy's URL (http_proxy, https_proxy)", evidence);
  }
  if (answer.status == 409 || answer.status == 412) {
    return MakeHubError(HubFault::kConflict, Code::kBusy, subject, "others changed it at the same time", "try again",
                        evidence);
  }
  if (answer.status == 429) {
    return MakeHubError(HubFault::kRateLimited, Code::kBusy, subject, "the hub asks for fewer requests (status 429)",
                        settings.token.empty() ? "wait some minutes; with a token in HF_TOKEN it allows more"
                                               : "wait some minutes and try again",
                        evidence);
  }
  if (answer.status / 100 == 5 || answer.status == 408) return ServerError(answer, subject, evidence);
  return MakeHubError(HubFault::kRefused, Code::kInvalidRequest, subject,
                      fmt::format("the hub request failed with status {}", answer.status), "", evidence);
}

HubError ErrorOfNetwork(const Error& error, const HubSubject& subject, const HubSettings& settings) {
  if (error.code == Code::kNoPermission) {
    return MakeHubError(HubFault::kUnreachable, error.code, subject, error.message, "");
  }
  if (error.code != Code::kUnreachable && error.code != Code::kDeadline) return HubError(error);
  return MakeHubError(HubFault::kUnreachable, error.code, subject,
                      fmt::format("cannot reach {}", PrintableUrl(settings.endpoint)),
                      "check the network, proxies (https_proxy) and HF_ENDPOINT", error.message);
}

HubError OfflineError(const HubSubject& subject) {
  return MakeHubError(HubFault::kOffline, Code::kUnreachable, subject,
                      "HF_HUB_OFFLINE is set and this is not on this machine",
                      "unset HF_HUB_OFFLINE, or copy the cache from a machine that has it");
}

HubError DamagedError(const HubSubject& subject, const std::string& what) {
  return MakeHubError(HubFault::kDamaged, Code::kCorruptWeights, subject, what, "");
}

HubError ErrorOfDisk(Error error, const HubSettings& settings) {
  HubError told(std::move(error));
  if (told.code == Code::kNoSpace) {
    told.advice = fmt::format("free some space, or set {} to a larger disk, and repeat: what was loaded is kept",
                              settings.cache_variable);
  } else if (told.code == Code::kNoPermission) {
    told.advice = fmt::format("set {} to a folder that may be written; it is {}", settings.cache_variable,
                              settings.cache.string());
  }
  if (!told.advice.empty()) told.message += "; " + told.advice;
  return told;
}

}  // namespace sightline
