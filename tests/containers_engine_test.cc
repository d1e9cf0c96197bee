// The engine against a program that writes down how it was called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "containers/containers.h"
#include "tests/support/fake_program.h"

namespace sightline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ContainerEngine Docker() {
  EngineOptions options;
  options.program = "docker";
  auto engine = ContainerEngine::Find(options);
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

// Without the call that asks what `docker` is.
std::vector<std::string> CallsOf(const FakeProgram& fake) {
  std::vector<std::string> calls = fake.Calls();
  std::erase(calls, "docker|--version");
  return calls;
}

TEST(EngineChoiceTest, DockerComesFirstWhenItsDaemonAnswers) {
  FakeProgram fake("docker");
  fake.Add("podman");
  fake.Answer("echo 25.0.3");
  EXPECT_EQ(ContainerEngine::Find({})->program(), "docker");
}

TEST(EngineChoiceTest, PodmanStandsInForADockerWithoutDaemon) {
  FakeProgram fake("docker");
  fake.Add("podman");
  fake.Answer(R"(case "$1" in version) echo 'Cannot connect to the Docker daemon' >&2; exit 1;; esac)");
  const auto engine = ContainerEngine::Find({});
  EXPECT_EQ(engine->program(), "podman");
  EXPECT_EQ(engine->kind(), EngineKind::kPodman);
}

TEST(EngineChoiceTest, PodmanUnderAnotherNameIsRecognised) {
  FakeProgram fake("docker");
  fake.Answer("echo podman version 4.9.3");
  EXPECT_EQ(Docker().kind(), EngineKind::kPodman);
}

TEST(EngineChoiceTest, NothingInstalledSaysWhatToInstall) {
  const FakeProgram fake("something");
  const auto engine = ContainerEngine::Find({});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::kNotFound);
  EXPECT_THAT(engine.error().message, AllOf(HasSubstr("docker nor podman"), HasSubstr("group docker")));
  EngineOptions options;
  options.program = "nerdctl";
  EXPECT_THAT(ContainerEngine::Find(options).error().message, HasSubstr("no program nerdctl"));
}

TEST(EngineChoiceTest, EnvironmentIsSplitAsAShellDoes) {
  const ScopedVariable engine("SIGHTLINE_CONTAINER_ENGINE", "podman --log-level debug");
  const ScopedVariable arguments("SIGHTLINE_CONTAINER_ARGS", "  --runtime runc ");
  const ScopedVariable run("SIGHTLINE_CONTAINER_RUN_ARGS", R"(--ulimit 'a b' "c\"d" e\ f '' )");
  const auto options = EngineOptionsFromEnvironment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->program, "podman");
  EXPECT_THAT(options->arguments, ElementsAre("--log-level", "debug", "--runtime", "runc"));
  EXPECT_THAT(options->run_arguments, ElementsAre("--ulimit", "a b", "c\"d", "e f", ""));
  const ScopedVariable open("SIGHTLINE_CONTAINER_RUN_ARGS", "--label 'x");
  EXPECT_EQ(EngineOptionsFromEnvironment().error().code, Code::kUsage);
}

TEST(EngineTest, OwnArgumentsStandWhereTheEngineTakesThem) {
  FakeProgram fake("docker");
  EngineOptions options;
  options.program = "docker";
  options.arguments = {"--runtime", "runc"};
  options.run_arguments = {"--ulimit", "nofile=9:9"};
  const auto engine = ContainerEngine::Find(options);
  ASSERT_TRUE(engine->Run({"--detach", "--name", "n", "image", "x y"}));
  ASSERT_TRUE(engine->Run({"--rm", "image"}));
  EXPECT_THAT(CallsOf(fake), ElementsAre("docker|--runtime|runc|run|--detach|--ulimit|nofile=9:9|--name|n|image|x y",
                                         "docker|--runtime|runc|run|--ulimit|nofile=9:9|--rm|image"));
}

TEST(EngineTest, AsksForVersionAndRootlessness) {
  FakeProgram fake("docker");
  fake.Answer(R"(case "$1" in version) echo 27.1.0;; info) echo '[name=seccomp name=rootless]';; esac)");
  const auto engine = Docker();
  EXPECT_EQ(*engine.ServerVersion(), "27.1.0");
  EXPECT_TRUE(*engine.IsRootless());
  EXPECT_THAT(CallsOf(fake),
              ElementsAre("docker|version|--format|{{.Server.Version}}", "docker|info|--format|{{.SecurityOptions}}"));
}

TEST(EngineTest, ListsByLabel) {
  FakeProgram fake("docker");
  fake.Answer(R"(printf 'a\timage:1\tUp 2 minutes\t0.0.0.0:20000->20000/tcp\nb\timage:2\tExited (1)\t\n')");
  const auto rows = Docker().List(std::string(kPackageLabel), true);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].ports, "0.0.0.0:20000->20000/tcp");
  EXPECT_EQ((*rows)[1].name, "b");
  EXPECT_EQ((*rows)[1].status, "Exited (1)");
  EXPECT_THAT(CallsOf(fake), ElementsAre("docker|ps|--all|--filter|label=org.tenstorrent.tt-model|--format|"
                                         "{{.Names}}\t{{.Image}}\t{{.Status}}\t{{.Ports}}"));
}

constexpr const char* kInspect = R"([{"Id":"0123456789abcdef","Name":"/tt-model-x-p300","State":{"Running":true,
  "StartedAt":"2026-09-30T14:00:00.123456789+02:00","ExitCode":0},"Config":{"Image":"tt-model/x:1","Labels":{"org.tenstorrent.tt-model.devices":"0,1"}},
  "HostConfig":{"IpcMode":"host","Privileged":false,"Devices":[{"PathOnHost":"/dev/tenstorrent/0"}]},
  "Mounts":[{"Source":"/dev/hugepages-1G"}]}])";

TEST(EngineTest, ReadsWhatInspectSays) {
  FakeProgram fake("docker");
  std::ofstream(fake.folder() / "inspect.json") << kInspect;
  fake.Answer("cat inspect.json");
  const auto state = Docker().Inspect("tt-model-x-p300");
  ASSERT_TRUE(state && *state);
  EXPECT_TRUE((*state)->running);
  EXPECT_EQ((*state)->started, 1'790'769'600);
  EXPECT_EQ((*state)->image, "tt-model/x:1");
  EXPECT_EQ((*state)->ipc_mode, "host");
  EXPECT_THAT((*state)->device_paths, ElementsAre("/dev/tenstorrent/0"));
  EXPECT_THAT((*state)->mount_sources, ElementsAre("/dev/hugepages-1G"));
  EXPECT_EQ((*state)->labels.at("org.tenstorrent.tt-model.devices"), "0,1");
}

TEST(EngineTest, KnowsSinceWhenAContainerRuns) {
  FakeProgram fake("docker");
  fake.Answer("cat inspect.json");
  const std::pair<const char*, std::optional<int64_t>> times[] = {{"2026-09-30T12:00:00Z", 1'790'769'600},
                                                                  {"2026-09-30T12:00:00.5Z", 1'790'769'600},
                                                                  {"2026-09-30T06:30:00-05:30", 1'790'769'600},
                                                                  {"0001-01-01T00:00:00Z", std::nullopt},
                                                                  {"yesterday", std::nullopt},
                                                                  {"", std::nullopt}};
  for (const auto& [text, seconds] : times) {
    std::ofstream(fake.folder() / "inspect.json")
        << R"([{"Id":"1","Name":"/x","State":{"Running":true,"StartedAt":")" << text << R"("}}])";
    EXPECT_EQ(Docker().Inspect("x").value()->started, seconds) << text;
  }
}

// Case 47: engines complete the beginning of an id, and filters match the beginning of a name.
TEST(EngineTest, AnotherNameIsAnotherContainer) {
  FakeProgram fake("docker");
  std::ofstream(fake.folder() / "inspect.json") << kInspect;
  fake.Answer("cat inspect.json");
  EXPECT_FALSE(Docker().Inspect("tt-model-x-p300x2")->has_value());
  EXPECT_FALSE(Docker().Inspect("01234")->has_value());
}

TEST(EngineTest, AbsentThingsAreNoErrors) {
  FakeProgram fake("docker");
  fake.Answer("echo 'Error: No such object: x' >&2; exit 1");
  const auto engine = Docker();
  EXPECT_FALSE(engine.Inspect("x")->has_value());
  EXPECT_FALSE(*engine.Exists("x"));
  EXPECT_FALSE(*engine.IsRunning("x"));
  EXPECT_FALSE(engine.ExitCode("x").has_value());
  EXPECT_FALSE(engine.ImageId("x")->has_value());
}

TEST(EngineTest, ASilentDaemonIsAnError) {
  FakeProgram fake("docker");
  fake.Answer("echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1");
  const auto running = Docker().IsRunning("x");
  ASSERT_FALSE(running);
  EXPECT_EQ(running.error().code, Code::kUnreachable);
  EXPECT_THAT(running.error().message, HasSubstr("docker inspect: its daemon does not answer; start it"));
}

TEST(EngineTest, InspectsAllThatRuns) {
  FakeProgram fake("docker");
  std::ofstream(fake.folder() / "inspect.json") << kInspect;
  fake.Answer(R"(case "$1" in ps) printf 'aa\nbb\n';; inspect) cat inspect.json;; esac)");
  EXPECT_EQ(Docker().InspectRunning()->size(), 1u);
  EXPECT_THAT(CallsOf(fake), ElementsAre("docker|ps|-q", "docker|inspect|aa|bb"));
  fake.Answer("exit 0");
  EXPECT_THAT(*Docker().InspectRunning(), IsEmpty());
}

TEST(EngineTest, BrokenJsonIsAnError) {
  FakeProgram fake("docker");
  for (const char* json : {"", "{", "{}", "[", "[1]", R"([{"Id":5,"Config":[],"Mounts":{}}])", "[[[[[[[[[["}) {
    std::ofstream(fake.folder() / "inspect.json") << json;
    fake.Answer(R"(case "$1" in ps) echo a;; inspect) cat inspect.json;; esac)");
    const auto states = Docker().InspectRunning();
    EXPECT_TRUE(!states || states->size() == 1 || std::string_view(json) == "[]") << json;
  }
}

TEST(EngineTest, ImagesAreAskedForAsTtModelDoes) {
  FakeProgram fake("docker");
  fake.Answer(R"(case "$4" in {{.Id}}) echo sha256:1234;; {{.Size}}) echo 9876543210;; esac)");
  const auto engine = Docker();
  EXPECT_EQ(**engine.ImageId("tt-model/x:1"), "sha256:1234");
  EXPECT_EQ(*engine.ImageBytes("tt-model/x:1"), 9876543210u);
  ASSERT_TRUE(engine.Tag("a:1", "a:2"));
  ASSERT_TRUE(engine.RemoveImage("a:1"));
  ASSERT_TRUE(engine.Remove("c", true));
  ASSERT_TRUE(engine.Remove("c", false));
  ASSERT_TRUE(engine.Pull("registry/a:1", {}));
  EXPECT_THAT(CallsOf(fake),
              ElementsAre("docker|image|inspect|--format|{{.Id}}|tt-model/x:1",
                          "docker|image|inspect|--format|{{.Size}}|tt-model/x:1", "docker|tag|a:1|a:2",
                          "docker|image|rm|a:1", "docker|rm|--force|c", "docker|rm|c", "docker|pull|registry/a:1"));
  EXPECT_THAT(engine.LogsCommand("c", true).arguments, ElementsAre("docker", "logs", "--follow", "c"));
}

TEST(EngineTest, BuildIsWrittenDown) {
  FakeProgram fake("docker");
  fake.Answer("echo step 1; echo failed to solve >&2; exit 1");
  std::vector<std::string> lines;
  const auto log = fake.folder() / "build.log";
  const auto built = Docker().Build({"--tag", "t", "."}, log, [&](std::string_view line) { lines.emplace_back(line); });
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().message, AllOf(HasSubstr("failed to solve"), HasSubstr(log.string())));
  EXPECT_THAT(lines, ElementsAre("step 1", "failed to solve"));
  EXPECT_EQ(fake.Read("build.log"), "+ docker build --tag t .\nstep 1\nfailed to solve\n");
}

TEST(EngineTest, BuildWhoseLogCannotBeWrittenIsNotBegun) {
  FakeProgram fake("docker");
  const auto built = Docker().Build({"."}, "/dev/full", {});
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().message, HasSubstr("/dev/full"));
  EXPECT_THAT(CallsOf(fake), IsEmpty());
}

Status Produce(ByteSink sink, size_t pieces) {
  const std::string piece(100'000, 'x');
  for (size_t i = 0; i < pieces; ++i) SIGHTLINE_RETURN_IF_ERROR(sink(AsBytes(piece)));
  return {};
}

TEST(EngineTest, LoadStreamsAnArchive) {
  FakeProgram fake("docker");
  fake.Answer("cat > loaded; echo 'Loaded image: tt-model/x:1'; echo 'Loaded image ID: sha256:12'");
  const auto loaded = Docker().Load([](ByteSink sink) { return Produce(sink, 30); });
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(*loaded, ElementsAre("tt-model/x:1", "sha256:12"));
  EXPECT_EQ(fake.Read("loaded").size(), 3'000'000u);
}

TEST(EngineTest, LoadTellsWhatTheEngineSaid) {
  FakeProgram fake("docker");
  fake.Answer("head -c 10 > /dev/null; echo 'write /blob: no space left on device' >&2; exit 1");
  const auto loaded = Docker().Load([](ByteSink sink) { return Produce(sink, 300); });
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kNoSpace);
  EXPECT_THAT(loaded.error().message, HasSubstr("docker load: the disk is full"));
}

TEST(EngineTest, LoadKeepsTheProducersError) {
  FakeProgram fake("docker");
  fake.Answer("case \"$1\" in load) cat > loaded; echo done > finished;; esac");
  const auto loaded = Docker().Load([](ByteSink sink) -> Status {
    SIGHTLINE_RETURN_IF_ERROR(Produce(sink, 1));
    return Fail(Code::kCorruptWeights, "blob: is not what it should be");
  });
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message, "blob: is not what it should be");
  EXPECT_FALSE(std::filesystem::exists(fake.folder() / "finished"));  // half an image was not loaded
}

Status Consume(ByteSource source, size_t* total, size_t most) {
  std::vector<std::byte> piece(65536);
  while (*total < most) {
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t count, source(piece));
    if (count == 0) return {};
    *total += count;
  }
  return {};
}

TEST(EngineTest, SaveStreamsAnArchive) {
  FakeProgram fake("docker");
  fake.Answer("head -c 3000000 /dev/zero");
  for (const size_t most : {size_t{10'000'000}, size_t{10}}) {
    size_t total = 0;
    ASSERT_TRUE(Docker().Save("x:1", [&](ByteSource source) { return Consume(source, &total, most); }));
    EXPECT_EQ(total >= 3'000'000u, most > 3'000'000u);
  }
  EXPECT_THAT(CallsOf(fake), Contains("docker|save|x:1"));
}

TEST(EngineTest, SaveTellsWhatTheEngineSaid) {
  FakeProgram fake("docker");
  fake.Answer("printf half; echo 'Error response from daemon: No such image: x:1' >&2; exit 1");
  size_t total = 0;
  const auto saved = Docker().Save("x:1", [&](ByteSource source) -> Status {
    SIGHTLINE_RETURN_IF_ERROR(Consume(source, &total, 1000));
    return Fail(Code::kInvalidRequest, "archive: ends too early");
  });
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::kNotFound);
  EXPECT_THAT(saved.error().message, HasSubstr("No such image: x:1"));
}

struct FailureCase {
  const char* said;
  Code code;
  const char* sentence;
};

// Sentences of the engines themselves, as podman 4.3, crun 1.8, runc 1.1 and docker 28 say them.
const FailureCase kFailures[] = {
    {"Error: runc: runc create failed: unable to start container process: error during container init: error setting "
     "rlimits for ready process: error setting rlimit type 7: operation not permitted: OCI permission denied",
     Code::kUnsupported, "SIGHTLINE_CONTAINER_RUN_ARGS=\"--ulimit nofile="},
    {"Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied", Code::kUnsupported,
     "does not grant the limits"},
    {"Error: OCI runtime error: crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2",
     Code::kUnsupported, "SIGHTLINE_CONTAINER_ARGS=\"--runtime runc\""},
    {"Error: default OCI runtime \"crun\" not found: invalid argument", Code::kUnsupported, "--runtime runc"},
    {"Error: could not find slirp4netns, the network namespace can't be configured: exec: \"slirp4netns\": executable "
     "file not found in $PATH",
     Code::kUnsupported, "SIGHTLINE_CONTAINER_RUN_ARGS=\"--network host\""},
    {"docker: Error response from daemon: driver failed programming external connectivity on endpoint x: Bind for "
     "0.0.0.0:20000 failed: port is already allocated.\nSee 'docker run --help'.",
     Code::kUnsupported, "(it said: docker: Error response from daemon: driver failed"},
    {"docker: Error response from daemon: Conflict. The container name \"/x\" is already in use by container \"1\".",
     Code::kBusy, "a container of this name exists already"},
    {"docker: Error response from daemon: error gathering device information while adding custom device "
     "\"/dev/tenstorrent/0\": no such file or directory.",
     Code::kDeviceLost, "a device that the container needs is not there"},
    {"exec /usr/bin/python: exec format error", Code::kUnsupported, "another processor"},
    {"Unable to find image 'x:1' locally\ndocker: Error response from daemon: pull access denied for x",
     Code::kNotFound, "the image is not there"},
    {"docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
     Code::kNoPermission, "usermod -aG docker"},
    {"docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /x",
     Code::kNotFound, "a folder that the container needs cannot be mounted"},
    {"something nobody has seen", Code::kInternal, "docker run: failed with exit code 125 (it said: something nobody"},
};

TEST(EngineTest, FailedRunsNameCauseAndRemedy) {
  FakeProgram fake("docker");
  fake.Answer("cat said >&2; exit 125");
  for (const FailureCase& failure : kFailures) {
    std::ofstream(fake.folder() / "said") << failure.said << "\n";
    const auto run = Docker().Run({"x"});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, failure.code) << failure.said;
    EXPECT_THAT(run.error().message, HasSubstr(failure.sentence));
    EXPECT_EQ(run.error().message.find('\n'), std::string::npos);
  }
}

// Case 62, the rule of section 1.9.
TEST(ImageIsCurrentTest, TruthTable) {
  EXPECT_FALSE(ImageIsCurrent({"", "", "", ""}));
  EXPECT_FALSE(ImageIsCurrent({"", "sha256:a", "sha256:a", "sha256:b"}));
  EXPECT_TRUE(ImageIsCurrent({"sha256:b", "", "", ""}));
  EXPECT_TRUE(ImageIsCurrent({"sha256:a", "sha256:a", "", ""}));
  EXPECT_FALSE(ImageIsCurrent({"sha256:b", "sha256:a", "", ""}));
  EXPECT_TRUE(ImageIsCurrent({"sha256:b", "sha256:a", "sha256:a", "sha256:b"}));
  EXPECT_FALSE(ImageIsCurrent({"sha256:b", "sha256:a", "sha256:a", "sha256:c"}));
  EXPECT_FALSE(ImageIsCurrent({"sha256:b", "sha256:a", "sha256:c", "sha256:b"}));
}

// ---------------------------------------------------------------------------------------------------------------------
// Case 46

class StopTest : public ::testing::Test {
 protected:
  // `label` as docker prints it, `code` as inspect does, `running` the containers that ps lists.
  void Answer(const std::string& label, const std::string& code, const std::string& running = "") {
    fake_.Answer(
        "case \"$1\" in\n"
        "inspect) case \"$3\" in *Running*) printf 'true\\t" +
        label + "\\n';; *ExitCode*) echo '" + code +
        "';; *) cat inspect.json;; esac;;\n"
        "ps) printf '" +
        running + "';;\nesac");
  }
  StopReport Stop() {
    const auto report = StopContainer(Docker(), "c", "image:1", std::chrono::seconds(120));
    EXPECT_TRUE(report) << report.error().message;
    return *report;
  }
  std::vector<std::string> Runs() const {
    std::vector<std::string> runs;
    for (const std::string& call : fake_.Calls()) {
      if (call.starts_with("docker|run|")) runs.push_back(call);
    }
    return runs;
  }
  FakeProgram fake_{"docker"};
};

TEST_F(StopTest, CleanEndNeedsNoReset) {
  Answer("0,1", "0");
  const StopReport report = Stop();
  EXPECT_TRUE(report.clean);
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.reset, ChipReset::kNotNeeded);
  EXPECT_THAT(fake_.Calls(), Contains("docker|stop|--timeout|120|c"));
  EXPECT_THAT(fake_.Calls(), Contains("docker|rm|c"));
  EXPECT_THAT(Runs(), IsEmpty());
}

TEST_F(StopTest, KilledServerHasItsChipsReset) {
  Answer("0,1", "137");
  const StopReport report = Stop();
  EXPECT_FALSE(report.clean);
  EXPECT_EQ(report.reset, ChipReset::kRan);
  EXPECT_THAT(Runs(), ElementsAre("docker|run|--rm|--device|/dev/tenstorrent/0:/dev/tenstorrent/0|--device|"
                                  "/dev/tenstorrent/1:/dev/tenstorrent/1|--mount|type=bind,src=/dev/hugepages-1G,"
                                  "dst=/dev/hugepages-1G|--entrypoint|tt-smi|image:1|-r|all"));
}

TEST_F(StopTest, UnclearLabelsMeanAllChips) {
  for (const char* label : {"0,garbage", "", "<no value>", "-1"}) {
    Answer(label, "137");
    EXPECT_EQ(Stop().reset, ChipReset::kRan);
    EXPECT_THAT(Runs().back(), HasSubstr("|--device|/dev/tenstorrent|--mount|")) << label;
  }
}

TEST_F(StopTest, UnreadableExitCodeCountsAsKilled) {
  Answer("0", "");
  EXPECT_EQ(Stop().reset, ChipReset::kRan);
}

TEST_F(StopTest, ContainerThatCannotBeInspectedIsStoppedAndRemoved) {
  fake_.Answer(R"(case "$1" in inspect) exit 1;; esac)");
  EXPECT_TRUE(Stop().was_running);
  EXPECT_THAT(fake_.Calls(), Contains("docker|stop|--timeout|120|c"));
  EXPECT_THAT(fake_.Calls(), Contains("docker|rm|c"));
}

TEST_F(StopTest, ChipsOfAnotherServerAreLeftAlone) {
  Answer("0,1", "137", "other\\n");
  std::ofstream(fake_.folder() / "inspect.json")
      << R"([{"Id":"other","Name":"/o","Config":{"Labels":{"org.tenstorrent.tt-model.devices":"1"}}}])";
  EXPECT_EQ(Stop().reset, ChipReset::kSkipped);
  EXPECT_THAT(Runs(), IsEmpty());
  std::ofstream(fake_.folder() / "inspect.json")
      << R"([{"Id":"other","Name":"/o","Config":{"Labels":{"org.tenstorrent.tt-model.devices":"2"}}}])";
  EXPECT_EQ(Stop().reset, ChipReset::kRan);
}

TEST_F(StopTest, FailedResetIsToldApart) {
  fake_.Answer(
      R"(case "$1" in inspect) case "$3" in *Running*) printf 'true\t0\n';; *) echo 137;; esac;; run) exit 1;; esac)");
  EXPECT_EQ(Stop().reset, ChipReset::kFailed);
}

TEST_F(StopTest, WithoutAnImageNothingIsReset) {
  Answer("0", "137");
  const auto report = StopContainer(Docker(), "c", "", std::chrono::seconds(120));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reset, ChipReset::kNotNeeded);
  EXPECT_THAT(Runs(), IsEmpty());
}

TEST_F(StopTest, OlderDockersCallTheFlagOtherwise) {
  fake_.Answer(
      R"(case "$1$2" in stop--timeout) echo 'unknown flag: --timeout' >&2; exit 125;; inspect*) echo 0;; esac)");
  EXPECT_TRUE(Stop().clean);
  EXPECT_THAT(fake_.Calls(), Contains("docker|stop|--time|120|c"));
}

}  // namespace
}  // namespace sightline
