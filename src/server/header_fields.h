// What header fields mean to this server.
#pragma once

#include <string>

#include "base/base.h"
#include "net/net.h"

namespace sightline {

// X-Request-Id, when it can be put into headers and logs as it is, else a new id.
std::string RequestId(const HttpRequest& request);

// Refuses bodies that do not claim to be JSON, and compressed ones. No Content-Type at all is fine.
Status CheckContentType(const HttpRequest& head);

// Retry-After for an error; 0 when trying again makes no sense.
int RetryAfterSeconds(Code code);

}  // namespace sightline
