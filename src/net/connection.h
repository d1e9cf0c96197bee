// One client's connection. With server.cc and connection.cc the only place that knows Boost.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "net/net.h"

namespace sightline {

// Operations return (error code, ...) to the coroutine that awaits them instead of throwing.
constexpr auto kAsTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

// What connections share with the server they belong to.
struct HttpService {
  HttpServerOptions options;
  HttpCallbacks callbacks;
  struct {
    std::atomic<uint64_t> connections{0}, open{0}, requests{0}, refused{0}, disconnected{0}, timed_out{0};
  } counters;
  std::atomic<size_t> buffered_bytes{0};  // of bodies that are just being read
  std::atomic<bool> stopping{false};
};

// Reads a head, a body, waits for the handler's answer, writes it, and again. Its executor is a strand, on which all
// methods but the constructor run.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpService& service, boost::asio::ip::tcp::socket socket, std::string address, std::string peer);

  // Ends when the connection does.
  boost::asio::awaitable<void> Serve();
  void Close();
  // Ends a connection without a request in progress; refuses a request whose body is still coming.
  void CloseIfIdle();

  boost::asio::any_io_executor executor() { return socket_.get_executor(); }
  const std::string& address() const { return address_; }

  // Sends one response if it fits into the socket's buffer at once, and nothing otherwise: for clients over a limit,
  // for whom nothing may be kept.
  static void SendAndForget(boost::asio::ip::tcp::socket socket, HttpResponse response);

 private:
  using Clock = std::chrono::steady_clock;
  template <typename T>
  using Task = boost::asio::awaitable<T>;
  struct Exchange;  // one request and its answer

  // Operations on the socket are cancelled when `limit` passes, until ClearLimit.
  void SetLimit(Clock::time_point limit);
  void ClearLimit();
  void WatchLimit();

  // True when the connection can carry another request.
  Task<bool> ServeOne();

  // kCancelled: nobody is there to be answered.
  Task<Status> ReadRequest(Exchange& exchange);
  Task<Result<size_t>> ReadHead();
  Status ParseHead(std::string_view head, Exchange& exchange);
  Status Admit(Exchange& exchange);
  Task<Status> SayContinue(const HttpRequest& request);
  Task<Status> ReadBody(Exchange& exchange);

  Task<void> Answer(Exchange& exchange);
  void CallHandler(const std::shared_ptr<HttpRequest>& request, HttpReply reply);
  void StopIfClientLeft(Exchange& exchange);
  HttpResponse Say(Code code, std::string message, const HttpRequest& request);

  Task<void> Write(Exchange& exchange, bool keep);
  Task<void> Linger();

  HttpService& service_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer watchdog_;
  boost::asio::steady_timer wake_;  // cancelled when the handler has answered
  boost::beast::flat_buffer buffer_;
  std::string address_, peer_;
  bool busy_ = false;  // a request is in progress: its head is complete, its answer not yet written
  bool reading_body_ = false;
  bool refusing_body_ = false;  // the server stops
  bool timed_out_ = false;
  bool closing_ = false;
};

}  // namespace sightline
