// net: an HTTP/1.1 server with strict limits, on Boost.Asio and Beast, and a client on libcurl; these libraries appear
// nowhere else. Knows bytes, headers and time-outs; knows nothing of models or JSON.
#pragma once

#include <any>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base.h"

namespace sightline {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "POST"
  std::string target;   // as sent, percent-encoded
  std::string path;     // decoded, without query; empty when the target is malformed
  HttpHeaders headers;  // names as sent
  std::string body;
  std::string peer;                                // "127.0.0.1:51234"
  std::chrono::steady_clock::time_point received;  // when the head was complete
  // Asked to stop when the client goes away or the deadline passes. A client that only shuts down its sending side
  // counts as gone: the two cannot be told apart before an answer is written.
  std::stop_token stop;
  std::any context;  // what Admission keeps for the handler: a place in a queue, an id

  std::string_view Header(std::string_view name) const;  // case-insensitive; the first, or empty when absent
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers{};  // besides Content-Type, Content-Length, Date and Connection
  std::string content_type = "application/json";
  std::string body{};
  std::any context{};  // what the handler tells the observer
};

// What became of one answer.
struct HttpTransfer {
  uint64_t bytes_in = 0;   // head and decoded body
  uint64_t bytes_out = 0;  // head and body
  double total_ms = 0;     // from the complete head to the last byte handed to the kernel
  bool client_left = false;
};

// Sends the response. May be called from any thread; only the first call counts. When the last copy is destroyed
// without a call, the client gets kInternal.
using HttpReply = std::function<void(HttpResponse)>;

// All are called on an I/O thread and must not block.
struct HttpCallbacks {
  // Must be set. The request is shared with the connection: change nothing in it after replying.
  std::function<void(std::shared_ptr<HttpRequest> request, HttpReply reply)> handler{};
  // Must be set. What the server itself has to say when a request never reaches a handler (bad syntax, limits,
  // time-outs) or gets no answer from it: turns an Error into a response, so that all errors look alike. `request` may
  // be incomplete.
  std::function<HttpResponse(const Error& error, const HttpRequest& request)> format_error{};
  // Called as soon as the head is read: an Error here refuses the request before its body is read. Hold nothing scarce
  // for a request that may take a minute to arrive.
  std::function<Status(HttpRequest& head)> admission{};
  // Called once for every answer, after it was sent or could not be; the body has been given away by then.
  std::function<void(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer)>
      observer{};
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; "0.0.0.0" and "::" mean all
  int port = 0;                    // 0: any free port
  int io_threads = 1;
  size_t max_body_bytes = 32u << 20;     // checked against Content-Length before the body is read
  size_t max_buffered_bytes = 1u << 30;  // of all bodies that are just being read: kBusy beyond
  size_t max_header_bytes = 16u << 10;
  int max_connections = 1024;
  int max_connections_per_peer = 256;
  std::chrono::milliseconds header_timeout{10'000};     // first byte to end of head; also idle keep-alive
  std::chrono::milliseconds body_timeout{60'000};       // the whole body
  std::chrono::milliseconds write_timeout{60'000};      // the whole response
  std::chrono::milliseconds request_deadline{120'000};  // head to answer: kDeadline through the error formatter
};

// Owns its I/O threads. Refuses with a response and not a bare close: missing or double Host, obs-fold, lone CR or LF,
// control bytes, both Content-Length and Transfer-Encoding, two Content-Lengths, oversized heads (431) and bodies (413,
// before reading, with a lingering close); answers Expect: 100-continue after the limit check; TCP_NODELAY; pipelined
// requests in order; HEAD answered as GET without a body. RFC 9110 and 9112.
class HttpServer {
 public:
  // Binds and listens, then serves until Stop. Fails with kUsage naming the port when it is taken, kNoPermission when
  // it needs more rights, kInvalidRequest when host or port are none of this machine's.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options, HttpCallbacks callbacks);
  ~HttpServer();  // as Stop without grace

  int port() const;
  // From now on every response closes its connection. Call it before refusing what waits, then Stop.
  void AnnounceStop();
  // Stops accepting, closes connections without a request in progress, lets requests in progress finish within `grace`,
  // then closes. Blocks. Replies that come later are dropped.
  void Stop(std::chrono::milliseconds grace);

  struct Counters {
    uint64_t connections = 0;  // accepted
    uint64_t open_connections = 0;
    uint64_t requests = 0;        // answered, whatever the status
    uint64_t refused = 0;         // connections over a limit, requests that never reached a handler
    uint64_t disconnected = 0;    // clients that left while their request was in progress
    uint64_t timed_out = 0;       // requests ended by a time-out or the deadline
    uint64_t buffered_bytes = 0;  // of bodies that are just being read
  };
  Counters counters() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Asking other servers

// A head and what came with it.
struct HttpAnswer {
  int status = 0;
  std::string body{};
  HttpHeaders headers{};                                 // names as received
  std::string url{};                                     // what answered, after redirects
  std::string_view Header(std::string_view name) const;  // case-insensitive; the first, or empty when absent
};

// A body that is read piece by piece, perhaps from the beginning again when a connection breaks. Lives until the
// request has ended; called on the thread that sends.
struct HttpBodyReader {
  uint64_t size = 0;
  // Fills the beginning of `bytes` with what stands at `offset`; as much as there is, at least one byte.
  std::function<Result<size_t>(uint64_t offset, std::span<std::byte> bytes)> read{};
};

struct HttpCall {
  std::string method = "GET";
  std::string url;
  HttpHeaders headers{};  // values with control bytes are kInvalidRequest
  std::string body{};
  HttpBodyReader reader{};  // sent in place of `body` when its `read` is set
  // Gets the body of a 2xx answer piece by piece, in place of HttpAnswer::body; an error ends the request with it.
  std::function<Status(const HttpAnswer& head, std::span<const std::byte> bytes)> sink{};
  uint64_t max_body_bytes = 64u << 20;         // of an answer that is kept; kBodyTooLarge
  std::chrono::milliseconds timeout{0};        // for the whole request; 0: as long as bytes move
  int redirects = 0;                           // followed for GET and HEAD; beyond them the 3xx is the answer
  std::function<void(uint64_t bytes)> sent{};  // how much of the body has gone so far
};

struct HttpClientOptions {
  std::string user_agent = "sightline";
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{30};  // without a byte in either direction: kDeadline
};

// Asks http and https servers. Certificates are checked (SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names
// other roots); proxies come from the environment (http_proxy, https_proxy, all_proxy, no_proxy, in capitals too) and
// are not asked for what is this machine. Authorization and Cookie headers go to the scheme, host and port of
// HttpCall::url alone, and no redirect leads from https to http. Connections are kept for the next request. Errors name
// scheme, host and path of a URL and never its user, password or query, nor any header: kUnreachable for no answer or a
// broken one, kDeadline for one too slow, kNoPermission with what to set for a certificate that is not trusted,
// kCancelled when `stop` is asked. An error status is an answer. Any thread; each call waits on its own.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpAnswer> Send(const HttpCall& call, std::stop_token stop = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "https://host:443" of "https://user:word@Host/path?query": what may see the same secrets; empty when it is no http or
// https URL.
std::string UrlOrigin(const std::string& url);
// Whether what an http or https URL names is this machine, for sure: localhost, [::1] or an address 127.x.y.z. No other
// name counts, whatever it looks like.
bool IsLoopbackUrl(const std::string& url);
// `location` as seen from `base`, as in a Location header (RFC 3986, 5.2); empty when there is no such URL.
std::string ResolveUrl(const std::string& base, const std::string& location);
// For messages: without user, password, query and fragment.
std::string PrintableUrl(const std::string& url);
// Everything but letters, digits and -._~ as %XX; `kept` are left too ("/" for paths).
std::string PercentEncoded(std::string_view text, std::string_view kept = {});

// POSTs a JSON text to an http or https URL and waits. Redirects are not followed. kUnreachable when there is no answer
// in time, or one over 256 MiB; an error status is an answer. Any thread.
Result<HttpAnswer> PostJson(const std::string& url, const std::string& body, std::chrono::milliseconds timeout);

}  // namespace sightline
