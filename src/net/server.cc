// The only file that knows Boost.Asio and Beast.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "net/head.h"
#include "net/net.h"
#include "net/reply_slot.h"

namespace sightline {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;
template <typename T>
using Task = asio::awaitable<T>;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
// How often a connection whose request is in progress looks whether its client is still there.
constexpr std::chrono::milliseconds kWatchInterval{20};
// How long a connection that was told to close is read from, so that the client sees the answer and not a reset.
constexpr std::chrono::milliseconds kLinger{5'000};
constexpr std::chrono::milliseconds kLingerWhenStopping{200};
constexpr std::chrono::milliseconds kAcceptRetry{50};
constexpr size_t kBodyReadBytes = 64u << 10;

struct AtomicCounters {
  std::atomic<uint64_t> connections{0}, open{0}, requests{0}, refused{0}, disconnected{0}, timed_out{0};
};

// What connections need of the server they belong to.
struct Service {
  HttpServerOptions options;
  HttpCallbacks callbacks;
  AtomicCounters counters;
  std::atomic<bool> stopping{false};
};

// The day and month names of RFC 9110, whatever the locale says.
std::string HttpDate() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[utc.tm_wday], utc.tm_mday,
                kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return text;
}

// Reads nothing, so that pipelined requests stay where they are.
bool PeerLeft(int descriptor) {
  pollfd state{descriptor, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

tl::unexpected<Error> ClientLeft() { return Fail(Code::kCancelled, "the client closed the connection"); }

std::string Seconds(std::chrono::milliseconds time) {
  return std::to_string(static_cast<double>(time.count()) / 1000.0).substr(0, 6) + " s";
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
std::string_view HeadProblem(error_code error) {
  if (error == http::error::multiple_content_length) return "the request has several Content-Length fields";
  if (error == http::error::bad_content_length) return "Content-Length is not a number, or not the only body length";
  if (error == http::error::bad_transfer_encoding)
    return "Transfer-Encoding is not 'chunked', or not the only body length";
  return "the request is not HTTP/1.1";
}

// Parses a complete head whose bytes have been checked.
Status ParseHead(std::string_view head, Parser& parser, HttpRequest& request) {
  SIGHTLINE_RETURN_IF_ERROR(CheckHeadBytes(head));
  error_code error;
  parser.body_limit(boost::none);  // compared by the caller, after the fields have been checked
  parser.header_limit(static_cast<uint32_t>(head.size() + 1));
  parser.put(asio::buffer(head.data(), head.size()), error);
  if (error == http::error::need_more) error = {};
  if (error || !parser.is_header_done()) {
    return Fail(Code::kInvalidRequest, std::string(HeadProblem(error)));
  }
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) {
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckHeadFields(request, message.version() == 10));
  SIGHTLINE_ASSIGN_OR_RETURN(request.path, DecodePath(request.target));
  return {};
}

// Reads a head, a body, waits for the handler's answer, writes it, and again. All methods run on the connection's
// strand.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Service& service, tcp::socket socket, std::string address, std::string peer)
      : service_(service),
        socket_(std::move(socket)),
        watchdog_(socket_.get_executor()),
        wake_(socket_.get_executor()),
        buffer_(service.options.max_header_bytes + kBodyReadBytes),
        address_(std::move(address)),
        peer_(std::move(peer)) {}

  Task<void> Serve() {
    bool open = true;
    while (open) open = co_await ServeOne();
    ClearLimit();
    Close();
  }

  // Ends a connection without a request in progress.
  void CloseIfIdle() {
    if (!busy_) Close();
  }

  void Close() {
    closing_ = true;
    error_code ignored;
    socket_.close(ignored);
    watchdog_.cancel();
    wake_.cancel();
  }

  asio::any_io_executor executor() { return socket_.get_executor(); }
  const std::string& address() const { return address_; }

 private:
  // ---- time limits

  // Operations on the socket are cancelled when `limit` passes, until ClearLimit.
  void SetLimit(Clock::time_point limit) {
    timed_out_ = false;
    watchdog_.expires_at(limit);
    Watch();
  }

  void Watch() {
    watchdog_.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->watchdog_.expiry() > Clock::now()) return;
      self->timed_out_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
      // Again: a composed operation may just have been between two reads.
      self->watchdog_.expires_after(kWatchInterval);
      self->Watch();
    });
  }

  void ClearLimit() {
    timed_out_ = false;
    watchdog_.expires_at(Clock::time_point::max());
  }

  // ---- one request

  Task<bool> ServeOne() {
    auto request = std::make_shared<HttpRequest>();
    request->peer = peer_;
    in_step_ = false;
    std::stop_source stop;
    request->stop = stop.get_token();
    Parser parser;
    HttpTransfer transfer;
    const Status read = co_await ReadRequest(parser, *request, transfer);
    ClearLimit();
    if (!read && read.error().code == Code::kCancelled) co_return false;
    HttpResponse response;
    if (read) {
      response = co_await Answer(request, stop, transfer);
    } else {
      ++service_.counters.refused;
      response = service_.callbacks.format_error(read.error(), *request);
    }
    // A request that was not read to its end leaves the connection out of step.
    const bool keep =
        in_step_ && parser.is_done() && parser.keep_alive() && !transfer.client_left && !service_.stopping;
    co_await Write(*request, response, parser.get().version(), keep, transfer);
    ++service_.counters.requests;
    if (service_.callbacks.observer) service_.callbacks.observer(*request, response, transfer);
    busy_ = false;
    if (keep && !transfer.client_left) co_return !service_.stopping;
    if (!transfer.client_left) co_await Linger();
    co_return false;
  }

  // kCancelled: nobody is there to be answered.
  Task<Status> ReadRequest(Parser& parser, HttpRequest& request, HttpTransfer& transfer) {
    const Result<size_t> head_size = co_await ReadHead();
    if (!head_size) co_return tl::make_unexpected(head_size.error());
    busy_ = true;
    request.received = Clock::now();
    transfer.bytes_in = *head_size;
    const std::string_view head(static_cast<const char*>(buffer_.data().data()), *head_size);
    Status status = ParseHead(head, parser, request);
    buffer_.consume(*head_size);
    in_step_ = status.has_value();
    if (status) status = Admit(parser, request);
    if (!status || parser.is_done()) co_return status;
    SetLimit(request.received + std::min(service_.options.body_timeout, service_.options.request_deadline));
    if (EqualsIgnoringCase(request.Header("Expect"), "100-continue") && buffer_.size() == 0) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      const auto [error, size] = co_await asio::async_write(socket_, asio::buffer(kContinue), kToken);
      if (error) co_return ClientLeft();
    }
    co_return co_await ReadBody(parser, request, transfer);
  }

  // Waits for a request as long as an idle connection may live; from its first byte on, as long as a head may take.
  Task<Result<size_t>> ReadHead() {
    const auto& options = service_.options;
    SetLimit(Clock::now() + options.header_timeout);
    bool begun = false;
    size_t searched = 0;
    while (true) {
      std::string_view text(static_cast<const char*>(buffer_.data().data()), buffer_.size());
      const size_t blank = std::min(text.find_first_not_of("\r\n"), text.size());  // RFC 9112, 2.2
      if (!begun && blank > 0) {
        buffer_.consume(blank);
        text.remove_prefix(blank);
      }
      if (!begun && !text.empty()) {
        begun = true;
        SetLimit(Clock::now() + options.header_timeout);
      }
      const size_t end = FindHeadEnd(text, searched);
      searched = text.size();
      if (end > options.max_header_bytes || (end == 0 && text.size() >= options.max_header_bytes)) {
        co_return Fail(Code::kHeaderTooLarge,
                       "the request head is longer than " + std::to_string(options.max_header_bytes) + " bytes");
      }
      if (end > 0) co_return end;
      if (closing_ || (service_.stopping && !begun)) co_return ClientLeft();
      const auto [error, size] = co_await socket_.async_read_some(
          buffer_.prepare(std::min<size_t>(4096, options.max_header_bytes - text.size())), kToken);
      if (timed_out_ && begun && !closing_) {
        ++service_.counters.timed_out;
        co_return Fail(Code::kRequestTimeout,
                       "the request head was not complete within " + Seconds(options.header_timeout));
      }
      if (error) co_return ClientLeft();
      buffer_.commit(size);
    }
  }

  // The checks between head and body.
  Status Admit(Parser& parser, HttpRequest& request) {
    if (service_.callbacks.admission) SIGHTLINE_RETURN_IF_ERROR(service_.callbacks.admission(request));
    const size_t limit = service_.options.max_body_bytes;
    const std::string_view announced = request.Header("Content-Length");
    uint64_t length = 0;
    std::from_chars(announced.data(), announced.data() + announced.size(), length);  // the parser has checked it
    if (length > limit) {
      return Fail(Code::kBodyTooLarge, "the request body has " + std::to_string(length) + " bytes, expected at most " +
                                           std::to_string(limit));
    }
    parser.body_limit(limit);
    return {};
  }

  Task<Status> ReadBody(Parser& parser, HttpRequest& request, HttpTransfer& transfer) {
    const auto [error, size] = co_await http::async_read(socket_, buffer_, parser, kToken);
    if (timed_out_ && !closing_) {
      ++service_.counters.timed_out;
      co_return Fail(Code::kRequestTimeout, "the request body was not complete in time");
    }
    if (error == http::error::bad_alloc) co_return Fail(Code::kOutOfMemory, "there is no memory for the request body");
    if (error == http::error::body_limit) {
      co_return Fail(Code::kBodyTooLarge, "the request body has more than the " +
                                              std::to_string(service_.options.max_body_bytes) + " bytes allowed");
    }
    if (error.category() == http::make_error_code(http::error::bad_chunk).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      co_return Fail(Code::kInvalidRequest, "the request body is not a sequence of well-formed chunks");
    }
    if (error) {
      ++service_.counters.disconnected;
      co_return ClientLeft();
    }
    request.body = std::move(parser.get().body());
    transfer.bytes_in += request.body.size();
    co_return Status{};
  }

  // ---- the answer

  Task<HttpResponse> Answer(std::shared_ptr<HttpRequest> request, std::stop_source& stop, HttpTransfer& transfer) {
    auto slot = std::make_shared<ReplySlot>(
        [self = shared_from_this()] { asio::post(self->executor(), [self] { self->wake_.cancel(); }); });
    CallHandler(request, ReplySlot::MakeReply(slot));
    const auto deadline = request->received + service_.options.request_deadline;
    while (!slot->closed()) {
      const auto now = Clock::now();
      if (now >= deadline || closing_) break;
      if (!transfer.client_left && PeerLeft(socket_.native_handle())) {
        transfer.client_left = true;
        ++service_.counters.disconnected;
        stop.request_stop();
      }
      wake_.expires_at(std::min(now + kWatchInterval, deadline));
      co_await wake_.async_wait(kToken);
    }
    const bool answered = slot->closed();
    slot->Detach();  // from here on nobody wakes this connection
    if (auto response = slot->Take()) co_return std::move(*response);
    stop.request_stop();
    if (answered) co_return Say(Code::kInternal, "the request got no answer", *request);
    if (closing_) co_return Say(Code::kDraining, "the server is shutting down", *request);
    ++service_.counters.timed_out;
    co_return Say(Code::kDeadline, "the answer was not ready within " + Seconds(service_.options.request_deadline),
                  *request);
  }

  HttpResponse Say(Code code, std::string message, const HttpRequest& request) {
    return service_.callbacks.format_error(Error{code, std::move(message), {}}, request);
  }

  // Whatever a handler throws becomes "no answer", and with that kInternal.
  void CallHandler(const std::shared_ptr<HttpRequest>& request, HttpReply reply) {
    try {
      service_.callbacks.handler(request, std::move(reply));
    } catch (const std::exception& exception) {
      LogError(std::string("net: a handler failed: ") + exception.what());
    }
  }

  Task<void> Write(const HttpRequest& request, HttpResponse& response, unsigned version, bool keep,
                   HttpTransfer& transfer) {
    auto message = MakeMessage(response, version, keep);
    SetLimit(Clock::now() + service_.options.write_timeout);
    http::response_serializer<http::string_body> serializer(message);
    error_code error;
    if (request.method == "HEAD") {
      std::tie(error, transfer.bytes_out) = co_await http::async_write_header(socket_, serializer, kToken);
    } else {
      std::tie(error, transfer.bytes_out) = co_await http::async_write(socket_, serializer, kToken);
    }
    ClearLimit();
    if (error) transfer.client_left = true;
    if (request.received != Clock::time_point{}) {
      transfer.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - request.received).count();
    }
  }

  // Closing a socket with unread bytes resets it, and the reset may overtake the answer.
  Task<void> Linger() {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    SetLimit(Clock::now() + (service_.stopping ? kLingerWhenStopping : kLinger));
    std::vector<char> discarded(kBodyReadBytes);
    while (!error && !timed_out_ && !closing_) {
      auto [failed, size] = co_await socket_.async_read_some(asio::buffer(discarded), kToken);
      error = failed;
    }
  }

  Service& service_;
  tcp::socket socket_;
  asio::steady_timer watchdog_;
  asio::steady_timer wake_;  // cancelled when the handler has answered
  beast::flat_buffer buffer_;
  std::string address_, peer_;
  bool busy_ = false;     // a request is in progress: its head is complete, its answer not yet written
  bool in_step_ = false;  // where the request ends is beyond doubt
  bool timed_out_ = false;
  bool closing_ = false;
};

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------

struct HttpServer::State {
  Service service;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  std::vector<std::thread> threads;
  int port = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::unordered_map<std::string, int> per_address;

  Status Listen();
  void StartThreads();
  Task<void> Accept();
  void Open(tcp::socket socket);
  bool HasRoom(const std::string& address);
  void Refuse(tcp::socket socket, const std::string& peer);
  void Register(const std::shared_ptr<Connection>& connection);
  void Unregister(const std::shared_ptr<Connection>& connection);
  void ForEachConnection(void (Connection::*action)());
  void Stop(std::chrono::milliseconds grace);
};

Status HttpServer::State::Listen() {
  const auto& options = service.options;
  if (options.port < 0 || options.port > 65535) {
    return Fail(Code::kInvalidRequest, "port " + std::to_string(options.port) + " is not between 0 and 65535");
  }
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) return Fail(Code::kInvalidRequest, "host " + options.host + " has no address");
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  const std::string place = "port " + std::to_string(options.port) + " on " + options.host;
  if (error == asio::error::address_in_use) return Fail(Code::kUsage, place + " is taken");
  if (error == asio::error::access_denied) return Fail(Code::kNoPermission, place + " needs more rights");
  if (error) return Fail(Code::kInvalidRequest, "cannot listen on " + place + ": " + error.message());
  port = acceptor.local_endpoint(error).port();
  return {};
}

void HttpServer::State::StartThreads() {
  asio::co_spawn(acceptor.get_executor(), Accept(), [](std::exception_ptr failure) {
    if (failure) LogError("net: accepting connections failed");
  });
  for (int i = 0; i < service.options.io_threads; ++i) {
    threads.emplace_back([this] { io.run(); });
  }
}

Task<void> HttpServer::State::Accept() {
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    tcp::socket socket{asio::any_io_executor(asio::make_strand(io))};
    const auto [error] = co_await acceptor.async_accept(socket, kToken);
    if (!error) {
      Open(std::move(socket));
    } else if (error != asio::error::operation_aborted && error != asio::error::connection_aborted) {
      // Out of descriptors: connections that end give some back.
      pause.expires_after(kAcceptRetry);
      co_await pause.async_wait(kToken);
    }
  }
}

void HttpServer::State::Open(tcp::socket socket) {
  ++service.counters.connections;
  error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return;  // gone already
  socket.set_option(tcp::no_delay(true), error);
  const std::string address = remote.address().to_string();
  const std::string peer =
      (remote.address().is_v6() ? "[" + address + "]:" : address + ":") + std::to_string(remote.port());
  if (!HasRoom(address)) return Refuse(std::move(socket), peer);
  auto connection = std::make_shared<Connection>(service, std::move(socket), address, peer);
  Register(connection);
  asio::co_spawn(connection->executor(), connection->Serve(), [this, connection](std::exception_ptr failure) {
    if (failure) LogError("net: a connection was closed after a failure of the server");
    connection->Close();
    Unregister(connection);
  });
}

bool HttpServer::State::HasRoom(const std::string& address) {
  const std::lock_guard lock(mutex);
  const auto same = per_address.find(address);
  return std::ssize(connections) < service.options.max_connections &&
         (same == per_address.end() || same->second < service.options.max_connections_per_peer);
}

// Says so if the client's window has room for it at once: nothing may be kept for connections over the limit.
void HttpServer::State::Refuse(tcp::socket socket, const std::string& peer) {
  ++service.counters.refused;
  HttpRequest request;
  request.peer = peer;
  HttpResponse response =
      service.callbacks.format_error(Error{Code::kBusy, "the server has no room for another connection", {}}, request);
  auto message = MakeMessage(response, 11, false);
  error_code ignored;
  socket.non_blocking(true, ignored);
  http::write(socket, message, ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpServer::State::Register(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex);
  connections.insert(connection);
  ++per_address[connection->address()];
  ++service.counters.open;
}

void HttpServer::State::Unregister(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex);
  connections.erase(connection);
  const auto same = per_address.find(connection->address());
  if (--same->second == 0) per_address.erase(same);
  --service.counters.open;
  changed.notify_all();
}

void HttpServer::State::ForEachConnection(void (Connection::*action)()) {
  const std::lock_guard lock(mutex);
  for (const auto& connection : connections) {
    asio::post(connection->executor(), [connection, action] { ((*connection).*action)(); });
  }
}

void HttpServer::State::Stop(std::chrono::milliseconds grace) {
  if (threads.empty()) return;
  service.stopping = true;
  asio::post(acceptor.get_executor(), [this] {
    error_code ignored;
    acceptor.close(ignored);
  });
  ForEachConnection(&Connection::CloseIfIdle);
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, grace, [this] { return connections.empty(); })) {
    lock.unlock();
    ForEachConnection(&Connection::Close);
    lock.lock();
    changed.wait(lock, [this] { return connections.empty(); });
  }
  lock.unlock();
  work.reset();
  io.stop();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options, HttpCallbacks callbacks) {
  SIGHTLINE_CHECK(callbacks.handler && callbacks.format_error && options.io_threads > 0);
  auto state = std::make_unique<State>();
  state->service.options = options;
  state->service.callbacks = std::move(callbacks);
  SIGHTLINE_RETURN_IF_ERROR(state->Listen());
  state->StartThreads();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() { state_->Stop(std::chrono::milliseconds(0)); }

int HttpServer::port() const { return state_->port; }

void HttpServer::Stop(std::chrono::milliseconds grace) { state_->Stop(grace); }

HttpServer::Counters HttpServer::counters() const {
  const AtomicCounters& counters = state_->service.counters;
  return {counters.connections, counters.open,         counters.requests,
          counters.refused,     counters.disconnected, counters.timed_out};
}

}  // namespace sightline
