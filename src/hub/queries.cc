#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hub/hub_json.h"
#include "hub/names.h"
#include "hub/state.h"

namespace sightline {
namespace {

constexpr size_t kMostFiles = 1'000'000;
constexpr size_t kMostPages = 10'000;

// Link: <https://...>; rel="next" (RFC 8288); empty when this was the last page.
std::string NextPage(const HttpAnswer& answer) {
  for (std::string_view links = answer.Header("Link"); !links.empty();) {
    const size_t open = links.find('<'), close = links.find('>');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
    const std::string_view url = links.substr(open + 1, close - open - 1);
    const size_t end = std::min(links.find(",", close), links.size());
    if (links.substr(close, end - close).find("rel=\"next\"") != std::string_view::npos) return std::string(url);
    links.remove_prefix(std::min(end + 1, links.size()));
  }
  return {};
}

HubStatus CheckQuestion(const std::string& repo, const std::string& revision) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  return CheckRevision(repo, revision);
}

}  // namespace

Hub::Hub(HubSettings settings) : state_(std::make_unique<State>(std::move(settings))) {}
Hub::~Hub() = default;
const HubSettings& Hub::settings() const { return state_->session.settings(); }
const HubCache& Hub::cache() const { return state_->cache; }

HubResult<HubRepo> Hub::Info(const std::string& repo, const std::string& revision, std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckQuestion(repo, revision));
  const HubSubject subject{repo, revision, {}};
  const std::string url =
      state_->session.Url(fmt::format("/api/models/{}/revision/{}", repo, PercentEncoded(revision)));
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, state_->session.Get(url, subject, stop));
  return ReadRepo(answer.body, subject);
}

HubResult<std::vector<HubFile>> Hub::Tree(const std::string& repo, const std::string& revision, std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckQuestion(repo, revision));
  const HubSubject subject{repo, revision, {}};
  std::vector<HubFile> files;
  std::string url =
      state_->session.Url(fmt::format("/api/models/{}/tree/{}?recursive=true", repo, PercentEncoded(revision)));
  std::set<std::string> asked;  // a page may hold folders alone: what does not end is told by the pages
  while (!url.empty()) {
    if (!asked.insert(url).second || asked.size() > kMostPages || files.size() > kMostFiles) {
      return tl::make_unexpected(DamagedError(subject, "the hub's list of files does not end"));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, state_->session.Get(url, subject, stop));
    SIGHTLINE_ASSIGN_OR_RETURN(std::vector<HubFile> page, ReadTreePage(answer.body, subject));
    std::move(page.begin(), page.end(), std::back_inserter(files));
    const std::string next = NextPage(answer);
    url = next.empty() ? "" : ResolveUrl(url, state_->session.AtEndpoint(next));
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckTree(repo, files));
  return files;
}

HubResult<HubUser> Hub::WhoAmI(std::stop_token stop) {
  const HubSettings& settings = state_->session.settings();
  if (settings.token.empty() && !settings.offline) {
    HttpAnswer none;
    none.status = 401;
    return tl::make_unexpected(ErrorOfAnswer(none, {}, settings));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer,
                             state_->session.Get(state_->session.Url("/api/whoami-v2"), {}, stop));
  return ReadUser(answer.body, {});
}

HubResult<std::vector<HubRepo>> Hub::Search(const HubQuery& query, std::stop_token stop) {
  std::string url = state_->session.Url(fmt::format("/api/models?limit={}", std::clamp(query.limit, 1, 1000)));
  if (!query.text.empty()) url += "&search=" + PercentEncoded(query.text);
  if (!query.author.empty()) url += "&author=" + PercentEncoded(query.author);
  for (const std::string& tag : query.tags) url += "&filter=" + PercentEncoded(tag);
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, state_->session.Get(url, {}, stop));
  return ReadRepos(answer.body, {});
}

HubResult<std::string> Hub::ResolveRevision(const std::string& repo, const std::string& revision,
                                            std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckQuestion(repo, revision));
  if (IsCommit(revision)) return revision;
  SIGHTLINE_ASSIGN_OR_RETURN(HubRepo info, Info(repo, revision, std::move(stop)));
  return std::move(info.commit);
}

}  // namespace sightline
