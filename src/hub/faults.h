// What a hub's refusals mean, as errors that say what to do.
#pragma once

#include <string>

#include "hub/hub.h"

namespace sightline {

// What a request is about, for the sentence of its error.
struct HubSubject {
  std::string repo{};  // empty: the hub itself
  std::string revision{};
  std::string path{};

  std::string Name() const;  // "org/name@rev: file", "the hub"
};

// The fault of an answer that is neither 2xx nor 3xx. It is never judged by the words of a message where the hub has a
// code for it. https://huggingface.co/docs/huggingface_hub/package_reference/utilities#errors
HubError ErrorOfAnswer(const HttpAnswer& answer, const HubSubject& subject, const HubSettings& settings);

// No answer: what the HTTP client said.
HubError ErrorOfNetwork(const Error& error, const HubSubject& subject, const HubSettings& settings);

HubError OfflineError(const HubSubject& subject);

// An answer that makes no sense, and bytes that are not what was promised.
HubError DamagedError(const HubSubject& subject, const std::string& what);

// Files and folders; a full disk and missing rights get their advice.
HubError ErrorOfDisk(Error error, const HubSettings& settings);

// Makes a sentence of subject, what happened and what to do.
HubError MakeHubError(HubFault fault, Code code, const HubSubject& subject, const std::string& what,
                      const std::string& advice, const std::string& evidence = {});

}  // namespace sightline
