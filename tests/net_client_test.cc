#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "net/net.h"

namespace sightline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

// Answers with what it was asked; /hold never answers, /to?URL redirects there, /status/N has that status.
class NetClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = Serve();
    other_ = Serve();
  }
  std::string Url(const std::string& target) const {
    return "http://127.0.0.1:" + std::to_string(server_->port()) + target;
  }
  std::string Other(const std::string& target) const {
    return "http://localhost:" + std::to_string(other_->port()) + target;
  }
  static HttpCall Call(std::string method, std::string url) {
    HttpCall call;
    call.method = std::move(method);
    call.url = std::move(url);
    return call;
  }

 private:
  std::unique_ptr<HttpServer> Serve() {
    HttpCallbacks callbacks;
    callbacks.handler = [this](std::shared_ptr<HttpRequest> request, HttpReply reply) {
      if (request->path == "/hold") {
        const std::lock_guard lock(mutex_);
        held_.push_back(reply);
        return;
      }
      HttpResponse response;
      response.headers = {{"X-Twice", "one"}, {"X-Asked", std::string(request->Header("X-Ask"))}};
      if (request->path == "/to") {
        response.status = 302;
        response.headers.emplace_back("Location", request->target.substr(4));
      }
      if (request->path.starts_with("/status/")) response.status = std::stoi(request->path.substr(8));
      if (request->path == "/big") response.body.assign(8u << 20, 'x');
      if (response.body.empty()) {
        response.body = request->method + " " + request->target +
                        " token=" + std::string(request->Header("Authorization")) + " " + request->body;
      }
      reply(std::move(response));
    };
    callbacks.format_error = [](const Error& error, const HttpRequest&) {
      HttpResponse response;
      response.status = Describe(error.code).http_status;
      return response;
    };
    auto server = HttpServer::Start({}, callbacks);
    EXPECT_TRUE(server) << server.error().message;
    return std::move(*server);
  }

  std::mutex mutex_;
  std::vector<HttpReply> held_;
  std::unique_ptr<HttpServer> server_, other_;
};

TEST_F(NetClientTest, MethodsHeadersAndBodies) {
  const HttpClient client;
  HttpCall call = Call("GET", Url("/a?b=c"));
  call.headers = {{"X-Ask", "what"}};
  auto answer = client.Send(call);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->Header("x-asked"), "what");
  EXPECT_EQ(answer->Header("X-Absent"), "");
  EXPECT_EQ(answer->body, "GET /a?b=c token= ");
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
    call = Call(method, Url("/x"));
    call.body = "body";
    answer = client.Send(call);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, std::string(method) + " /x token= body");
  }
  answer = client.Send(Call("HEAD", Url("/x")));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "");
  EXPECT_EQ(answer->Header("X-Twice"), "one");
  EXPECT_EQ(client.Send(Call("GET", Url("/status/503")))->status, 503);
  EXPECT_EQ(client.Send(Call("POST", Url("/empty")))->body, "POST /empty token= ");
}

TEST_F(NetClientTest, BodiesAreReadPieceByPiece) {
  const std::string text(300'000, 'y');
  HttpCall call = Call("PUT", Url("/x"));
  call.reader.size = text.size();
  call.reader.read = [&text](uint64_t offset, std::span<std::byte> bytes) -> Result<size_t> {
    return text.copy(reinterpret_cast<char*>(bytes.data()), std::min<size_t>(bytes.size(), 1000), offset);
  };
  uint64_t sent = 0;
  call.sent = [&sent](uint64_t bytes) { sent = bytes; };
  const auto answer = HttpClient().Send(call);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "PUT /x token= " + text);
  EXPECT_EQ(sent, text.size());
  call.reader.read = [](uint64_t, std::span<std::byte>) -> Result<size_t> { return Fail(Code::kNotFound, "gone"); };
  EXPECT_EQ(HttpClient().Send(call).error().message, "gone");
}

TEST_F(NetClientTest, ASinkGetsTheBodyAndMayEndIt) {
  HttpCall call = Call("GET", Url("/big"));
  size_t bytes = 0;
  call.sink = [&bytes](const HttpAnswer& head, std::span<const std::byte> piece) -> Status {
    EXPECT_EQ(head.status, 200);
    bytes += piece.size();
    return {};
  };
  const HttpClient client;
  auto answer = client.Send(call);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(bytes, 8u << 20);
  EXPECT_EQ(answer->body, "");
  call.sink = [](const HttpAnswer&, std::span<const std::byte>) -> Status { return Fail(Code::kNoSpace, "full"); };
  answer = client.Send(call);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kNoSpace);
  call.sink = nullptr;
  call.max_body_bytes = 1000;
  EXPECT_EQ(client.Send(call).error().code, Code::kBodyTooLarge);
}

TEST_F(NetClientTest, StopEndsAWaitAtOnce) {
  std::stop_source stop;
  std::jthread asks([&stop] {
    std::this_thread::sleep_for(milliseconds(100));
    stop.request_stop();
  });
  const auto start = Clock::now();
  const auto answer = HttpClient().Send(Call("GET", Url("/hold")), stop.get_token());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kCancelled);
  EXPECT_LT(Clock::now() - start, milliseconds(900));
}

TEST_F(NetClientTest, SilenceAndDeadlinesEndIt) {
  HttpClientOptions options;
  options.stall_timeout = seconds(1);
  const HttpClient client(options);
  auto start = Clock::now();
  auto answer = client.Send(Call("GET", Url("/hold")));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kDeadline) << answer.error().message;
  EXPECT_LT(Clock::now() - start, seconds(5));
  HttpCall call = Call("GET", Url("/hold"));
  call.timeout = milliseconds(200);
  answer = HttpClient().Send(call);
  EXPECT_EQ(answer.error().code, Code::kDeadline);
  EXPECT_EQ(client.Send(Call("GET", "http://127.0.0.1:1/")).error().code, Code::kUnreachable);
  EXPECT_EQ(PostJson(Url("/hold"), "{}", milliseconds(200)).error().code, Code::kUnreachable);
}

TEST_F(NetClientTest, RedirectsAreAnswersUnlessAskedForAndLoseSecretsElsewhere) {
  const HttpClient client;
  HttpCall call = Call("GET", Url("/to?" + Url("/end")));
  call.headers = {{"Authorization", "Bearer secret"}};
  EXPECT_EQ(client.Send(call)->status, 302);
  call.redirects = 3;
  auto answer = client.Send(call);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "GET /end token=Bearer secret ");
  EXPECT_EQ(answer->url, Url("/end"));
  call.url = Url("/to?" + Other("/end"));
  EXPECT_EQ(client.Send(call)->body, "GET /end token= ");
  call.url = Url("/to?" + Other("/to?" + Url("/end")));
  EXPECT_EQ(client.Send(call)->body, "GET /end token= ") << "a way back does not bring them back";
  call.url = Url("/to?/to?/to?/to?/end");
  EXPECT_EQ(client.Send(call)->status, 302) << "one more than allowed";
  call.url = Url("/to?file:///etc/passwd");
  EXPECT_EQ(client.Send(call).error().code, Code::kUnreachable);
  call = Call("POST", Url("/to?/end"));
  call.redirects = 3;
  EXPECT_EQ(client.Send(call)->status, 302);
}

TEST_F(NetClientTest, ErrorsNameNoSecret) {
  const HttpClient client;
  const auto answer = client.Send(Call("GET", "http://user:secret@127.0.0.1:1/path?signature=secret#secret"));
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("http://127.0.0.1:1/path"));
  EXPECT_THAT(answer.error().message, Not(HasSubstr("secret")));
  HttpCall call = Call("GET", Url("/x"));
  call.headers = {{"Authorization", "Bearer secret\r\nX-Evil: 1"}};
  const auto refused = client.Send(call);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidRequest);
  EXPECT_THAT(refused.error().message, Not(HasSubstr("secret")));
  EXPECT_EQ(client.Send(Call("GET", "file:///etc/passwd")).error().code, Code::kInvalidRequest);
  EXPECT_EQ(client.Send(Call("GET", "nonsense")).error().code, Code::kUnreachable);  // a host that nobody has
}

TEST_F(NetClientTest, ManyThreadsShareAClient) {
  const HttpClient client;
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 20; ++k) {
          const auto answer = client.Send(Call("GET", Url("/x")));
          right += answer && answer->status == 200 ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(right, 160);
}

TEST(Urls, OriginsResolveAndPrint) {
  EXPECT_EQ(UrlOrigin("HTTPS://User:pw@Host.Example/a?b"), "https://host.example:443");
  EXPECT_EQ(UrlOrigin("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_NE(UrlOrigin("http://a.example"), UrlOrigin("https://a.example"));
  EXPECT_EQ(UrlOrigin("ftp://a"), "");
  EXPECT_EQ(UrlOrigin(""), "");
  EXPECT_EQ(ResolveUrl("http://a.example/b/c?d", "/e"), "http://a.example/e");
  EXPECT_EQ(ResolveUrl("http://a.example/b/c?d", "e"), "http://a.example/b/e");
  EXPECT_EQ(ResolveUrl("http://a.example/b", "https://c.example/d"), "https://c.example/d");
  EXPECT_EQ(ResolveUrl("http://a.example/b", "//c.example/d"), "http://c.example/d");
  EXPECT_EQ(ResolveUrl("http://a.example/b", "javascript:x"), "");
  EXPECT_EQ(ResolveUrl("http://a.example/b", ""), "");
  EXPECT_EQ(PrintableUrl("https://u:p@a.example/b?token=x#y"), "https://a.example/b");
  EXPECT_EQ(PercentEncoded("a b/ü?"), "a%20b%2F%C3%BC%3F");
  EXPECT_EQ(PercentEncoded("a/b~c", "/"), "a/b~c");
}

TEST(Urls, OnlyThisMachineIsLoopback) {
  for (const char* url : {"http://localhost", "HTTP://LocalHost:5000/a", "https://127.0.0.1/", "http://127.1.2.3:80",
                          "http://[::1]:5000/v2/", "http://user:word@localhost/"}) {
    EXPECT_TRUE(IsLoopbackUrl(url)) << url;
  }
  for (const char* url :
       {"http://127.evil.example", "http://127.0.0.1.evil.example/", "http://127.0.0.evil", "http://localhost:x@evil",
        "http://localhost.evil.example", "http://evil.example/@localhost", "http://evil.example#localhost",
        "http://[::2]/", "http://128.0.0.1/", "http://127.0.0.1@evil.example", "http://evil.localhost",
        "http://0.0.0.0/", "ftp://localhost/", "localhost", ""}) {
    EXPECT_FALSE(IsLoopbackUrl(url)) << url;
  }
}

}  // namespace
}  // namespace sightline
