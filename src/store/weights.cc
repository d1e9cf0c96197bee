#include <fmt/format.h>

#include <algorithm>

#include "store/reporting.h"
#include "store/state.h"

namespace sightline {
namespace {

std::string Label(const WeightsPointer& pointer) { return "weights " + pointer.repo + "@" + RevisionOf(pointer); }

WeightsState StateOf(const WeightsPointer& pointer, const CachedSnapshot& snapshot) {
  return {pointer.repo, snapshot.commit, snapshot.folder, true, snapshot.bytes};
}

// A path into this repository's folder of the cache, written into the environment of the server: it will find nothing
// else.
bool PinnedByEnvironment(const EnvironmentList& environment, const std::string& repo) {
  const std::string folder = CacheFolderName(repo);
  return std::any_of(environment.begin(), environment.end(),
                     [&](const auto& variable) { return variable.second.find(folder) != std::string::npos; });
}

std::string WhatIsThere(const HubCache& cache, const WeightsPointer& pointer) {
  const uint64_t bytes = cache.BytesThere(pointer.repo, RevisionOf(pointer));
  if (bytes == 0) return fmt::format("the weights {} are not on this host", pointer.repo);
  return fmt::format("the weights {} are here in part ({})", pointer.repo, DecimalBytes(bytes));
}

FailureCard NotComplete(StoreState& state, const WeightsPointer& pointer) {
  return {"the weights are not here",
          WhatIsThere(state.weights.cache(), pointer),
          {},
          {fmt::format("{} pull ... --with-weights", state.settings.program),
           fmt::format("hf download {} --revision {}", pointer.repo, RevisionOf(pointer))}};
}

class WeightsWork {
 public:
  WeightsWork(StoreState& state, const WeightsRequest& request, Reporter& reporter, std::stop_token stop)
      : state_(state), request_(request), reporter_(reporter), stop_(std::move(stop)) {}

  StoreResult<WeightsState> Bring(const WeightsPointer& pointer);

 private:
  StoreResult<WeightsState> FromHere(const WeightsPointer& pointer);
  StoreResult<WeightsState> FromHub(const WeightsPointer& pointer);
  StoreResult<WeightsState> AfterFailure(const WeightsPointer& pointer, const HubError& error);
  HubResult<CachedSnapshot> FindHere(const WeightsPointer& pointer) const {
    return state_.weights.cache().FindComplete(pointer.repo, RevisionOf(pointer), PatternsOf(pointer));
  }

  StoreState& state_;
  const WeightsRequest& request_;
  Reporter& reporter_;
  std::stop_token stop_;
};

StoreResult<WeightsState> WeightsWork::Bring(const WeightsPointer& pointer) {
  if (pointer.repo_type != "model") {
    return tl::make_unexpected(StoreError(
        Error{Code::kUnsupported,
              fmt::format("weights {}: repo_type is '{}', expected 'model'", pointer.repo, pointer.repo_type),
              {}}));
  }
  return request_.access == WeightsAccess::kLocalOnly ? FromHere(pointer) : FromHub(pointer);
}

StoreResult<WeightsState> WeightsWork::FromHere(const WeightsPointer& pointer) {
  const HubResult<CachedSnapshot> snapshot = FindHere(pointer);
  if (!snapshot) {
    const FailureCard card = NotComplete(state_, pointer);
    if (request_.required) return tl::make_unexpected(StoreError(Code::kNotFound, card));
    reporter_.OnNote(fmt::format("{}; the server will look for them itself", card.detail));
    return WeightsState{pointer.repo, {}, {}, false, 0};
  }
  // Offline readers resolve main, and a download by commit names nothing.
  if (const auto named = state_.weights.cache().EnsureMainRef(pointer.repo, snapshot->commit); !named) {
    LogDebug(named.error().message);
  }
  Step step(reporter_, "weights", Label(pointer));
  step.Done("already on host");
  return StateOf(pointer, *snapshot);
}

StoreResult<WeightsState> WeightsWork::FromHub(const WeightsPointer& pointer) {
  if (!FindHere(pointer)) {
    SIGHTLINE_RETURN_IF_ERROR(AgreeToLicense(state_, pointer.repo, request_.license, reporter_, stop_));
  }
  Step step(reporter_, "weights", Label(pointer));
  HubReporter sink(reporter_, "weights");
  const HubDownload download{pointer.repo, RevisionOf(pointer), PatternsOf(pointer), true};
  const HubResult<CachedSnapshot> snapshot = state_.weights.Download(download, &sink, stop_);
  if (!snapshot) return AfterFailure(pointer, snapshot.error());
  step.Done(snapshot->fetched ? DecimalBytes(snapshot->bytes) : "already on host");
  return StateOf(pointer, *snapshot);
}

StoreResult<WeightsState> WeightsWork::AfterFailure(const WeightsPointer& pointer, const HubError& error) {
  StoreError failure(error);
  if (error.fault == HubFault::kNoRepo) failure.card.cause = "no such weights repo, or no access";
  const bool fatal = error.code == Code::kNoSpace || error.code == Code::kCancelled || request_.required ||
                     PinnedByEnvironment(request_.environment, pointer.repo);
  if (fatal) return tl::make_unexpected(std::move(failure));
  reporter_.OnWarning(fmt::format("weights {}: {}", pointer.repo, error.message));
  return WeightsState{pointer.repo, {}, {}, false, 0};
}

}  // namespace

StoreResult<std::vector<WeightsState>> Store::EnsureWeights(const WeightsRequest& request, Reporter* reporter,
                                                            std::stop_token stop) {
  WeightsWork work(*state_, request, OrSilent(reporter), std::move(stop));
  std::vector<WeightsState> states;
  for (const WeightsPointer& pointer : request.weights) {
    SIGHTLINE_ASSIGN_OR_RETURN(WeightsState state, work.Bring(pointer));
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace sightline
