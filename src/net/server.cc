#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "net/connection.h"
#include "net/net.h"

namespace sightline {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptRetry{50};

std::string TextOf(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  if (endpoint.address().is_v6()) return fmt::format("[{}]:{}", address, endpoint.port());
  return fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace

struct HttpServer::State {
  HttpService service;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  std::vector<std::thread> threads;
  int port = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections;
  std::unordered_map<std::string, int> per_address;

  Status Listen();
  void StartThreads();
  asio::awaitable<void> Accept();
  void Open(tcp::socket socket);
  bool HasRoom(const std::string& address);
  void Refuse(tcp::socket socket, const std::string& peer);
  void Register(const std::shared_ptr<HttpConnection>& connection);
  void Unregister(const std::shared_ptr<HttpConnection>& connection);
  void ForEachConnection(void (HttpConnection::*action)());
  void Stop(std::chrono::milliseconds grace);
};

Status HttpServer::State::Listen() {
  const auto& options = service.options;
  if (options.port < 0 || options.port > 65535) {
    return Fail(Code::kInvalidRequest, fmt::format("port {} is not between 0 and 65535", options.port));
  }
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty()) return Fail(Code::kInvalidRequest, fmt::format("host {} has no address", options.host));
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  const std::string place = fmt::format("port {} on {}", options.port, options.host);
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

asio::awaitable<void> HttpServer::State::Accept() {
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    tcp::socket socket{asio::any_io_executor(asio::make_strand(io))};
    const auto [error] = co_await acceptor.async_accept(socket, kAsTuple);
    if (!error) {
      Open(std::move(socket));
    } else if (error != asio::error::operation_aborted && error != asio::error::connection_aborted) {
      // Out of descriptors: connections that end give some back.
      pause.expires_after(kAcceptRetry);
      co_await pause.async_wait(kAsTuple);
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
  if (!HasRoom(address)) return Refuse(std::move(socket), TextOf(remote));
  auto connection = std::make_shared<HttpConnection>(service, std::move(socket), address, TextOf(remote));
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

void HttpServer::State::Refuse(tcp::socket socket, const std::string& peer) {
  ++service.counters.refused;
  HttpRequest request;
  request.peer = peer;
  const Error error{Code::kBusy, "the server has no room for another connection", {}};
  HttpConnection::SendAndForget(std::move(socket), service.callbacks.format_error(error, request));
}

void HttpServer::State::Register(const std::shared_ptr<HttpConnection>& connection) {
  const std::lock_guard lock(mutex);
  connections.insert(connection);
  ++per_address[connection->address()];
  ++service.counters.open;
}

void HttpServer::State::Unregister(const std::shared_ptr<HttpConnection>& connection) {
  const std::lock_guard lock(mutex);
  connections.erase(connection);
  const auto same = per_address.find(connection->address());
  if (--same->second == 0) per_address.erase(same);
  --service.counters.open;
  changed.notify_all();
}

void HttpServer::State::ForEachConnection(void (HttpConnection::*action)()) {
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
  ForEachConnection(&HttpConnection::CloseIfIdle);
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, grace, [this] { return connections.empty(); })) {
    lock.unlock();
    ForEachConnection(&HttpConnection::Close);
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

void HttpServer::AnnounceStop() { state_->service.stopping = true; }

void HttpServer::Stop(std::chrono::milliseconds grace) { state_->Stop(grace); }

HttpServer::Counters HttpServer::counters() const {
  const auto& counters = state_->service.counters;
  return {counters.connections,
          counters.open,
          counters.requests,
          counters.refused,
          counters.disconnected,
          counters.timed_out,
          state_->service.buffered_bytes};
}

}  // namespace sightline
