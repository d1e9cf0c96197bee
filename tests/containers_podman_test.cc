// The real podman with runc, where they are installed and may run containers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "containers/containers.h"
#include "tests/support/fake_program.h"

namespace sightline {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const std::string kImage = "sightline-test/busybox:" + std::to_string(::getpid());

bool Installed(const char* program) { return RunProcess({{program, "--version"}}).has_value(); }

ContainerEngine Podman() {
  EngineOptions options;
  options.program = "podman";
  options.arguments = {"--runtime", "runc"};
  options.run_arguments = {"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--network", "host"};
  return *ContainerEngine::Find(options);
}

// Builds an image with busybox alone. Returns why no container can run here, or nothing.
std::string BuildImage() {
  for (const char* program : {"podman", "runc", "busybox"}) {
    if (!Installed(program)) return std::string(program) + " is not installed";
  }
  if (::geteuid() != 0) return "podman without root needs a machine that is set up for it";
  const TemporaryFolder folder;
  std::string path = RunProcess({{"sh", "-c", "command -v busybox"}})->standard_output;
  path.pop_back();
  std::filesystem::copy_file(path, folder.path() / "busybox");
  std::ofstream(folder.path() / "Containerfile")
      << "FROM scratch\nLABEL " << kPackageLabel
      << "=test\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nENV PATH=/bin\nENTRYPOINT [\"/bin/busybox\"]\n";
  const auto built = Podman().Build({"--tag", kImage, folder.path().string()}, folder.path() / "log", {});
  if (!built) return built.error().message;
  const auto run = Podman().Run({"--rm", kImage, "true"});
  return run ? "" : run.error().message;
}

// The image and containers that keep to this test; both are removed.
class PodmanTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { reason_ = new std::string(BuildImage()); }
  static void TearDownTestSuite() {
    if (reason_->empty()) (void)Podman().RemoveImage(kImage);
    delete reason_;
  }
  void SetUp() override {
    if (!reason_->empty()) GTEST_SKIP() << "no container can run here: " << *reason_;
    engine_ = std::make_unique<ContainerEngine>(Podman());
  }

  void TearDown() override {
    if (engine_ == nullptr) return;
    (void)engine_->Remove(name_, /*force=*/true);
  }

  std::string Start(const std::string& script) {
    const auto id = engine_->Run({"--detach", "--name", name_, "--label", std::string(kPackageLabel) + "=test", "--env",
                                  "A=1", kImage, "sh", "-c", script});
    EXPECT_TRUE(id) << id.error().message;
    return id.value_or("");
  }

  static std::string* reason_;
  std::unique_ptr<ContainerEngine> engine_;
  const std::string name_ = "sightline-test-" + std::to_string(::getpid());
};

std::string* PodmanTest::reason_ = nullptr;

TEST_F(PodmanTest, LifeOfAContainer) {
  EXPECT_EQ(engine_->kind(), EngineKind::kPodman);
  EXPECT_THAT(*engine_->ServerVersion(), ::testing::MatchesRegex("[0-9]+\\..*"));
  EXPECT_FALSE(*engine_->Exists(name_));
  const std::string id =
      Start("trap 'exit 0' TERM; echo $A; echo Application startup complete; while :; do sleep 0.1; done");
  EXPECT_TRUE(*engine_->Exists(name_));
  EXPECT_TRUE(*engine_->IsRunning(name_));
  BootTracker tracker("tt-dit-server", {"Application startup complete"});
  const auto boot = FollowBoot(*engine_, name_, &tracker, std::chrono::seconds(20), {});
  ASSERT_TRUE(boot);
  EXPECT_EQ(boot->kind, BootEndKind::kReady);
  const auto state = engine_->Inspect(name_);
  ASSERT_TRUE(state && *state);
  EXPECT_EQ((*state)->id, id);
  EXPECT_TRUE((*state)->running);
  EXPECT_EQ((*state)->labels.at(std::string(kPackageLabel)), "test");
  const auto rows = engine_->List(std::string(kPackageLabel), /*all=*/false);
  ASSERT_TRUE(rows);
  EXPECT_THAT(*rows, Contains(::testing::Field(&ContainerRow::name, name_)));
  EXPECT_FALSE(engine_->InspectRunning()->empty());
  const auto stopped = StopContainer(*engine_, name_, "", std::chrono::seconds(10));
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_TRUE(stopped->was_running);
  EXPECT_TRUE(stopped->clean);
  EXPECT_EQ(stopped->exit_code, 0);
  EXPECT_FALSE(*engine_->Exists(name_));
}

TEST_F(PodmanTest, Long_ContainerThatDoesNotListenIsKilled) {
  Start("trap '' TERM; while :; do sleep 0.1; done");
  const auto stopped = StopContainer(*engine_, name_, "", std::chrono::seconds(1));
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_FALSE(stopped->clean);
  EXPECT_EQ(stopped->exit_code, 137);
}

TEST_F(PodmanTest, Long_DeadContainerIsDiagnosed) {
  Start("echo 'error: unrecognized arguments: --refresh' >&2; exit 2");
  BootTracker tracker("tt-dit-server", {"Application startup complete"});
  const auto boot = FollowBoot(*engine_, name_, &tracker, std::chrono::seconds(20), {});
  ASSERT_TRUE(boot);
  EXPECT_EQ(boot->kind, BootEndKind::kExited);
  EXPECT_EQ(boot->exit_code, 2);
  EXPECT_EQ(DiagnoseBoot(tracker, *boot, {name_, "x/y", "tt-model", {"--refresh"}}).failure,
            BootFailure::kFlagRejected);
}

TEST_F(PodmanTest, Long_ImagesComeAndGo) {
  const auto id = engine_->ImageId(kImage);
  ASSERT_TRUE(id && *id);
  EXPECT_THAT(**id, ::testing::MatchesRegex("sha256:[0-9a-f]{64}"));
  EXPECT_GT(*engine_->ImageBytes(kImage), 1'000'000u);
  const std::string other = kImage + "-other";
  ASSERT_TRUE(engine_->Tag(kImage, other));
  EXPECT_EQ(**engine_->ImageId(other), **id);
  ASSERT_TRUE(engine_->RemoveImage(other));
  EXPECT_FALSE(engine_->ImageId(other)->has_value());
}

TEST_F(PodmanTest, Long_ImagesAreSavedAndLoaded) {
  std::vector<std::byte> archive;
  const auto keep = [&archive](ByteSource source) -> Status {
    std::vector<std::byte> piece(65536);
    while (true) {
      SIGHTLINE_ASSIGN_OR_RETURN(const size_t count, source(piece));
      if (count == 0) return {};
      archive.insert(archive.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
    }
  };
  const auto saved = engine_->Save(kImage, keep);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_GT(archive.size(), 500'000u);
  ASSERT_TRUE(engine_->RemoveImage(kImage));
  const auto loaded = engine_->Load([&archive](ByteSink sink) { return sink(archive); });
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(*loaded, Contains(HasSubstr(kImage)));
  const auto broken = engine_->Load([](ByteSink sink) { return sink(AsBytes(std::string_view("no archive"))); });
  EXPECT_FALSE(broken);
}

TEST_F(PodmanTest, Long_FailuresNameTheirCause) {
  EXPECT_EQ(engine_->Run({"--rm", "sightline-test/nowhere:1"}).error().code, Code::kNotFound);
  const auto mount = engine_->Run({"--rm", "--volume", "/no/such/folder:/x", kImage, "true"});
  EXPECT_EQ(mount.error().code, Code::kNotFound) << mount.error().message;
  Start("trap 'exit 0' TERM; while :; do sleep 0.1; done");
  const auto twice = engine_->Run({"--detach", "--name", name_, kImage, "true"});
  EXPECT_EQ(twice.error().code, Code::kBusy) << twice.error().message;
  const auto device = engine_->Run({"--rm", "--device", "/dev/tenstorrent/77:/dev/tenstorrent/77", kImage, "true"});
  EXPECT_EQ(device.error().code, Code::kDeviceLost) << device.error().message;
}

}  // namespace
}  // namespace sightline
