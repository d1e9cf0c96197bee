#include "server/access_log.h"

#include <fmt/format.h>

namespace sightline {
namespace {

constexpr size_t kMaxPathBytes = 256;

// What a client sent, so that it can neither end the line nor pass for another key.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMaxPathBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted.append({'\\', c});
    } else if (byte < 0x20 || byte >= 0x7f) {
      quoted.append(fmt::format("\\x{:02x}", byte));
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + (text.size() > kMaxPathBytes ? "...\"" : "\"");
}

}  // namespace

std::string AccessLogLine(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer,
                          const AccessLogEntry& entry) {
  std::string line =
      fmt::format("request id={} peer={} method={} path={} status={} code={} bytes_in={} bytes_out={} total_ms={:.2f}",
                  entry.request_id, request.peer, request.method.empty() ? "-" : request.method, Quoted(request.path),
                  response.status, entry.code, transfer.bytes_in, transfer.bytes_out, transfer.total_ms);
  if (entry.inference_ms) line += fmt::format(" inference_ms={:.2f}", *entry.inference_ms);
  if (transfer.client_left) line += " client_left=true";
  return line;
}

}  // namespace sightline
