#include "net/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/http_client.h"

namespace sightline {
namespace {

using std::chrono::milliseconds;
using testing::Answer;
using testing::Ask;
using testing::Client;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

bool Eventually(const std::function<bool()>& condition, milliseconds patience = milliseconds(5000)) {
  const auto end = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

// Answers "METHOD path body"; /hold waits for Release, /drop never answers, /throw throws, /stop says whether the
// request was asked to stop.
class NetTest : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    HttpCallbacks callbacks;
    callbacks.handler = [this](std::shared_ptr<HttpRequest> request, HttpReply reply) { Handle(request, reply); };
    callbacks.format_error = [](const Error& error, const HttpRequest&) {
      HttpResponse response;
      response.status = Describe(error.code).http_status;
      response.body = std::string(Describe(error.code).name) + ": " + error.message;
      return response;
    };
    callbacks.admission = [this](HttpRequest& head) -> Status {
      head.context = std::string("ticket");
      if (head.path == "/closed") return Fail(Code::kBusy, "the house is full");
      return {};
    };
    callbacks.observer = [this](const HttpRequest& request, const HttpResponse& response,
                                const HttpTransfer& transfer) {
      const std::lock_guard lock(mutex_);
      observed_.push_back({request.path, response.status, transfer});
    };
    auto server = HttpServer::Start(options, callbacks);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  void TearDown() override {
    const std::lock_guard lock(mutex_);
    held_.clear();
  }

  void Handle(std::shared_ptr<HttpRequest> request, HttpReply reply) {
    ++handled_;
    if (request->path == "/throw") throw std::runtime_error("oh");
    if (request->path == "/drop") return;
    if (request->path == "/hold") {
      const std::lock_guard lock(mutex_);
      held_.emplace_back(request, reply);
      return;
    }
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request->method + " " + request->path + " " + request->body;
    if (request->path == "/big") response.body.assign(64u << 20, 'x');
    reply(std::move(response));
  }

  size_t held() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  std::pair<std::shared_ptr<HttpRequest>, HttpReply> Held(size_t index) {
    const std::lock_guard lock(mutex_);
    return held_[index];
  }

  int port() const { return server_->port(); }

  struct Observed {
    std::string path;
    int status;
    HttpTransfer transfer;
  };
  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<HttpRequest>, HttpReply>> held_;
  std::vector<Observed> observed_;
  std::atomic<int> handled_{0};
  std::unique_ptr<HttpServer> server_;  // last: its threads use the members above
};

const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kHold = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(NetTest, AnswersAndKeepsTheConnection) {
  Start();
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"));
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /a hello");
    EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
    EXPECT_THAT(answer.headers.at("date"), ::testing::EndsWith(" GMT"));
  }
  EXPECT_EQ(server_->counters().connections, 1u);
  EXPECT_TRUE(Eventually([this] { return server_->counters().requests == 3; }));
}

TEST_F(NetTest, ClosesWhenAskedTo) {
  Start();
  Client client(port());
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Read().headers.at("connection"), "close");
  EXPECT_TRUE(client.SeesEnd());
}

TEST_F(NetTest, OldClientsGetOneAnswer) {
  Start();
  Client client(port());
  client.Send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Read().body, "GET /a ");
  EXPECT_TRUE(client.SeesEnd());
}

TEST_F(NetTest, PipelinedRequestsAreAnsweredInOrder) {
  Start();
  Client client(port());
  client.Send(
      kHold +
      "\r\nPOST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" +
      kGet);
  ASSERT_TRUE(Eventually([this] { return held() == 1; }));
  EXPECT_EQ(handled_, 1);
  Held(0).second(HttpResponse{.body = "first"});
  EXPECT_EQ(client.Read().body, "first");
  EXPECT_EQ(client.Read().body, "POST /b abcde");
  EXPECT_EQ(client.Read().body, "GET /a ");
}

TEST_F(NetTest, HeadIsGetWithoutABody) {
  Start();
  Client client(port());
  client.Send("HEAD /abc HTTP/1.1\r\nHost: x\r\n\r\n" + kGet);
  const Answer answer = client.Read(milliseconds(5000), /*head_only=*/true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-length"), std::to_string(std::string("HEAD /abc ").size()));
  EXPECT_EQ(client.Read().body, "GET /a ");
}

TEST_F(NetTest, TargetsAreDecoded) {
  Start();
  EXPECT_EQ(Ask(port(), "GET /v1%2fmodels%20?x=%zz HTTP/1.1\r\nHost: x\r\n\r\n").body, "GET /v1/models  ");
  EXPECT_EQ(Ask(port(), "GET http://x/a/b?q HTTP/1.1\r\nHost: x\r\n\r\n").body, "GET /a/b ");
  EXPECT_EQ(Ask(port(), "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n").body, "GET / ");
  EXPECT_EQ(Ask(port(), "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").body, "OPTIONS * ");
  for (const char* target : {"/%", "/%4", "/%4g", "/%00", "/a%0d", "a/b"}) {
    const Answer answer = Ask(port(), "GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(answer.status, 400) << target;
    EXPECT_THAT(answer.body, StartsWith("invalid_request: the request target")) << target;
  }
}

// Shapes that two parsers read differently, and plain nonsense: a 400 with a reason, then the connection ends, and
// nothing that follows is taken for a request.
TEST_F(NetTest, AmbiguousRequestsAreRefused) {
  Start();
  const std::string post = "POST /a HTTP/1.1\r\nHost: x\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"GET /a HTTP/1.1\r\n\r\n", "no Host"},
      {"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "2 Host"},
      {"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n", "Host field is not"},
      {"GET /a HTTP/1.1\r\nHost: a/../b\r\n\r\n", "Host field is not"},
      {"GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "folded"},
      {"GET /a HTTP/1.1\r\n Host: x\r\n\r\n", "folded"},
      {"GET /a HTTP/1.1\r\nHost : x\r\n\r\n", "not a token"},
      {"GET /a HTTP/1.1\r\nHost: x\r\nA\x01: b\r\n\r\n", "not a token"},
      {"GET /a HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", "not a token"},
      {"GET /a HTTP/1.1\r\nHost: x\r\nA: b\x01\r\n\r\n", "control byte in the field A"},
      {"GET /a HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", "control byte in the field A"},
      {std::string("GET /a HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 36), "control byte in the field A"},
      {"GET /a HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", "without a colon"},
      {"GET /a HTTP/1.1\nHost: x\n\n", "without a CR"},
      {"GET /a HTTP/1.1\r\nHost: x\n\r\n", "without a CR"},
      {"GET /a\x07 HTTP/1.1\r\nHost: x\r\n\r\n", "request line has a control byte"},
      {"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n", "not HTTP/1.1"},
      {"GET /a HTTP/2.0\r\nHost: x\r\n\r\n", "not HTTP/1.1"},
      {"GET /a\r\nHost: x\r\n\r\n", "not HTTP/1.1"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not HTTP/1.1"},
      {"\x16\x03\x01\x02\x01\x01\xfc\x03\n\n", "without a CR"},
      {post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: 5, 5\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: +5\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: -5\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: 5x\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length:\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: 99999999999999999999999\r\n\r\nhello", "Content-Length"},
      {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "not the only body length"},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "not the only body length"},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding is not 'chunked'"},
      {post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "Transfer-Encoding is not 'chunked'"},
      {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding is not 'chunked'"},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
       "Transfer-Encoding is not 'chunked'"},
      {"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.0 does not know"},
      {post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "not a sequence of well-formed chunks"},
      {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "not a sequence of well-formed chunks"},
      {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "not a sequence of well-formed chunks"},
      {post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n", "not a sequence of well-formed chunks"},
  };
  for (const auto& [request, reason] : cases) {
    Client client(port());
    client.Send(request + kGet);
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 400) << request;
    EXPECT_THAT(answer.body, HasSubstr(reason)) << request;
    EXPECT_TRUE(client.SeesEnd()) << request;
  }
  EXPECT_EQ(handled_, 0);
}

TEST_F(NetTest, SizesAreLimited) {
  Start({.max_body_bytes = 1000, .max_header_bytes = 500});
  const std::string post = "POST /a HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(Ask(port(), post + "Content-Length: 1000\r\n\r\n" + std::string(1000, 'x')).status, 200);
  EXPECT_EQ(Ask(port(), post + "Content-Length: 1001\r\n\r\n").status, 413);
  EXPECT_EQ(Ask(port(), post + "Content-Length: 3000000000\r\n\r\n").status, 413);
  EXPECT_EQ(
      Ask(port(), post + "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + std::string(1000, 'x') + "\r\n0\r\n\r\n").status,
      200);
  EXPECT_EQ(
      Ask(port(), post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') + "\r\n0\r\n\r\n").status,
      413);
  EXPECT_EQ(Ask(port(), post + "A: " + std::string(400, 'x') + "\r\n\r\n").status, 200);
  EXPECT_EQ(Ask(port(), post + "A: " + std::string(500, 'x') + "\r\n\r\n").status, 431);
  EXPECT_EQ(Ask(port(), std::string(600, 'x')).status, 431);
}

// The refusal is there before the body is, and a client that sends on all the same still reads it.
TEST_F(NetTest, OversizedBodyIsRefusedUnread) {
  Start({.max_body_bytes = 1u << 20});
  Client client(port());
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
  client.Send(std::string(3'000'000, 'x'));
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_THAT(answer.body, HasSubstr("has 3000000 bytes, expected at most 1048576"));
  EXPECT_EQ(handled_, 0);
}

TEST_F(NetTest, BodiesBeingReadAreLimitedTogether) {
  Start({.max_body_bytes = 3'000'000, .max_buffered_bytes = 3'000'000});
  const std::string head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n";
  Client slow(port());
  slow.Send(head + std::string(1'900'000, 'x'));
  ASSERT_TRUE(Eventually([this] { return server_->counters().buffered_bytes == 1'900'000; }));
  EXPECT_EQ(Ask(port(), head + std::string(2'000'000, 'x')).status, 503);
  slow.Send(std::string(100'000, 'x'));
  EXPECT_EQ(slow.Read().status, 200);
  EXPECT_EQ(Ask(port(), head + std::string(2'000'000, 'x')).status, 200);
}

TEST_F(NetTest, AdmissionRefusesBeforeTheBody) {
  Start();
  Client client(port());
  client.Send("POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read(milliseconds(5000), false, /*interim=*/true).status, 503);
  EXPECT_EQ(handled_, 0);
  Client bodiless(port());
  bodiless.Send("GET /closed HTTP/1.1\r\nHost: x\r\n\r\n" + kGet);
  EXPECT_EQ(bodiless.Read().status, 503);
  EXPECT_EQ(bodiless.Read().status, 200);
}

TEST_F(NetTest, AdmissionLeavesItsContext) {
  Start();
  Client client(port());
  client.Send(kHold);
  ASSERT_TRUE(Eventually([this] { return held() == 1; }));
  EXPECT_EQ(std::any_cast<std::string>(Held(0).first->context), "ticket");
}

TEST_F(NetTest, ContinueIsSaidAfterTheLimits) {
  Start({.max_body_bytes = 10});
  Client good(port());
  good.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n");
  EXPECT_EQ(good.Read(milliseconds(5000), false, /*interim=*/true).status, 100);
  good.Send("hello");
  EXPECT_EQ(good.Read().body, "POST /a hello");
  Client large(port());
  large.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(large.Read(milliseconds(5000), false, /*interim=*/true).status, 413);
}

TEST_F(NetTest, SlowHeadIsEnded) {
  Start({.header_timeout = milliseconds(200)});
  Client client(port());
  const auto start = Clock::now();
  bool open = true;
  for (const char c : std::string("GET /a HTTP/1.1\r\nHost: xxxxxxxxxxxxxxx")) {
    if (!(open = client.Send(std::string_view(&c, 1)) && Milliseconds(start) < 1000)) break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(client.Read().status, 408);
  EXPECT_GE(Milliseconds(start), 200);
  EXPECT_EQ(server_->counters().timed_out, 1u);
}

TEST_F(NetTest, SlowBodyIsEnded) {
  Start({.body_timeout = milliseconds(200)});
  Client client(port());
  const auto start = Clock::now();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 100 && Milliseconds(start) < 300; ++i) {
    client.Send("x");
    std::this_thread::sleep_for(milliseconds(10));
  }
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 408);
  EXPECT_LT(Milliseconds(start), 2000);
}

TEST_F(NetTest, SlowReaderIsEnded) {
  Start({.write_timeout = milliseconds(300)});
  Client client(port());
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(Eventually([this] { return server_->counters().open_connections == 1; }));
  EXPECT_TRUE(Eventually([this] { return server_->counters().open_connections == 0; }));
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(observed_.size(), 1u);
  EXPECT_TRUE(observed_[0].transfer.client_left);
}

TEST_F(NetTest, IdleConnectionsEndQuietly) {
  Start({.header_timeout = milliseconds(100)});
  Client fresh(port()), used(port());
  used.Send(kGet);
  EXPECT_EQ(used.Read().status, 200);
  EXPECT_TRUE(fresh.SeesEnd());
  EXPECT_TRUE(used.SeesEnd());
}

TEST_F(NetTest, AnswersAreDueByTheDeadline) {
  Start({.request_deadline = milliseconds(150)});
  Client client(port());
  const auto start = Clock::now();
  client.Send(kHold);
  EXPECT_EQ(client.Read().status, 504);
  EXPECT_GE(Milliseconds(start), 140);
  EXPECT_TRUE(Held(0).first->stop.stop_requested());
  Held(0).second(HttpResponse{.body = "late"});  // dropped
  client.Send(kGet);
  EXPECT_EQ(client.Read().body, "GET /a ");
}

TEST_F(NetTest, ForgottenRequestsGetAnAnswer) {
  Start();
  EXPECT_EQ(Ask(port(), "GET /drop HTTP/1.1\r\nHost: x\r\n\r\n").status, 500);
  EXPECT_EQ(Ask(port(), "GET /throw HTTP/1.1\r\nHost: x\r\n\r\n").status, 500);
}

TEST_F(NetTest, OnlyTheFirstReplyCounts) {
  Start();
  Client client(port());
  client.Send(kHold);
  ASSERT_TRUE(Eventually([this] { return held() == 1; }));
  std::thread([reply = Held(0).second] {
    reply(HttpResponse{.body = "one"});
    reply(HttpResponse{.body = "two"});
  }).join();
  client.Send(kGet);
  EXPECT_EQ(client.Read().body, "one");
  EXPECT_EQ(client.Read().body, "GET /a ");
}

// ggml-org/llama.cpp #24496, ollama #11889: work must not go on for a client that has left, in whichever way.
TEST_F(NetTest, WorkStopsWhenTheClientLeaves) {
  Start();
  Client closed(port()), reset(port()), half_closed(port()), pipelined(port());
  for (Client* client : {&closed, &reset, &half_closed}) client->Send(kHold);
  pipelined.Send(kHold + kGet);
  ASSERT_TRUE(Eventually([this] { return held() == 4; }));
  for (size_t i = 0; i < 4; ++i) EXPECT_FALSE(Held(i).first->stop.stop_requested());
  const auto start = Clock::now();
  closed.Close();
  reset.Reset();
  half_closed.ShutDownSending();
  pipelined.Close();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(Eventually([&] { return Held(i).first->stop.stop_requested(); })) << i;
  }
  EXPECT_LT(Milliseconds(start), 250);
  EXPECT_EQ(server_->counters().disconnected, 4u);
  for (size_t i = 0; i < 4; ++i) Held(i).second(HttpResponse{.status = 499});
  EXPECT_EQ(half_closed.Read().status, 499);  // still reads, so it is told
  EXPECT_TRUE(Eventually([this] { return server_->counters().open_connections == 0; }));
}

TEST_F(NetTest, HalfClosedClientsGetQuickAnswers) {
  Start();
  Client client(port());
  client.Send(kGet);
  client.ShutDownSending();
  EXPECT_EQ(client.Read().status, 200);
}

// Spec of the HTTP library: 40 half-open clients left a thread-pool server deaf.
TEST_F(NetTest, HalfOpenClientsDoNotHurtOthers) {
  Start();
  std::vector<std::unique_ptr<Client>> half_open;
  for (int i = 0; i < 40; ++i) {
    half_open.push_back(std::make_unique<Client>(port()));
    half_open.back()->Send("GET /a HT");
  }
  const auto start = Clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask(port(), kGet).status, 200);
  EXPECT_LT(Milliseconds(start), 1000);
}

TEST_F(NetTest, ConnectionsAreLimited) {
  Start({.max_connections = 3});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->Send(kGet);
    EXPECT_EQ(clients.back()->Read().status, 200);
  }
  Client over(port());
  EXPECT_EQ(over.Read().status, 503);
  EXPECT_TRUE(over.SeesEnd());
  clients.pop_back();
  EXPECT_TRUE(Eventually([this] { return server_->counters().open_connections == 2; }));
  EXPECT_EQ(Ask(port(), kGet).status, 200);
}

TEST_F(NetTest, ConnectionsOfOnePeerAreLimited) {
  Start({.max_connections_per_peer = 1});
  Client first(port());
  first.Send(kGet);
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(Client(port()).Read().status, 503);
}

TEST_F(NetTest, StopLetsRequestsFinish) {
  Start();
  Client idle(port()), busy(port()), half_open(port());
  idle.Send(kGet);
  EXPECT_EQ(idle.Read().status, 200);
  half_open.Send("GET /a HT");
  busy.Send(kHold + kGet);
  ASSERT_TRUE(Eventually([this] { return held() == 1; }));
  const auto start = Clock::now();
  std::thread stopper([this] { server_->Stop(milliseconds(10'000)); });
  EXPECT_TRUE(idle.SeesEnd());
  EXPECT_TRUE(half_open.SeesEnd());
  EXPECT_TRUE(Eventually([this] { return !Client(port()).connected(); }));
  EXPECT_FALSE(Held(0).first->stop.stop_requested());
  Held(0).second(HttpResponse{.body = "done"});
  const Answer answer = busy.Read();
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(busy.SeesEnd());
  stopper.join();
  EXPECT_LT(Milliseconds(start), 5000);
}

// A client that never sends the rest of its body held up the stop for the whole grace.
TEST_F(NetTest, StopRefusesRequestsWhoseBodyIsStillComing) {
  Start();
  Client slow(port());
  slow.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc");
  std::this_thread::sleep_for(milliseconds(100));  // until the head has been read
  const auto start = Clock::now();
  server_->Stop(milliseconds(10'000));
  EXPECT_LT(Milliseconds(start), 5000);
  EXPECT_EQ(slow.Read().status, 503);
}

TEST_F(NetTest, StopEndsWhenTheGraceIsOver) {
  Start();
  Client client(port());
  client.Send(kHold);
  ASSERT_TRUE(Eventually([this] { return held() == 1; }));
  const auto start = Clock::now();
  server_->Stop(milliseconds(100));
  EXPECT_LT(Milliseconds(start), 2000);
  EXPECT_TRUE(Held(0).first->stop.stop_requested());
  EXPECT_TRUE(client.SeesEnd());
  server_.reset();
  Held(0).second(HttpResponse{});  // nobody listens any more, nothing happens
}

TEST_F(NetTest, TakenPortIsNamed) {
  Start();
  auto second = HttpServer::Start(
      {.port = port()}, {.handler = [](auto, auto) {}, .format_error = [](auto&, auto&) { return HttpResponse{}; }});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUsage);
  EXPECT_EQ(second.error().message, "port " + std::to_string(port()) + " on 127.0.0.1 is taken");
}

TEST_F(NetTest, BadAddressesAreErrors) {
  for (const auto& options : {HttpServerOptions{.port = 65536}, HttpServerOptions{.port = -1},
                              HttpServerOptions{.host = "192.0.2.1"}, HttpServerOptions{.host = "no such host"}}) {
    auto server = HttpServer::Start(
        options, {.handler = [](auto, auto) {}, .format_error = [](auto&, auto&) { return HttpResponse{}; }});
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, Code::kInvalidRequest);
  }
}

TEST_F(NetTest, ObserverSeesEveryAnswerOnce) {
  Start();
  Ask(port(), "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  Ask(port(), "bad\r\n\r\n");
  EXPECT_TRUE(Eventually([this] { return server_->counters().requests == 2; }));
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(observed_.size(), 2u);
  EXPECT_EQ(observed_[0].path, "/a");
  EXPECT_EQ(observed_[0].status, 200);
  EXPECT_EQ(observed_[0].transfer.bytes_in,
            std::string("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").size());
  EXPECT_GT(observed_[0].transfer.bytes_out, 13u);
  EXPECT_FALSE(observed_[0].transfer.client_left);
  EXPECT_EQ(observed_[1].status, 400);
}

TEST_F(NetTest, ManyClientsAtOnceOnSeveralThreads) {
  Start({.io_threads = 3});
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([this, c, &right] {
      Client client(port());
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(c) + "-" + std::to_string(i);
        client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" +
                    text);
        right += client.Read().body == "POST /a " + text;
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(right, 400);
}

}  // namespace
}  // namespace sightline
