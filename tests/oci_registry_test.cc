// Registries: one of our own making that asks for tokens, and the real docker-registry of Debian.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "oci/oci.h"
#include "tests/support/cutting_proxy.h"
#include "tests/support/temporary_folder.h"

extern char** environ;

namespace sightline {
namespace {

using std::chrono::milliseconds;
using testing::CuttingProxy;
using ::testing::HasSubstr;

std::string ReadText(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string DigestOf(const std::string& content) { return "sha256:" + Sha256Hex(AsBytes(content)); }

OciReference Reference(int port, const std::string& repository = "team/gaze", const std::string& tag = "1.0") {
  return {"127.0.0.1:" + std::to_string(port), repository, tag, ""};
}

// ---------------------------------------------------------------------------------------------------------------------

// Answers as `handler_` says and remembers what was asked.
class FakeRegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpCallbacks callbacks;
    callbacks.handler = [this](std::shared_ptr<HttpRequest> request, HttpReply reply) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(request->method + " " + request->target + " " + std::string(request->Header("Authorization")));
      reply(handler_(*request));
    };
    callbacks.format_error = [](const Error&, const HttpRequest&) { return HttpResponse{.status = 400}; };
    auto server = HttpServer::Start({}, callbacks);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    options_.attempts = 3;
  }
  std::string Realm() const { return "http://127.0.0.1:" + std::to_string(server_->port()) + "/token"; }
  RegistryClient Client() { return {Reference(server_->port()), options_}; }
  // One request, whichever.
  Status Ask() {
    return Client().GetManifest("1.0").map([](const auto&) {});
  }
  std::vector<std::string> Asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  TemporaryFolder folder_;
  RegistryOptions options_;
  std::function<HttpResponse(const HttpRequest&)> handler_ = [](const HttpRequest&) { return HttpResponse{}; };
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::unique_ptr<HttpServer> server_;
};

HttpResponse Challenge(const std::string& challenge) {
  return HttpResponse{.status = 401, .headers = {{"WWW-Authenticate", challenge}}};
}

TEST_F(FakeRegistryTest, TokensAreFetchedAndKept) {
  options_.credentials = RegistryCredentials{"me", "secret"};
  handler_ = [this](const HttpRequest& request) {
    if (request.path == "/token") {
      if (request.Header("Authorization") != "Basic bWU6c2VjcmV0") return HttpResponse{.status = 401};
      return HttpResponse{.body = R"({"token":"T1"})"};
    }
    if (request.Header("Authorization") == "Bearer T1") return HttpResponse{.body = "{}"};
    return Challenge("Bearer realm=\"" + Realm() + "\",service=\"reg\",scope=\"repository:team/gaze:pull,push\"");
  };
  RegistryClient client = Client();
  ASSERT_TRUE(client.GetManifest("1.0"));
  ASSERT_TRUE(client.GetManifest("1.0"));
  const auto asked = Asked();
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[0], "GET /v2/team/gaze/manifests/1.0 ");
  EXPECT_EQ(asked[1], "GET /token?service=reg&scope=repository:team/gaze:pull,push Basic bWU6c2VjcmV0");
  EXPECT_EQ(asked[3], "GET /v2/team/gaze/manifests/1.0 Bearer T1");
}

TEST_F(FakeRegistryTest, BasicPasswordsAreSentWhenAskedFor) {
  options_.credentials = RegistryCredentials{"me", "secret"};
  handler_ = [](const HttpRequest& request) {
    const bool known = request.Header("Authorization") == "Basic bWU6c2VjcmV0";
    return known ? HttpResponse{} : Challenge("Negotiate, Basic realm=\"x\"");
  };
  EXPECT_TRUE(Ask());
}

TEST_F(FakeRegistryTest, RefusalsSayWhatToDo) {
  handler_ = [](const HttpRequest&) { return Challenge("Basic realm=\"x\""); };
  Status ping = Ask();
  EXPECT_EQ(ping.error().code, Code::kNoPermission);
  EXPECT_THAT(ping.error().message,
              HasSubstr("asks for a password and none is known; log in with docker login 127.0.0.1"));
  options_.credentials = RegistryCredentials{"me", "secret"};
  ping = Ask();
  EXPECT_EQ(ping.error().code, Code::kNoPermission);
  EXPECT_EQ(ping.error().message.find("secret"), std::string::npos);
  for (const char* challenge :
       {"", "Bearer", "Bearer realm=", "Bearer realm=\"", "Digest a=b", ",,,", "=\"", "Bearer realm=\"file:///etc\""}) {
    handler_ = [challenge](const HttpRequest&) { return Challenge(challenge); };
    EXPECT_EQ(Ask().error().code, Code::kNoPermission) << challenge;
  }
}

// Whatever the URL looks like: what counts is where a request would go.
TEST_F(FakeRegistryTest, PasswordsAreNotSentInTheOpen) {
  options_.credentials = RegistryCredentials{"me", "secret"};
  for (const char* realm :
       {"http://evil.example/token", "HTTP://evil.example/token", "http://localhost:x@evil.example/token",
        "http://127.evil.example/token", "http://127.0.0.1.evil.example/", "http://[::1].evil.example/token"}) {
    handler_ = [realm](const HttpRequest&) { return Challenge(fmt::format("Bearer realm=\"{}\"", realm)); };
    const Status asked = Ask();
    EXPECT_EQ(asked.error().code, Code::kNoPermission) << realm;
    EXPECT_THAT(asked.error().message, HasSubstr("for a token, expected an https URL")) << realm;
  }
}

TEST_F(FakeRegistryTest, BusyRegistriesAreAskedAgain) {
  int left = 2;
  handler_ = [&left](const HttpRequest&) {
    return left-- > 0 ? HttpResponse{.status = left == 1 ? 429 : 503, .headers = {{"Retry-After", "0"}}}
                      : HttpResponse{};
  };
  EXPECT_TRUE(Ask());
  handler_ = [](const HttpRequest&) {
    return HttpResponse{
        .status = 429, .headers = {{"Retry-After", "0"}}, .body = R"({"errors":[{"message":"too many"}]})"};
  };
  const auto ping = Ask();
  EXPECT_EQ(ping.error().code, Code::kBusy);
  EXPECT_THAT(ping.error().message, HasSubstr("status 429: too many"));
}

TEST_F(FakeRegistryTest, WrongBytesNeverBecomeVisible) {
  const std::string content = "the right bytes";
  const OciDescriptor blob{"x", DigestOf(content), content.size()};
  const auto file = folder_.path() / "blob";
  for (const std::string& answer : {std::string("the wrong bytes"), content + "x", content.substr(1), std::string()}) {
    handler_ = [&answer](const HttpRequest&) { return HttpResponse{.body = answer}; };
    const auto got = Client().GetBlob(blob, file);
    ASSERT_FALSE(got) << answer;
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  handler_ = [&content](const HttpRequest&) { return HttpResponse{.body = content}; };
  ASSERT_TRUE(Client().GetBlob(blob, file));
  EXPECT_EQ(ReadText(file), content);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "blob.part"));
}

TEST_F(FakeRegistryTest, ServersWithoutRangesStartAnew) {
  const std::string content(5000, 'z');
  const OciDescriptor blob{"x", DigestOf(content), content.size()};
  const auto file = folder_.path() / "blob";
  std::ofstream(folder_.path() / "blob.part") << "leftover";
  handler_ = [&content](const HttpRequest&) { return HttpResponse{.body = content}; };
  ASSERT_TRUE(Client().GetBlob(blob, file));
  EXPECT_EQ(ReadText(file), content);
}

// 416 again and again: each answer would begin the blob anew.
TEST_F(FakeRegistryTest, AServerThatNeverEndsABlobIsLeft) {
  const std::string content(5000, 'z');
  const OciDescriptor blob{"x", DigestOf(content), content.size()};
  std::ofstream(folder_.path() / "blob.part") << "leftover";
  handler_ = [](const HttpRequest& request) {
    if (request.Header("Range").empty()) return HttpResponse{.body = "zz"};
    return HttpResponse{.status = 416};
  };
  EXPECT_FALSE(Client().GetBlob(blob, folder_.path() / "blob"));
  EXPECT_LT(Asked().size(), 20u);
}

TEST_F(FakeRegistryTest, ARegistryThatTakesNothingIsLeft) {
  const std::string content(4000, 'z');
  const auto file = folder_.path() / "file";
  std::ofstream(file) << content;
  options_.chunk_bytes = 1000;
  for (const char* range : {"0-0", "0-4", "0-99999"}) {
    bool first = true;
    handler_ = [&](const HttpRequest& request) {
      if (request.method == "HEAD") return HttpResponse{.status = 404};
      // Once some of it arrives, then never again.
      const std::string stands = std::exchange(first, false) ? "0-4" : range;
      return HttpResponse{.status = 202, .headers = {{"Location", "/upload"}, {"Range", stands}}};
    };
    const Status put = Client().PutBlob({"x", DigestOf(content), content.size()}, file);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::kUnreachable) << put.error().message;
    EXPECT_THAT(put.error().message, HasSubstr("of an upload after"));
  }
  EXPECT_LT(Asked().size(), 60u);
}

TEST_F(FakeRegistryTest, WhatTheRegistryHasIsNotRead) {
  handler_ = [](const HttpRequest&) { return HttpResponse{}; };
  const OciDescriptor blob{"x", DigestOf("content"), 7};
  EXPECT_TRUE(Client().PutBlob(blob, folder_.path() / "absent"));
  handler_ = [](const HttpRequest&) { return HttpResponse{.status = 404}; };
  EXPECT_EQ(Client().PutBlob(blob, folder_.path() / "absent").error().code, Code::kNotFound);
}

TEST_F(FakeRegistryTest, ManifestsAreChecked) {
  handler_ = [](const HttpRequest&) {
    return HttpResponse{.headers = {{"Docker-Content-Digest", DigestOf("other")}}, .body = "{}"};
  };
  EXPECT_EQ(Client().GetManifest("1.0").error().code, Code::kCorruptWeights);
  handler_ = [](const HttpRequest&) { return HttpResponse{.body = "{}"}; };
  EXPECT_TRUE(Client().GetManifest("1.0"));
  EXPECT_EQ(Client().GetManifest(DigestOf("x")).error().code, Code::kCorruptWeights);
  handler_ = [](const HttpRequest&) { return HttpResponse{.status = 404}; };
  EXPECT_FALSE(Client().FindManifest("1.0")->has_value());
  EXPECT_EQ(Client().GetManifest("1.0").error().code, Code::kNotFound);
}

// The names in a manifest are the registry's, not ours.
TEST_F(FakeRegistryTest, NamesThatLeadOutAreRefused) {
  const std::string content = "x";
  for (const char* name : {"../escaped", "/escaped", "a/../../escaped", "", ".", "a\\nb"}) {
    const std::string manifest = R"({"schemaVersion":2,"config":{"mediaType":"x","digest":")" + DigestOf("{}") +
                                 R"(","size":2},"layers":[{"mediaType":"x","digest":")" + DigestOf(content) +
                                 R"(","size":1,"annotations":{"org.opencontainers.image.title":")" + name + R"("}}]})";
    handler_ = [&](const HttpRequest& request) {
      return HttpResponse{.body = request.path.find("/manifests/") != std::string::npos ? manifest : content};
    };
    const auto pulled = PullFolder(Reference(server_->port()), folder_.path() / "in/side", {}, options_);
    ASSERT_FALSE(pulled) << name;
    EXPECT_EQ(pulled.error().code, Code::kInvalidRequest);
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "in"));
  }
}

// ---------------------------------------------------------------------------------------------------------------------

// Debian's docker-registry on a loopback port, for the length of a test.
class RealRegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("docker-registry --version > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "docker-registry is not installed";
    for (int attempt = 0; attempt < 5 && port_ == 0; ++attempt) Start();
    ASSERT_NE(port_, 0) << "docker-registry did not start: " << ReadText(path("log"));
    std::filesystem::create_directories(path("package/image"));
    std::ofstream(path("package/README.md")) << "# gaze";
    std::ofstream(path("package/empty")) << "";
    std::ofstream(path("package/image/weights")) << big_;
    options_.chunk_bytes = 1 << 20;
  }
  void TearDown() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  void Start() {
    int port = 0;
    { port = CuttingProxy(1, 0).port(); }  // free a moment ago
    std::ofstream(path("config.yml")) << "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: "
                                      << path("store").string()
                                      << "}, delete: {enabled: true}}\nhttp: {addr: 127.0.0.1:" << port << "}\n";
    const std::string command =
        "exec docker-registry serve " + path("config.yml").string() + " > " + path("log").string() + " 2>&1";
    std::string shell = "sh", flag = "-c", script = command;
    char* arguments[] = {shell.data(), flag.data(), script.data(), nullptr};
    ASSERT_EQ(::posix_spawnp(&pid_, "sh", nullptr, nullptr, arguments, environ), 0);
    RegistryOptions quick;
    quick.attempts = 1;
    for (int i = 0; i < 200; ++i) {
      if (RegistryClient(Reference(port), quick).HasBlob(DigestOf(""))) {
        port_ = port;
        return;
      }
      std::this_thread::sleep_for(milliseconds(50));
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) break;
    }
    pid_ = -1;
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  static std::string Noise(size_t size) {
    std::string noise(size, '\0');
    uint32_t state = 1;
    for (char& c : noise) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
    return noise;
  }

  TemporaryFolder folder_;
  RegistryOptions options_;
  pid_t pid_ = -1;
  int port_ = 0;
  const std::string big_ = Noise(5'000'000);
};

TEST_F(RealRegistryTest, FoldersComeBackAsTheyWere) {
  for (const uint64_t chunk : {uint64_t{0}, uint64_t{1} << 20}) {
    options_.chunk_bytes = chunk;
    const OciReference reference = Reference(port_, "team/gaze" + std::to_string(chunk));
    uint64_t last = 0, total = 0;
    options_.transfer.progress = [&](uint64_t done, uint64_t all) {
      EXPECT_GE(done, last);
      last = done;
      total = all;
    };
    const auto pushed = PushFolder(path("package"), reference, {}, "application/vnd.sightline.package.v1",
                                   {{"name", "gaze"}}, options_);
    ASSERT_TRUE(pushed) << pushed.error().message;
    EXPECT_EQ(total, big_.size() + 6 + 2);  // and the config
    EXPECT_EQ(last, total);
    options_.transfer.progress = {};
    EXPECT_EQ(*PushFolder(path("package"), reference, {}, "application/vnd.sightline.package.v1", {{"name", "gaze"}},
                          options_),
              *pushed);
    const auto folder = path("back" + std::to_string(chunk));
    const auto pulled = PullFolder(reference, folder, {}, options_);
    ASSERT_TRUE(pulled) << pulled.error().message;
    EXPECT_EQ(pulled->digest, *pushed);
    EXPECT_EQ(pulled->artifact_type, "application/vnd.sightline.package.v1");
    EXPECT_EQ(pulled->annotations.at("name"), "gaze");
    EXPECT_EQ(ReadText(folder / "README.md"), "# gaze");
    EXPECT_EQ(ReadText(folder / "image/weights"), big_);
    EXPECT_EQ(std::filesystem::file_size(folder / "empty"), 0u);
  }
}

TEST_F(RealRegistryTest, OnlyWhatIsWantedGoes) {
  const FileChoice wanted = [](std::string_view name) { return name != "image/weights"; };
  ASSERT_TRUE(PushFolder(path("package"), Reference(port_), wanted, "a/b", {}, options_));
  ASSERT_TRUE(PullFolder(Reference(port_), path("back"), {}, options_));
  EXPECT_TRUE(std::filesystem::exists(path("back/README.md")));
  EXPECT_FALSE(std::filesystem::exists(path("back/image")));
}

TEST_F(RealRegistryTest, OnlyWhatIsWantedComes) {
  ASSERT_TRUE(PushFolder(path("package"), Reference(port_), {}, "a/b", {}, options_));
  ASSERT_TRUE(PullFolder(
      Reference(port_), path("back"), [](std::string_view name) { return name == "README.md"; }, options_));
  EXPECT_TRUE(std::filesystem::exists(path("back/README.md")));
  EXPECT_FALSE(std::filesystem::exists(path("back/image")));
}

TEST_F(RealRegistryTest, DownloadsGoOnAfterEachCut) {
  ASSERT_TRUE(PushFolder(path("package"), Reference(port_), {}, "a/b", {}, options_));
  const OciDescriptor blob{"x", DigestOf(big_), big_.size()};
  CuttingProxy proxy(port_, big_.size() / 10);
  const auto got = RegistryClient(Reference(proxy.port()), options_).GetBlob(blob, path("weights"));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(ReadText(path("weights")), big_);
  EXPECT_GE(proxy.cuts(), 9);
}

TEST_F(RealRegistryTest, AnEarlierPartIsUsed) {
  ASSERT_TRUE(PushFolder(path("package"), Reference(port_), {}, "a/b", {}, options_));
  const OciDescriptor blob{"x", DigestOf(big_), big_.size()};
  RegistryClient client(Reference(port_), options_);
  // Damage in the part is found at the end; the next try begins anew.
  std::ofstream(path("weights.part")) << std::string(1'000'000, 'x');
  EXPECT_EQ(client.GetBlob(blob, path("weights")).error().code, Code::kCorruptWeights);
  EXPECT_FALSE(std::filesystem::exists(path("weights")));
  uint64_t first = 0;
  options_.transfer.progress = [&first](uint64_t done, uint64_t) { first = first == 0 ? done : first; };
  std::ofstream(path("weights.part")) << big_.substr(0, 4'000'000);
  ASSERT_TRUE(RegistryClient(Reference(port_), options_).GetBlob(blob, path("weights")));
  EXPECT_GT(first, 4'000'000u);
  EXPECT_EQ(ReadText(path("weights")), big_);
}

TEST_F(RealRegistryTest, TwoPullsAtOnceShareTheWork) {
  ASSERT_TRUE(PushFolder(path("package"), Reference(port_), {}, "a/b", {}, options_));
  const auto pull = [this] { EXPECT_TRUE(PullFolder(Reference(port_), path("back"), {}, options_)); };
  std::jthread one(pull), two(pull);
  one.join();
  two.join();
  EXPECT_EQ(ReadText(path("back/image/weights")), big_);
  EXPECT_FALSE(std::filesystem::exists(path("back/image/weights.part")));
}

TEST_F(RealRegistryTest, WhatIsMissingIsNamed) {
  const auto pulled = PullFolder(Reference(port_, "nobody/nothing"), path("back"), {}, options_);
  ASSERT_FALSE(pulled);
  EXPECT_EQ(pulled.error().code, Code::kNotFound);
  EXPECT_THAT(pulled.error().message, HasSubstr("nobody/nothing: cannot get 1.0 (status 404"));
}

}  // namespace
}  // namespace sightline
