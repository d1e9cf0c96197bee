#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/store.h"

namespace sightline {
namespace {

std::string Sentence(const FailureCard& card) {
  std::string text = card.detail.empty() ? card.cause : card.detail;
  if (!card.actions.empty()) text += fmt::format(" (try: {})", fmt::join(card.actions, "; "));
  return text;
}

}  // namespace

StoreError::StoreError(HubError error) : Error(error) {
  card.cause = error.code == Code::kNoSpace     ? "the disk is full"
               : error.fault == HubFault::kNone ? error.message
                                                : std::string(HubFaultTitle(error.fault));
  card.detail = error.message;
  card.evidence = error.evidence;
  if (!error.advice.empty()) card.actions.push_back(error.advice);
}

StoreError::StoreError(Code which, FailureCard failure) : Error{which, Sentence(failure), {}} {
  card = std::move(failure);
}

}  // namespace sightline
