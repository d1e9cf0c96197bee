// Packages in containers, against a docker that is a script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>

#include "launch/launch.h"
#include "launch/native_servers.h"
#include "tests/support/fake_program.h"
#include "tests/support/manifest_text.h"

namespace sightline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// Remembers containers as files c-NAME that hold what State.Running is.
constexpr char kDocker[] = R"sh(
missing() { echo "Error: No such object: $1" >&2; exit 1; }
case "$1" in
  --version) echo "Docker version 25.0.3, build x";;
  version) echo 25.0.3;;
  info) echo '[]';;
  ps) if [ "$2" = -q ]; then exit 0; fi; for f in c-*; do [ -e "$f" ] && printf '%s\timage\tUp 3 minutes\t0.0.0.0:20000->20000/tcp\n' "${f#c-}"; done; exit 0;;
  inspect) [ "$2" = --format ] || exit 0
    [ -e "c-$4" ] || missing "$4"
    case "$3" in *Running*) cat "c-$4";; *ExitCode*) cat exit-code 2>/dev/null || echo 0;; esac;;
  container) [ -e "c-$3" ] || missing "$3"
    echo '[{"Id": "0123", "Name": "/'$3'", "State": {"Running": '$(cat c-$3)', "ExitCode": 0}, "Config": {"Image": "i", "Labels": {"org.tenstorrent.tt-model": "my-dit", "org.tenstorrent.tt-model.profile": "default"'$(cat more-labels 2>/dev/null)'}}, "HostConfig": {}}]';;
  image) case "$*" in *Size*) echo 1000;; *) echo sha256:1111111111111111111111111111111111111111111111111111111111111111;; esac;;
  run) while [ $# -gt 0 ]; do [ "$1" = --name ] && name=$2; shift; done
    [ -e run-fails ] && { cat run-fails >&2; exit 125; }
    [ -e run-is-slow ] && { echo false > "c-$name"; sleep 1; }
    echo true > "c-$name"; echo 4567cafe;;
  logs) for last; do :; done
    cat log 2>/dev/null
    if [ -e exits ]; then echo false > "c-$last"; else case "$*" in *--follow*) exec sleep 20;; esac; fi;;
  stop) for last; do :; done
    [ -e "stop-fails-$last" ] && { echo "Error response from daemon: cannot stop container" >&2; exit 1; }
    echo false > "c-$last"; echo "$last";;
  rm) for last; do :; done; rm -f "c-$last";;
  *) exit 0;;
esac
)sh";

class RecordingReporter : public Reporter {
 public:
  void OnStep(const StepReport& step) override {
    if (step.state == StepState::kDone) rows.push_back(step.label + "  " + step.detail);
  }
  void OnNote(std::string_view line) override { notes.emplace_back(line); }
  void OnContainer(const std::string& id, const std::string& endpoint) override { container = id + " " + endpoint; }
  std::vector<std::string> rows, notes;
  std::string container;
};

// A port that somebody listens on.
class TakenPort {
 public:
  explicit TakenPort(int port = 0, in_addr_t host = INADDR_LOOPBACK) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(host);
    address.sin_port = htons(static_cast<uint16_t>(port));
    socklen_t size = sizeof address;
    listens_ = ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(socket_, 1) == 0;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(socket_); }
  int port() const { return port_; }
  bool listens() const { return listens_; }

 private:
  int socket_;
  int port_ = 0;
  bool listens_ = false;
};

class ContainerServeTest : public ::testing::Test {
 protected:
  ContainerServeTest() {
    docker_.Answer(kDocker);
    std::filesystem::create_directories(root() / "dev" / "tenstorrent");
    for (const char* chip : {"0", "1", "2", "3"}) std::ofstream(root() / "dev" / "tenstorrent" / chip);
    std::filesystem::create_directories(root() / "proc");
    std::ofstream(root() / "proc" / "mounts") << "none /dev/hugepages-1G hugetlbfs rw 0 0\n";
    request_.target = WritePackage(kDitManifest);
    request_.local_only = true;
    request_.ready_timeout = 20s;
  }
  std::filesystem::path home() const { return folder_.path() / "home"; }
  std::filesystem::path root() const { return folder_.path() / "root"; }

  std::string WritePackage(std::string_view manifest) const {
    const auto file = folder_.path() / "package" / kWireManifestName;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << WireOf(ParsedManifest(manifest)).ToJson();
    return file.string();
  }
  // The environment of a user whose home is `home`.
  LaunchSettings Settings() const {
    const ScopedVariable home_variable("HOME", home().string()), cache("XDG_CACHE_HOME", ""), hub("HF_HOME", ""),
        own("SIGHTLINE_CACHE", (home() / "sightline").string()), offline("HF_HUB_OFFLINE", "1");
    auto settings = LaunchSettingsFromEnvironment();
    EXPECT_TRUE(settings) << settings.error().message;
    settings->store.host_root = root();
    settings->store.program = "tt-model";
    return *settings;
  }
  StoreResult<ServeReport> Serve(std::stop_token stop = {}) {
    return Launcher(Settings()).Serve(request_, &reporter_, stop);
  }
  void Log(const std::string& text) const { std::ofstream(docker_.folder() / "log") << text; }
  void Touch(const std::string& name, const std::string& text = "") const {
    std::ofstream(docker_.folder() / name) << text;
  }
  std::vector<std::string> CallsOf(const std::string& verb) const {
    std::vector<std::string> calls = docker_.Calls();
    std::erase_if(calls, [&verb](const std::string& call) {
      return call != "docker|" + verb && !call.starts_with("docker|" + verb + "|");
    });
    return calls;
  }

  TemporaryFolder folder_;
  const ScopedVariable arguments_{"SIGHTLINE_CONTAINER_ARGS", ""};
  FakeProgram docker_{"docker"};
  ServeRequest request_;
  RecordingReporter reporter_;
};

TEST_F(ContainerServeTest, BecomesReadyByTheLandmark) {
  Log("INFO: Started server process [1]\nLoading weights\nINFO:     Application startup complete.\n");
  const auto report = Serve();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->end, ServeEnd::kReady);
  EXPECT_EQ(report->name, "tt-model-my-dit-default");
  EXPECT_EQ(report->endpoint, "http://127.0.0.1:" + std::to_string(report->port));
  EXPECT_THAT(reporter_.container, StartsWith("4567cafe http://127.0.0.1:"));
  const auto runs = CallsOf("run");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_THAT(runs[0], AllOf(StartsWith("docker|run|--detach|--name|tt-model-my-dit-default|--user|"),
                             HasSubstr("|--device|/dev/tenstorrent/0:/dev/tenstorrent/0|"),
                             HasSubstr("|tt-model/my-dit:0123456789ab|python|-m|uvicorn|")));
  for (const char* folder : {"cache", "weights", "tensors"}) {
    EXPECT_TRUE(std::filesystem::is_directory(home() / ".cache" / "tt-model" / "my-dit" / folder)) << folder;
  }
}

// Case 52.
TEST_F(ContainerServeTest, BootLogBecomesRows) {
  request_.target = WritePackage(
      With(With(kPluginManifest, "hardware: p150x4", "hardware: p300x2"), "mesh_device: P150x4", "mesh_device: QB2"));
  Log("Platform plugin tt is activated\nAttempting to open mesh device\n"
      "multidevice with 4 device(s) and grid (2, 2) is created\nGPU KV cache size: 133,120 tokens\n"
      "Uvicorn running on x\nApplication startup complete.\n");
  const auto report = Serve();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->end, ServeEnd::kReady);
  EXPECT_TRUE(report->chat);
  EXPECT_THAT(reporter_.rows, Contains("Tenstorrent device opened  4 chips · mesh (2, 2)"));
  EXPECT_THAT(reporter_.rows, Contains("KV cache configured  133,120 tokens"));
}

// Case 48.
TEST_F(ContainerServeTest, SilentContainerIsGivenUpAndLeftRunning) {
  request_.ready_timeout = 1s;
  const auto begun = std::chrono::steady_clock::now();
  const auto report = Serve();
  ASSERT_TRUE(report);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  EXPECT_EQ(report->end, ServeEnd::kNotReady);
  EXPECT_EQ(report->diagnosis->failure, BootFailure::kNotReady);
  EXPECT_EQ(docker_.Read("c-tt-model-my-dit-default"), "true\n");
}

TEST_F(ContainerServeTest, ContainerThatEndsIsDiagnosed) {
  Touch("exits");
  Log(std::string("RuntimeError: no weights here\n\xff\xfe\n"));
  const auto report = Serve();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->end, ServeEnd::kNotReady);
  EXPECT_THAT(report->diagnosis->title, HasSubstr("exited"));
  EXPECT_THAT(report->diagnosis->evidence, HasSubstr("no weights here"));
}

// Case 51.
TEST_F(ContainerServeTest, RejectedFlagIsBlamed) {
  Touch("exits");
  Log("usage: x\nerror: unrecognized arguments: --refreshh\n");
  request_.arguments = {"--refreshh"};
  const auto report = Serve();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->diagnosis->failure, BootFailure::kFlagRejected);
  EXPECT_THAT(report->diagnosis->title, HasSubstr("--refreshh"));
  EXPECT_THAT(CallsOf("run").front(), ::testing::EndsWith("|--refreshh"));
}

// Case 50.
TEST_F(ContainerServeTest, DetachedServeReadsNoLog) {
  request_.detach = true;
  const auto report = Serve();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->end, ServeEnd::kDetached);
  EXPECT_THAT(CallsOf("logs"), IsEmpty());
}

TEST_F(ContainerServeTest, WhatRunsAlreadyIsNotStartedAgain) {
  Touch("c-tt-model-my-dit-default", "true\n");
  const auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("already running"));
  EXPECT_THAT(report.error().card.actions, Contains(HasSubstr("tt-model stop ")));
  EXPECT_THAT(CallsOf("run"), IsEmpty());
}

TEST_F(ContainerServeTest, LeftoverOfTheSameNameIsRemoved) {
  Touch("c-tt-model-my-dit-default", "false\n");
  Log("Application startup complete\n");
  EXPECT_TRUE(Serve());
  EXPECT_THAT(CallsOf("rm"), Contains("docker|rm|--force|tt-model-my-dit-default"));
}

TEST_F(ContainerServeTest, FailedRunLeavesNoContainerBehind) {
  Touch("run-fails", "docker: Error response from daemon: driver failed: port is already allocated.\n");
  const auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("port"));
}

TEST_F(ContainerServeTest, WhatTheMachineLacksIsSaidByItsOwnCode) {
  std::ofstream(root() / "proc" / "mounts") << "";
  auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported);
  EXPECT_EQ(Describe(report.error().code).exit_code, 1) << "2 would be a wrong command line";
  std::filesystem::remove_all(root() / "dev");
  report = Serve();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kDeviceLost);
  EXPECT_THAT(report.error().message, AllOf(HasSubstr("/dev/tenstorrent is not there"), HasSubstr("no hugetlbfs")));
}

TEST_F(ContainerServeTest, UnknownProfileListsThoseThereAre) {
  request_.profile = "nope";
  const auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, AllOf(HasSubstr("nope"), HasSubstr("default")));
}

// Case 47.
TEST_F(ContainerServeTest, OneProfileIsNotTakenForAnotherThatBeginsLikeIt) {
  const std::string profiles = std::string(kDitManifest) +
                               "serve_profiles: [{name: p300, hardware: p300, mesh_device: P300}, {name: p300x2, "
                               "hardware: p300x2, mesh_device: QB2}]\ndefault_profile: p300\n";
  const std::string target = WritePackage(profiles);
  Touch("c-tt-model-my-dit-p300x2", "true\n");
  Launcher launcher(Settings());
  EXPECT_THAT(launcher.Stop({target, "p300"}, nullptr)->stopped, IsEmpty());
  const auto outcome = launcher.Stop({target, {}}, nullptr);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->stopped, SizeIs(1));
  EXPECT_EQ(outcome->stopped.front().name, "tt-model-my-dit-p300x2");
}

TEST_F(ContainerServeTest, InterruptedWaitLeavesTheContainer) {
  std::stop_source stop;
  stop.request_stop();
  const auto report = Serve(stop.get_token());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->end, ServeEnd::kInterrupted);
  EXPECT_EQ(docker_.Read("c-tt-model-my-dit-default"), "true\n");
}

TEST_F(ContainerServeTest, MissingDeviceIsSaidBeforeAnythingElse) {
  std::filesystem::remove_all(root() / "dev");
  const auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("tenstorrent"));
  EXPECT_THAT(report.error().card.actions, Not(IsEmpty()));
  EXPECT_THAT(CallsOf("run"), IsEmpty());
}

TEST_F(ContainerServeTest, ChipsThatAreAskedForAreGranted) {
  request_.devices = "2";
  request_.detach = true;
  ASSERT_TRUE(Serve());
  EXPECT_THAT(CallsOf("run").front(), HasSubstr("|--device|/dev/tenstorrent/2:/dev/tenstorrent/2|"));
  request_.devices = "9";
  std::filesystem::remove(docker_.folder() / "c-tt-model-my-dit-default");
  EXPECT_FALSE(Serve());
}

// Case 41.
TEST_F(ContainerServeTest, PrintedCommandIsOneLineAndDoesNothing) {
  const auto line = Launcher(Settings()).PrintableCommand(request_, nullptr);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_THAT(*line, AllOf(StartsWith("docker run --name tt-model-my-dit-default --user "),
                           HasSubstr(" --publish 20000:20000 "), Not(HasSubstr("\n")), Not(HasSubstr("--detach"))));
  EXPECT_THAT(CallsOf("run"), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(home()));
}

TEST_F(ContainerServeTest, CommandIsPrintedWithoutDockerToo) {
  const FakeProgram nothing("something");
  const auto line = Launcher(Settings()).PrintableCommand(request_, nullptr);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_THAT(*line, AllOf(StartsWith("docker run "), HasSubstr(" --device /dev/tenstorrent ")));
}

TEST_F(ContainerServeTest, PrintedCommandIsOfWhatServeWouldStart) {
  request_.target = WritePackage(With(kDitManifest, "org/W", BuiltInPackages().front().native.weights.repo));
  EXPECT_THAT(*Launcher(Settings()).PrintableCommand(request_, nullptr), StartsWith("docker run "));
  std::filesystem::remove_all(root() / "dev");
  const auto native = Launcher(Settings()).PrintableCommand(request_, &reporter_);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_THAT(*native, HasSubstr(" serve " + BuiltInPackages().front().name + " --weights "));
  EXPECT_THAT(reporter_.notes, ElementsAre(HasSubstr("there is no Tenstorrent device here")));
  request_.mode = RunMode::kContainer;
  EXPECT_THAT(*Launcher(Settings()).PrintableCommand(request_, nullptr), StartsWith("docker run "));
}

// Case 54.
TEST_F(ContainerServeTest, StoppingWhatDoesNotRunIsNoError) {
  const auto outcome = Launcher(Settings()).Stop({request_.target, {}}, nullptr);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_THAT(outcome->stopped, IsEmpty());
  EXPECT_THAT(outcome->failures, IsEmpty());
}

TEST_F(ContainerServeTest, OfTwoThatStartAtOnceOneIsRefused) {
  request_.detach = true;
  Touch("run-is-slow");
  const LaunchSettings settings = Settings();
  const auto serve = [&] { return Launcher(settings).Serve(request_, nullptr).has_value(); };
  auto other = std::async(std::launch::async, serve);
  const bool first = serve(), second = other.get();
  EXPECT_NE(first, second);
  EXPECT_THAT(CallsOf("run"), SizeIs(1));
  EXPECT_THAT(CallsOf("rm"), IsEmpty());
}

TEST_F(ContainerServeTest, WithoutAnEngineNothingRuns) {
  LaunchSettings settings = Settings();
  settings.store.engine.program = "no-engine";
  const auto outcome = Launcher(settings).Stop({request_.target, {}}, nullptr);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_THAT(outcome->stopped, IsEmpty());
  EXPECT_THAT(outcome->failures, IsEmpty());
}

TEST_F(ContainerServeTest, WhatRunsUnderADeadDaemonIsNotKnown) {
  docker_.Answer("echo 'Cannot connect to the Docker daemon' >&2; exit 1");
  const auto outcome = Launcher(Settings()).Stop({request_.target, {}}, nullptr);
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_THAT(outcome->failures, SizeIs(1));
  EXPECT_THAT(outcome->failures.front().message, HasSubstr("daemon does not answer"));
}

TEST_F(ContainerServeTest, ChipsAreResetByTheImageThatRan) {
  const std::string target =
      WritePackage(std::string(kDitManifest) + "image: {registry: registry.example/team, repository: dit}\n");
  const auto printed = Launcher(Settings()).PrintableCommand({.target = target}, nullptr);
  ASSERT_TRUE(printed) << printed.error().message;
  EXPECT_THAT(*printed, HasSubstr(" registry.example/team/dit"));
  Touch("exit-code", "137\n");
  Touch("c-tt-model-my-dit-default", "true\n");
  ASSERT_THAT(Launcher(Settings()).Stop({target, {}}, nullptr)->stopped, SizeIs(1));
  EXPECT_THAT(CallsOf("run"), ElementsAre(HasSubstr("|--entrypoint|tt-smi|registry.example/team/dit")));
}

TEST_F(ContainerServeTest, StopGivesTwoMinutes) {
  Touch("c-tt-model-my-dit-default", "true\n");
  const auto outcome = Launcher(Settings()).Stop({request_.target, {}}, nullptr);
  ASSERT_TRUE(outcome);
  EXPECT_THAT(outcome->stopped, SizeIs(1));
  EXPECT_THAT(CallsOf("stop"), ElementsAre("docker|stop|--timeout|120|tt-model-my-dit-default"));
}

TEST_F(ContainerServeTest, DeadDaemonKeepsNoNativeServerFromStopping) {
  docker_.Answer(
      "case $1 in --version) echo Docker version 25.0.3;; *) echo 'Cannot connect to the Docker daemon' >&2; exit 1;; "
      "esac");
  const auto program = folder_.path() / "program";
  std::ofstream(program) << "#!/bin/sh\nexec /bin/sleep 60\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const LaunchSettings settings = Settings();
  const auto server = NativeServers(settings.servers).Start({"x", "x", "gaze-lle", 1, 0, {}, {}}, {program.string()});
  ASSERT_TRUE(server) << server.error().message;
  const auto outcome = Launcher(settings).Stop({}, nullptr);
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_THAT(outcome->stopped, SizeIs(1));
  EXPECT_FALSE(IsAlive(server->process));
  ASSERT_THAT(outcome->failures, SizeIs(1)) << "containers may be running";
  EXPECT_THAT(outcome->failures.front().message, HasSubstr("daemon does not answer"));
}

TEST_F(ContainerServeTest, WhatCannotBeStoppedKeepsNothingElseFromStopping) {
  for (const char* name : {"a", "b", "c"}) Touch("c-" + std::string(name), "true\n");
  Touch("stop-fails-b");
  const auto outcome = Launcher(Settings()).Stop({}, nullptr);
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_THAT(outcome->stopped, SizeIs(2));
  EXPECT_EQ(outcome->stopped[0].name, "a");
  EXPECT_EQ(outcome->stopped[1].name, "c");
  ASSERT_THAT(outcome->failures, SizeIs(1));
  EXPECT_THAT(outcome->failures[0].message, AllOf(StartsWith("b: "), HasSubstr("cannot stop container")));
}

TEST_F(ContainerServeTest, OnlyAKilledServerThatHeldChipsHasThemReset) {
  Touch("exit-code", "137\n");
  Touch("c-on-the-cpu", "true\n");
  ASSERT_THAT(Launcher(Settings()).Stop({}, nullptr)->stopped, SizeIs(1));
  EXPECT_THAT(CallsOf("run"), IsEmpty());
  Touch("c-on-chips", "true\n");
  Touch("more-labels", R"(, "org.tenstorrent.tt-model.devices": "0")");
  const auto outcome = Launcher(Settings()).Stop({}, nullptr);
  EXPECT_EQ(outcome->stopped.front().report.reset, ChipReset::kRan);
  EXPECT_THAT(CallsOf("run"), ElementsAre(HasSubstr("|--entrypoint|tt-smi|image|")));
}

// Case 53.
TEST_F(ContainerServeTest, StoppingWhatWasNeverPulledSaysHowToPull) {
  const auto outcome = Launcher(Settings()).Stop({"nobody/nothing", {}}, nullptr);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("tt-model pull nobody/nothing"));
}

// Case 55.
TEST_F(ContainerServeTest, AuthoringManifestIsExplained) {
  const auto file = folder_.path() / "tt-model.yaml";
  std::ofstream(file) << kDitManifest;
  request_.target = file.string();
  const auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().card.actions,
              ElementsAre(HasSubstr("tt-model package --container "), HasSubstr("tt-model push build/my-dit"),
                          HasSubstr("tt-model serve org/my-dit")));
}

// Case 56.
TEST_F(ContainerServeTest, WhatIsNoContainerPackageIsRefused) {
  const auto file = folder_.path() / "x.json";
  request_.target = file.string();
  std::ofstream(file) << "garbage";
  EXPECT_FALSE(Serve());
  std::ofstream(file) << R"({"schema_version": "5", "name": "x", "tt_metal_version": "1", "arch": "blackhole",
                             "producer": {"tt_kernel_version": "0", "created_at": "2026"}})";
  const auto report = Serve();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("container"));
}

TEST_F(ContainerServeTest, RunningContainersAreListed) {
  Touch("c-tt-model-my-dit-default", "true\n");
  const auto rows = Launcher(Settings()).Running(false, nullptr);
  ASSERT_TRUE(rows);
  ASSERT_THAT(*rows, SizeIs(1));
  EXPECT_EQ(rows->front().target, "my-dit");
  EXPECT_EQ(rows->front().profile, "default");
  EXPECT_EQ(rows->front().port, 20'000);
  EXPECT_EQ(rows->front().uptime, "3 minutes");
}

TEST_F(ContainerServeTest, LogsOfWhatRuns) {
  Touch("c-tt-model-my-dit-default", "true\n");
  Log("one\ntwo\n");
  std::vector<std::string> lines;
  LogRequest request{request_.target};
  request.tail = 7;
  request.since = "10m";
  const auto code = Launcher(Settings()).ReadLogs(request, [&](std::string_view line) { lines.emplace_back(line); });
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_THAT(lines, ElementsAre("one", "two"));
  // Engines read some times and spans otherwise than we do, and not all of them.
  EXPECT_THAT(CallsOf("logs"), ElementsAre(MatchesRegex("docker\\|logs\\|--tail\\|7\\|--since\\|[-0-9]+T[:.0-9]+Z\\|"
                                                        "tt-model-my-dit-default")));
  request.since = "yesterday";
  EXPECT_EQ(Launcher(Settings()).ReadLogs(request, {}).error().code, Code::kUsage);
}

TEST_F(ContainerServeTest, LogsOfNothingIsAnError) {
  EXPECT_FALSE(Launcher(Settings()).ReadLogs({request_.target}, [](std::string_view) {}));
}

// Case 49.
TEST(PickPortTest, TakenPortsArePassedOver) {
  const TakenPort taken(kDefaultPort);  // or somebody else has it
  const auto port = PickPort({});
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_GT(*port, kDefaultPort);
  EXPECT_LT(*port, kDefaultPort + 100);
}

TEST(PickPortTest, WantedPortIsExact) {
  const TakenPort taken;
  ASSERT_TRUE(taken.listens());
  const auto port = PickPort(taken.port());
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, Code::kUnsupported);
  EXPECT_THAT(port.error().message, HasSubstr("--port"));
}

// Whether `check` holds in a process with a network of its own; none where this machine gives it no such network.
std::optional<bool> InNetworkOfItsOwn(const std::function<bool()>& check) {
  constexpr int kHolds = 0, kFails = 1, kNoNetwork = 2;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWNET) != 0 ? kNoNetwork : check() ? kHolds : kFails);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status == W_EXITCODE(kNoNetwork, 0)) return std::nullopt;
  return status == W_EXITCODE(kHolds, 0);
}

TEST(PickPortTest, NoneThatIsFreeIsAnErrorThatNamesTheOption) {
  const auto holds = InNetworkOfItsOwn([] {
    std::vector<std::unique_ptr<TakenPort>> taken;
    for (int port = kDefaultPort; port < kDefaultPort + 100; ++port) {
      taken.push_back(std::make_unique<TakenPort>(port, INADDR_ANY));
    }
    const auto port = PickPort({});
    return !port && port.error().code == Code::kBusy && port.error().message.find("--port") != std::string::npos;
  });
  if (!holds) GTEST_SKIP() << "a network of its own needs root";
  EXPECT_TRUE(*holds);
}

TEST(PickPortTest, PortThatThisUserMayNotBindIsNotCalledTaken) {
  const auto holds = InNetworkOfItsOwn([] {
    constexpr uid_t kNobody = 65'534;
    if (::setuid(kNobody) != 0) return false;
    const auto port = PickPort(80);
    return !port && port.error().code == Code::kNoPermission &&
           port.error().message.find("port 80 cannot be listened on: Permission denied") != std::string::npos;
  });
  if (!holds) GTEST_SKIP() << "a network of its own needs root";
  EXPECT_TRUE(*holds);
}

TEST(PickPortTest, PortThatCannotBeTriedIsNotCalledTaken) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto wanted = PickPort(20'500), any = PickPort({});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const auto& port : {wanted, any}) {
    ASSERT_FALSE(port);
    EXPECT_THAT(port.error().message, AllOf(HasSubstr("Too many open files"), Not(HasSubstr("taken"))));
  }
}

TEST(ReadyTimeoutTest, WholeSecondsAboveZero) {
  const ScopedVariable home("HOME", "/nowhere");
  {
    const ScopedVariable none("TT_MODEL_READY_TIMEOUT", "");
    EXPECT_EQ(*ReadyTimeoutFromEnvironment(), 14'400s);
  }
  const ScopedVariable some("TT_MODEL_READY_TIMEOUT", "60");
  EXPECT_EQ(*ReadyTimeoutFromEnvironment(), 60s);
  for (const char* wrong : {"0", "-1", "1.5", "60s", "x", "99999999999999999999"}) {
    const ScopedVariable value("TT_MODEL_READY_TIMEOUT", wrong);
    EXPECT_THAT(ReadyTimeoutFromEnvironment().error().message, HasSubstr("TT_MODEL_READY_TIMEOUT")) << wrong;
  }
}

TEST(ChatTest, OptionsBecomeMembers) {
  const auto parameters =
      ChatParameters({"--temperature", "0.5", "--top-p=1", "--stream", "--stop", "a b", "--n", "2"});
  ASSERT_TRUE(parameters);
  EXPECT_EQ(ToJson(*parameters, -1), R"({"temperature": 0.5, "top_p": 1, "stream": true, "stop": "a b", "n": 2})");
  EXPECT_EQ(ChatParameters({"word"}).error().code, Code::kUsage);
}

TEST(ChatTest, BodyIsOverlaidAndPrintsAsACommand) {
  ChatRequest request;
  request.prompt = "it's";
  request.base_url = "http://127.0.0.1:9";
  request.model = "org/m";
  request.parameters = *ChatParameters({"--max-tokens", "8"});
  const auto call = PrepareChat(request);
  ASSERT_TRUE(call);
  EXPECT_EQ(ToJson(call->body, -1),
            R"({"model": "org/m", "messages": [{"role": "user", "content": "it's"}], "max_tokens": 8})");
  EXPECT_THAT(PrintableCurl(*call), StartsWith("curl -sS http://127.0.0.1:9/v1/chat/completions \\\n"));
}

TEST(ChatTest, OnlyInstalledPackageNamesTheModel) {
  ChatRequest request;
  request.base_url = "http://127.0.0.1:9";
  EXPECT_EQ(PrepareChat(request).error().code, Code::kNotFound);
  request.installed = {"org/m"};
  EXPECT_EQ(PrepareChat(request)->body.Find("model")->AsText()->c_str(), std::string("org/m"));
}

}  // namespace
}  // namespace sightline
