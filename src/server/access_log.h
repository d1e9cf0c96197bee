// One line per request, key=value, on the log.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/net.h"

namespace sightline {

struct AccessLogEntry {
  std::string_view request_id;
  std::string_view code;  // "ok" or an error's
  std::optional<double> inference_ms;
};

// request id=5f0c peer=127.0.0.1:51234 method=POST path="/predict" status=200 code=ok bytes_in=... bytes_out=...
// total_ms=14.77 inference_ms=6.38
std::string AccessLogLine(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer,
                          const AccessLogEntry& entry);

}  // namespace sightline
