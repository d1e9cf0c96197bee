// The whole server in this process, over real sockets, with the toy checkpoint. Small enough for ThreadSanitizer; what
// users see of the built program is tested in tests/http.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "server/server.h"
#include "src/server/gaze_service.h"
#include "src/server/listen_port.h"
#include "src/server/worker_pool.h"
#include "tests/support/http_client.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using std::chrono::milliseconds;
using testing::Answer;
using testing::Client;
using ::testing::HasSubstr;

const std::filesystem::path kAssets = std::filesystem::path(SIGHTLINE_TEST_DATA) / "../../assets";

std::string Body(const std::string& picture, const std::string& boxes) {
  const auto file = ReadFile(kAssets / "toy" / picture, 1 << 24);
  EXPECT_TRUE(file);
  return R"({"image":")" + EncodeBase64(*file) + R"(","bboxes":)" + boxes + R"(,"heatmap_format":"none"})";
}

std::string Post(const std::string& body) {
  return "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string Get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

std::string CodeOf(const Answer& answer) {
  const auto document = nlohmann::json::parse(answer.body, nullptr, false);
  if (document.is_discarded() || !document.contains("error")) return "ok";
  return document["error"]["code"];
}

const std::string kBox = "[[241.95,188.91,284.88,235.17]]";

class Service : public ::testing::Test {
 protected:
  // The deadline as the service knows it; the HTTP server keeps its own.
  explicit Service(milliseconds deadline = milliseconds(120'000))
      : service_([&] {
          GazeServerOptions options;
          options.request_deadline = deadline;
          return options;
        }()) {}
  void Start() {
    auto server = ListenOn(0, {}, service_.Callbacks());
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    service_.SetServer(server_.get());
  }
  void Open(int max_queue = 32) {
    GazeEngineOptions options;
    options.max_queue = max_queue;
    options.cache_folder = cache_.path();
    auto engine = GazeEngine::Open(*OpenGazeWeights({.toy = true}), options);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    service_.SetEngine(*engine_);
  }
  void TearDown() override {
    service_.Drain();
    server_->Stop(milliseconds(60'000));
    service_.SetServer(nullptr);
    service_.FinishWork();
    engine_.reset();
  }
  Answer Ask(const std::string& request) {
    Client client(server_->port());
    client.Send(request);
    return client.Read(std::chrono::minutes(5));
  }

  TemporaryFolder cache_;
  GazeService service_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<GazeEngine> engine_;
};

TEST_F(Service, SaysThatItStartsUntilThereIsAnEngine) {
  Start();
  EXPECT_EQ(Ask(Get("/health")).body, R"({"status":"starting","model":"gaze-lle","device":""})");
  for (const std::string& request : {Post("{}"), Get("/info")}) {
    const Answer answer = Ask(request);
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(CodeOf(answer), "starting");
    EXPECT_EQ(answer.headers.at("retry-after"), "2");
  }
  EXPECT_EQ(Ask(Get("/v1/models")).status, 200);
  EXPECT_THAT(Ask(Get("/metrics")).body, HasSubstr("sightline_ready 0\n"));
  Open();
  EXPECT_THAT(Ask(Get("/health")).body, HasSubstr(R"("status":"ok")"));
  EXPECT_THAT(Ask(Get("/metrics")).body, HasSubstr("sightline_ready 1\n"));
}

TEST_F(Service, AnswersSeveralClientsAtOnceAndDropsThoseThatLeave) {
  Start();
  Open();
  const std::string request = Post(Body("sample_00.png", kBox));
  std::atomic<int> right{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      const Answer answer = Ask(request);
      const auto document = nlohmann::json::parse(answer.body);
      right += answer.status == 200 && document["predictions"][0]["gaze_target"]["heatmap_row"] == 22;
    });
    clients.emplace_back([&] { Client(server_->port()).Send(request); });
    clients.emplace_back([&] { right += Ask(Get("/metrics")).status == 200; });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 6);
  // The places of those who left come back too.
  for (int i = 0; i < 1000 && engine_->load().admitted > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(engine_->load().admitted, 0);
}

TEST_F(Service, DrainingEndsWhatWaits) {
  Start();
  Open();
  const std::string request = Post(Body("sample_00.png", kBox));
  std::atomic<int> answered{0}, refused{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back([&] {
      const Answer answer = Ask(request);
      answered += answer.status == 200;
      refused += answer.status == 503 && CodeOf(answer) == "draining" && answer.headers.contains("retry-after");
    });
  }
  while (engine_->load().admitted < 5) std::this_thread::sleep_for(milliseconds(1));
  service_.Drain();
  server_->Stop(milliseconds(300'000));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered + refused, 5);
  EXPECT_GE(refused, 1);
}

TEST_F(Service, RoutesRefuseBeforeTheBody) {
  Start();
  Open(/*max_queue=*/0);
  EXPECT_EQ(CodeOf(Ask("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")), "busy");
  EXPECT_EQ(CodeOf(Ask("POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")), "method_not_allowed");
  EXPECT_EQ(CodeOf(Ask("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")), "not_found");
  const Answer form = Ask("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(form.status, 400);
  EXPECT_EQ(CodeOf(form), "unsupported_media_type");
}

// vllm #10931, #43473: the device hung and health went on saying that all was well.
class ImpatientService : public Service {
 protected:
  ImpatientService() : Service(milliseconds(1)) {}
};

TEST_F(ImpatientService, SaysWhenTheDeviceDoesNotComeBack) {
  Start();
  Open();
  std::string boxes = "[[1,1,50,50]";
  for (int i = 1; i < 10; ++i) boxes += ",[1,1,50,50]";
  std::thread client([&] { EXPECT_EQ(Ask(Post(Body("sample_00.png", boxes + "]"))).status, 200); });
  std::string health;
  while (health.find("stalled") == std::string::npos) health = Ask(Get("/health")).body;
  client.join();
  // The answer may be there before the device's thread has put everything away.
  while (health.find(R"("status":"ok")") == std::string::npos) health = Ask(Get("/health")).body;
}

// From the first signal handler to the exit code, in this process.
TEST(Serve, ListensLoadsAnswersAndDrains) {
  int port = 0;
  {
    auto probe =
        ListenOn(0, {}, {.handler = [](auto, auto) {}, .format_error = [](auto&, auto&) { return HttpResponse{}; }});
    ASSERT_TRUE(probe);
    port = (*probe)->port();
  }
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &mask, &before);  // for the thread below
  std::string health;
  std::thread client([&] {
    while (health.find("\"ok\"") == std::string::npos) {
      std::this_thread::sleep_for(milliseconds(10));
      health = testing::Ask(port, Get("/health")).body;
    }
    kill(getpid(), SIGTERM);
  });
  TemporaryFolder cache;
  GazeServerOptions options;
  options.port = port;
  options.weights.toy = true;
  options.engine.cache_folder = cache.path();
  EXPECT_EQ(ServeGazeLle(options), 0);
  client.join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Serve, TakenPortNamesItsOwner) {
  const HttpCallbacks callbacks{.handler = [](auto, auto) {},
                                .format_error = [](auto&, auto&) { return HttpResponse{}; }};
  auto first = ListenOn(0, {}, callbacks);
  ASSERT_TRUE(first);
  auto second = ListenOn((*first)->port(), {}, callbacks);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("is taken by process " + std::to_string(getpid()) + " (server_test)"));
  auto next = ListenOn(std::nullopt, {}, callbacks);
  ASSERT_TRUE(next);
  EXPECT_GE((*next)->port(), 20'000);
}

TEST(Serve, MissingWeightsAreTheExitCode) {
  GazeServerOptions options;
  options.port = 0;
  options.weights.folder = "/no/such/folder";
  EXPECT_EQ(ServeGazeLle(options), Describe(Code::kNotFound).exit_code);
}

TEST(WorkerPool, RunsEverythingBeforeItEnds) {
  std::atomic<int> done{0};
  {
    WorkerPool pool(2);
    for (int i = 0; i < 100; ++i) {
      pool.Post([&pool, &done] {
        ++done;
        if (done < 100) pool.Post([&done] { ++done; });
      });
    }
    pool.WaitUntilIdle();
    EXPECT_GE(done, 100);
    pool.Post([&done] { done = -1; });
  }
  EXPECT_EQ(done, -1);
}

}  // namespace
}  // namespace sightline
