#include "net/connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <ctime>
#include <tuple>
#include <utility>
#include <vector>

#include "net/head.h"
#include "net/reply_slot.h"

namespace sightline {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// How often a connection whose request is in progress looks whether its client is still there.
constexpr std::chrono::milliseconds kWatchInterval{20};
// How long a connection that was told to close is read from, so that the client sees the answer and not a reset.
constexpr std::chrono::milliseconds kLinger{5'000};
constexpr std::chrono::milliseconds kLingerWhenStopping{200};
constexpr size_t kHeadReadBytes = 4u << 10;
constexpr size_t kBodyReadBytes = 64u << 10;

tl::unexpected<Error> ClientLeft() { return Fail(Code::kCancelled, "the client closed the connection"); }

double Seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

// Reads nothing, so that pipelined requests stay where they are.
bool PeerLeft(int descriptor) {
  pollfd state{descriptor, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// The day and month names of RFC 9110, whatever the locale says.
std::string HttpDate() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                     utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

// Takes the body out of `response`.
http::response<http::string_body> MakeMessage(HttpResponse& response, unsigned version, bool keep_alive) {
  http::response<http::string_body> message;
  message.version(version == 10 ? 10 : 11);
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::date, HttpDate());
  message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  message.keep_alive(keep_alive);
  message.body() = std::move(response.body);
  message.prepare_payload();
  return message;
}

// Our words for the parser's.
std::string HeadProblem(error_code error) {
  if (error == http::error::multiple_content_length) return "the request has several Content-Length fields";
  if (error == http::error::bad_content_length) return "Content-Length is not a number, or not the only body length";
  if (error == http::error::bad_transfer_encoding) {
    return "Transfer-Encoding is not 'chunked', or not the only body length";
  }
  return "the request is not HTTP/1.1";
}

bool IsParserError(error_code error) { return error.category() == make_error_code(http::error::bad_chunk).category(); }

// The part of a counter that one body makes up, until it is read or given up.
class Share {
 public:
  explicit Share(std::atomic<size_t>& total) : total_(total) {}
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { total_ -= size_; }

  // Returns the new total.
  size_t GrowTo(size_t size) {
    const size_t growth = size - std::exchange(size_, size);
    return total_ += growth;
  }

 private:
  std::atomic<size_t>& total_;
  size_t size_ = 0;
};

}  // namespace

struct HttpConnection::Exchange {
  std::shared_ptr<HttpRequest> request = std::make_shared<HttpRequest>();
  std::stop_source stop;
  http::request_parser<http::string_body> parser;
  bool in_step = false;  // where the request ends is beyond doubt
  HttpResponse response;
  HttpTransfer transfer;
};

HttpConnection::HttpConnection(HttpService& service, tcp::socket socket, std::string address, std::string peer)
    : service_(service),
      socket_(std::move(socket)),
      watchdog_(socket_.get_executor()),
      wake_(socket_.get_executor()),
      buffer_(service.options.max_header_bytes + kBodyReadBytes),
      address_(std::move(address)),
      peer_(std::move(peer)) {}

asio::awaitable<void> HttpConnection::Serve() {
  bool open = true;
  while (open) open = co_await ServeOne();
  Close();
}

void HttpConnection::Close() {
  closing_ = true;
  error_code ignored;
  socket_.close(ignored);
  watchdog_.cancel();
  wake_.cancel();
}

void HttpConnection::CloseIfIdle() {
  if (!busy_) return Close();
  if (!reading_body_) return;
  refusing_body_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void HttpConnection::SendAndForget(tcp::socket socket, HttpResponse response) {
  auto message = MakeMessage(response, 11, false);
  error_code ignored;
  socket.non_blocking(true, ignored);
  http::write(socket, message, ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

// ---------------------------------------------------------------------------------------------------------------------
// Time limits

void HttpConnection::SetLimit(Clock::time_point limit) {
  timed_out_ = false;
  watchdog_.expires_at(limit);
  WatchLimit();
}

void HttpConnection::ClearLimit() {
  timed_out_ = false;
  watchdog_.expires_at(Clock::time_point::max());
}

void HttpConnection::WatchLimit() {
  watchdog_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->watchdog_.expiry() > Clock::now()) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
    // Again: a composed operation may just have been between two reads.
    self->watchdog_.expires_after(kWatchInterval);
    self->WatchLimit();
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// One request

asio::awaitable<bool> HttpConnection::ServeOne() {
  Exchange exchange;
  exchange.request->peer = peer_;
  exchange.request->stop = exchange.stop.get_token();
  const Status read = co_await ReadRequest(exchange);
  ClearLimit();
  if (read) {
    co_await Answer(exchange);
  } else if (read.error().code == Code::kCancelled) {
    co_return false;
  } else {
    ++service_.counters.refused;
    exchange.response = service_.callbacks.format_error(read.error(), *exchange.request);
  }
  // A request that was not read to its end leaves the connection out of step.
  const bool keep = exchange.in_step && exchange.parser.is_done() && exchange.parser.keep_alive() &&
                    !exchange.transfer.client_left && !service_.stopping;
  co_await Write(exchange, keep);
  ++service_.counters.requests;
  if (service_.callbacks.observer) {
    service_.callbacks.observer(*exchange.request, exchange.response, exchange.transfer);
  }
  busy_ = false;
  if (exchange.transfer.client_left) co_return false;
  exchange.request = nullptr;  // and what it holds
  if (!keep) co_await Linger();
  co_return keep && !service_.stopping;
}

asio::awaitable<Status> HttpConnection::ReadRequest(Exchange& exchange) {
  const Result<size_t> head_size = co_await ReadHead();
  if (!head_size) co_return tl::make_unexpected(head_size.error());
  busy_ = true;
  exchange.request->received = Clock::now();
  exchange.transfer.bytes_in = *head_size;
  Status status = ParseHead({static_cast<const char*>(buffer_.data().data()), *head_size}, exchange);
  buffer_.consume(*head_size);
  if (status) status = Admit(exchange);
  if (!status || exchange.parser.is_done()) co_return status;
  const auto& options = service_.options;
  SetLimit(exchange.request->received + std::min(options.body_timeout, options.request_deadline));
  status = co_await SayContinue(*exchange.request);
  if (status) status = co_await ReadBody(exchange);
  co_return status;
}

// Waits for a request as long as an idle connection may live; from its first byte on, as long as a head may take.
asio::awaitable<Result<size_t>> HttpConnection::ReadHead() {
  const auto& options = service_.options;
  SetLimit(Clock::now() + options.header_timeout);
  bool begun = false;
  size_t searched = 0;
  while (true) {
    std::string_view text(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    if (!begun) {
      const size_t blank = std::min(text.find_first_not_of("\r\n"), text.size());  // RFC 9112, 2.2
      buffer_.consume(blank);
      text.remove_prefix(blank);
      begun = !text.empty();
      if (begun) SetLimit(Clock::now() + options.header_timeout);
    }
    const size_t end = FindHeadEnd(text, searched);
    searched = text.size();
    if (end > options.max_header_bytes || (end == 0 && text.size() >= options.max_header_bytes)) {
      co_return Fail(Code::kHeaderTooLarge,
                     fmt::format("the request head is longer than {} bytes", options.max_header_bytes));
    }
    if (end > 0) co_return end;
    if (closing_ || (service_.stopping && !begun)) co_return ClientLeft();
    const size_t room = std::min(kHeadReadBytes, options.max_header_bytes - text.size());
    const auto [error, size] = co_await socket_.async_read_some(buffer_.prepare(room), kAsTuple);
    if (timed_out_ && begun && !closing_) {
      ++service_.counters.timed_out;
      co_return Fail(Code::kRequestTimeout,
                     fmt::format("the request head was not complete within {:g} s", Seconds(options.header_timeout)));
    }
    if (error) co_return ClientLeft();
    buffer_.commit(size);
  }
}

Status HttpConnection::ParseHead(std::string_view head, Exchange& exchange) {
  SIGHTLINE_RETURN_IF_ERROR(CheckHeadBytes(head));
  auto& parser = exchange.parser;
  HttpRequest& request = *exchange.request;
  error_code error;
  parser.body_limit(boost::none);  // Admit compares, when the fields have been checked
  parser.header_limit(static_cast<uint32_t>(head.size() + 1));
  parser.put(asio::buffer(head.data(), head.size()), error);
  if (!parser.is_header_done()) return Fail(Code::kInvalidRequest, HeadProblem(error));
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) {
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckHeadFields(request, message.version() == 10));
  exchange.in_step = true;
  SIGHTLINE_ASSIGN_OR_RETURN(request.path, DecodePath(request.target));
  return {};
}

// The checks between head and body.
Status HttpConnection::Admit(Exchange& exchange) {
  if (service_.callbacks.admission) SIGHTLINE_RETURN_IF_ERROR(service_.callbacks.admission(*exchange.request));
  const size_t limit = service_.options.max_body_bytes;
  const std::string_view announced = exchange.request->Header("Content-Length");
  uint64_t length = 0;
  std::from_chars(announced.data(), announced.data() + announced.size(), length);  // the parser has checked it
  if (length > limit) {
    return Fail(Code::kBodyTooLarge, fmt::format("the request body has {} bytes, expected at most {}", length, limit));
  }
  exchange.parser.body_limit(limit);
  return {};
}

// Clients that send large bodies wait for it, curl for a second.
asio::awaitable<Status> HttpConnection::SayContinue(const HttpRequest& request) {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  if (!EqualsIgnoringCase(request.Header("Expect"), "100-continue") || buffer_.size() > 0) co_return Status{};
  const auto [error, size] = co_await asio::async_write(socket_, asio::buffer(kContinue), kAsTuple);
  if (error) co_return ClientLeft();
  co_return Status{};
}

asio::awaitable<Status> HttpConnection::ReadBody(Exchange& exchange) {
  auto& parser = exchange.parser;
  Share share(service_.buffered_bytes);
  error_code error;
  parser.eager(true);
  reading_body_ = true;
  while (!error && !parser.is_done() && !refusing_body_) {
    std::tie(error, std::ignore) = co_await http::async_read_some(socket_, buffer_, parser, kAsTuple);
    if (share.GrowTo(parser.get().body().size()) > service_.options.max_buffered_bytes) {
      co_return Fail(Code::kBusy, "the server is receiving too many large requests at once");
    }
  }
  reading_body_ = false;
  if (refusing_body_ && !closing_) co_return Fail(Code::kDraining, "the server is shutting down");
  if (timed_out_ && !closing_) {
    ++service_.counters.timed_out;
    co_return Fail(Code::kRequestTimeout, "the request body was not complete in time");
  }
  if (error == http::error::bad_alloc) co_return Fail(Code::kOutOfMemory, "there is no memory for the request body");
  if (error == http::error::body_limit) {
    co_return Fail(Code::kBodyTooLarge,
                   fmt::format("the request body has more than the {} bytes allowed", service_.options.max_body_bytes));
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      (error && !IsParserError(error))) {
    ++service_.counters.disconnected;
    co_return ClientLeft();
  }
  if (error) co_return Fail(Code::kInvalidRequest, "the request body is not a sequence of well-formed chunks");
  exchange.request->body = std::move(parser.get().body());
  exchange.transfer.bytes_in += exchange.request->body.size();
  co_return Status{};
}

// ---------------------------------------------------------------------------------------------------------------------
// The answer

asio::awaitable<void> HttpConnection::Answer(Exchange& exchange) {
  const HttpRequest& request = *exchange.request;
  auto slot = std::make_shared<ReplySlot>(
      [self = shared_from_this()] { asio::post(self->executor(), [self] { self->wake_.cancel(); }); });
  CallHandler(exchange.request, ReplySlot::MakeReply(slot));
  const auto deadline = request.received + service_.options.request_deadline;
  while (!slot->closed() && !closing_ && Clock::now() < deadline) {
    StopIfClientLeft(exchange);
    wake_.expires_at(std::min(Clock::now() + kWatchInterval, deadline));
    co_await wake_.async_wait(kAsTuple);
  }
  const bool closed = slot->closed();
  slot->Detach();  // from here on nobody wakes this connection
  if (auto response = slot->Take()) {
    exchange.response = std::move(*response);
    co_return;
  }
  exchange.stop.request_stop();
  if (closed) {
    exchange.response = Say(Code::kInternal, "the request got no answer", request);
  } else if (closing_) {
    exchange.response = Say(Code::kDraining, "the server is shutting down", request);
  } else {
    ++service_.counters.timed_out;
    const double seconds = Seconds(service_.options.request_deadline);
    exchange.response = Say(Code::kDeadline, fmt::format("the answer was not ready within {:g} s", seconds), request);
  }
}

// Whatever a handler throws becomes "no answer", and with that kInternal.
void HttpConnection::CallHandler(const std::shared_ptr<HttpRequest>& request, HttpReply reply) {
  try {
    service_.callbacks.handler(request, std::move(reply));
  } catch (const std::exception& exception) {
    LogError(fmt::format("net: a handler failed: {}", exception.what()));
  }
}

void HttpConnection::StopIfClientLeft(Exchange& exchange) {
  if (exchange.transfer.client_left || !PeerLeft(socket_.native_handle())) return;
  exchange.transfer.client_left = true;
  ++service_.counters.disconnected;
  exchange.stop.request_stop();
}

HttpResponse HttpConnection::Say(Code code, std::string message, const HttpRequest& request) {
  return service_.callbacks.format_error(Error{code, std::move(message), {}}, request);
}

asio::awaitable<void> HttpConnection::Write(Exchange& exchange, bool keep) {
  HttpTransfer& transfer = exchange.transfer;
  auto message = MakeMessage(exchange.response, exchange.parser.get().version(), keep);
  http::response_serializer<http::string_body> serializer(message);
  SetLimit(Clock::now() + service_.options.write_timeout);
  error_code error;
  if (exchange.request->method == "HEAD") {
    std::tie(error, transfer.bytes_out) = co_await http::async_write_header(socket_, serializer, kAsTuple);
  } else {
    std::tie(error, transfer.bytes_out) = co_await http::async_write(socket_, serializer, kAsTuple);
  }
  ClearLimit();
  if (error) transfer.client_left = true;
  if (exchange.request->received == Clock::time_point{}) co_return;  // there never was a whole head
  transfer.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - exchange.request->received).count();
}

// Closing a socket with unread bytes resets it, and the reset may overtake the answer.
asio::awaitable<void> HttpConnection::Linger() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  SetLimit(Clock::now() + (service_.stopping ? kLingerWhenStopping : kLinger));
  std::vector<char> discarded(kBodyReadBytes);
  while (!error && !timed_out_ && !closing_) {
    const auto [failed, size] = co_await socket_.async_read_some(asio::buffer(discarded), kAsTuple);
    error = failed;
  }
}

}  // namespace sightline
