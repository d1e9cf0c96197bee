// net: an HTTP/1.1 server with strict limits, on Boost.Asio and Beast, which appear nowhere else. Knows bytes, headers
// and time-outs; knows nothing of models or JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

struct HttpRequest {
  std::string method;   // "POST"
  std::string target;   // as sent, percent-encoded
  std::string path;     // decoded, without query
  std::vector<std::pair<std::string, std::string>> headers;  // names as sent
  std::string body;
  std::string peer;     // "127.0.0.1:51234"
  std::chrono::steady_clock::time_point received;  // when the head was complete
  std::stop_token stop;  // asked to stop when the client goes away or the deadline passes

  std::string_view Header(std::string_view name) const;  // case-insensitive; empty when absent
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string content_type = "application/json";
  std::string body;
};

// Sends the response. May be called once, from any thread; when it is destroyed without being called, the client gets a
// 500.
using HttpReply = std::function<void(HttpResponse)>;

// What the server itself has to say when a request never reaches a handler (bad syntax, limits, time-outs): the handler
// of these turns an Error into a response, so that all errors look alike.
using HttpErrorFormatter = std::function<HttpResponse(const Error& error, const HttpRequest& request)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                       // 0: any free port
  int io_threads = 1;
  size_t max_body_bytes = 32u << 20;  // checked against Content-Length before the body is read
  size_t max_header_bytes = 16u << 10;
  int max_connections = 1024;
  int max_connections_per_peer = 256;
  std::chrono::milliseconds header_timeout{10'000};   // first byte to end of head; also idle keep-alive
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{60'000};
  std::chrono::milliseconds request_deadline{120'000};  // head to answer: kDeadline through the error formatter
};

// Owns its I/O threads. Refuses with a response and not a bare close: missing or double Host, obs-fold, both
// Content-Length and Transfer-Encoding, two Content-Lengths, oversized heads (431) and bodies (413, before reading, with
// a lingering close); answers Expect: 100-continue after the limit check; TCP_NODELAY; pipelined requests in order;
// HEAD answered as GET without a body.
class HttpServer {
 public:
  using Handler = std::function<void(std::shared_ptr<HttpRequest> request, HttpReply reply)>;
  // Called as soon as the head is read: an Error here refuses the request before its body is read.
  using Admission = std::function<Status(const HttpRequest& head)>;

  // Binds and listens, then serves until Stop. Fails with kUsage naming the port when it is taken.
  static Result<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options, Handler handler,
                                                   HttpErrorFormatter format_error, Admission admission = {});
  ~HttpServer();

  int port() const;
  // Stops accepting, lets requests in progress finish within `grace`, then closes. Blocks.
  void Stop(std::chrono::milliseconds grace);

  struct Counters {
    uint64_t connections = 0, open_connections = 0, requests = 0, refused = 0, disconnected = 0;
  };
  Counters counters() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sightline
