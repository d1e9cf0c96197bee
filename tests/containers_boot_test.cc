// The boot of a server, told from its log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "containers/containers.h"
#include "tests/support/fake_program.h"

namespace sightline {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

const std::string kLandmark = "Application startup complete";

BootTracker Fed(std::string_view kind, const std::vector<std::string>& lines) {
  BootTracker tracker(kind, {kLandmark});
  for (const std::string& line : lines) tracker.Feed(line);
  return tracker;
}

std::vector<StageState> States(const BootTracker& tracker) {
  std::vector<StageState> states;
  for (const BootStage& stage : tracker.stages()) states.push_back(stage.state);
  return states;
}

constexpr auto kWaiting = StageState::kWaiting, kActive = StageState::kActive, kDone = StageState::kDone,
               kSkipped = StageState::kSkipped;

TEST(BootTrackerTest, AnyOfTheLandmarksMeansReady) {
  for (const char* line : {"Server ready after ~12s", "INFO Server ready at http://0.0.0.0:8000"}) {
    BootTracker tracker("vllm-fork", {"Server ready after", "Server ready at"});
    tracker.Feed("Server is nearly ready");
    EXPECT_FALSE(tracker.ready());
    EXPECT_TRUE(tracker.Feed(line));
    EXPECT_TRUE(tracker.ready()) << line;
  }
}

// Case 52.
TEST(BootTrackerTest, VllmLogBecomesRows) {
  BootTracker tracker("vllm-plugin", {kLandmark});
  EXPECT_EQ(tracker.active(), nullptr);
  EXPECT_TRUE(tracker.Feed("INFO 09-14 10:00:01 [__init__.py:31] Available plugins for group vllm.platform_plugins:"));
  EXPECT_EQ(tracker.active()->active_label, "starting the engine");
  EXPECT_TRUE(tracker.Feed("INFO [core.py:77] Initializing a V1 LLM engine (v0.10.1) with config: model='x'"));
  EXPECT_EQ(tracker.stages()[0].detail, "vLLM 0.10.1");
  EXPECT_TRUE(tracker.Feed("2026-09-14 10:00:05.123 | info | Device | Opening user mode device driver"));
  EXPECT_EQ(tracker.stages()[0].state, kDone);
  EXPECT_FALSE(tracker.Feed("| info | UMD | vLLM-unrelated firmware version 18.2.0"));
  EXPECT_TRUE(tracker.Feed("multidevice with 4 devices and grid MeshShape(2, 2) is created"));
  EXPECT_EQ(tracker.stages()[1].done_label, "Tenstorrent device opened");
  EXPECT_EQ(tracker.stages()[1].detail, "4 chips · mesh (2, 2)");
  EXPECT_EQ(tracker.stages()[1].state, kDone);
  EXPECT_EQ(tracker.active(), nullptr);
  EXPECT_TRUE(tracker.Feed("Loading checkpoint shards:   0%|          | 0/17 [00:00<?, ?it/s]"));
  EXPECT_TRUE(tracker.Feed("Loading checkpoint shards:  47%|####7     | 8/17 [00:03<00:03,  2.5it/s]"));
  EXPECT_EQ(tracker.active()->done, 8u);
  EXPECT_EQ(tracker.active()->total, 17u);
  EXPECT_TRUE(tracker.Feed("INFO [kv_cache_utils.py:5] GPU KV cache size: 133,120 tokens"));
  EXPECT_EQ(tracker.stages()[3].done_label, "KV cache configured");
  EXPECT_EQ(tracker.stages()[3].detail, "133,120 tokens");
  EXPECT_TRUE(tracker.Feed("Capturing decode Trace"));
  EXPECT_TRUE(tracker.Feed("INFO init engine (profile, create kv cache, warmup model) took 61.2 seconds"));
  EXPECT_EQ(tracker.stages()[4].state, kDone);
  EXPECT_TRUE(tracker.Feed("Starting vLLM API server 0 on http://0.0.0.0:20000"));
  EXPECT_FALSE(tracker.ready());
  EXPECT_TRUE(tracker.Feed("INFO:     Application startup complete."));
  EXPECT_TRUE(tracker.ready());
  EXPECT_THAT(States(tracker), Each(kDone));
  EXPECT_FALSE(tracker.Feed("multidevice with 9 devices"));
}

TEST(BootTrackerTest, VisionServerLogBecomesRows) {
  BootTracker tracker =
      Fed("tt-dit-server", {"INFO:     Started server process [1]", "INFO:     Waiting for application startup.",
                            "Opening user mode device driver", "Fabric initialized on 1 devices",
                            "Loading weights from /hf", "Warming up"});
  EXPECT_THAT(States(tracker), ElementsAre(kDone, kDone, kDone, kActive));
  EXPECT_EQ(tracker.stages()[1].detail, "1 chip");
  EXPECT_EQ(tracker.active()->active_label, "warming up the pipeline");
  tracker.Feed("INFO:     Application startup complete.");
  EXPECT_TRUE(tracker.ready());
}

TEST(BootTrackerTest, StagesAreSkippedAndNeverGoBack) {
  BootTracker tracker = Fed("vllm-fork", {"Warming up prefill"});
  EXPECT_THAT(States(tracker), ElementsAre(kSkipped, kSkipped, kSkipped, kSkipped, kActive, kWaiting));
  EXPECT_FALSE(tracker.Feed("Loading weights"));
  EXPECT_EQ(tracker.active()->active_label, "warming up the model");
}

TEST(BootTrackerTest, ChatterOfTheWrapperIsIgnored) {
  const BootTracker tracker =
      Fed("vllm-fork", {"utils.prompt_client - INFO - Uvicorn running on", "utils.cache_monitor: Loading weights"});
  EXPECT_THAT(States(tracker), Each(kWaiting));
  EXPECT_THAT(tracker.tail(), IsEmpty());
}

TEST(BootTrackerTest, SignsNeedTheirNumbers) {
  EXPECT_EQ(Fed("tt-dit-server", {"Fetching files"}).active(), nullptr);
  EXPECT_NE(Fed("tt-dit-server", {"Fetching 12 files: 0%"}).active(), nullptr);
}

TEST(BootTrackerTest, CountsAreReadWithCare) {
  BootTracker tracker = Fed("tt-dit-server", {"Loading weights"});
  for (const char* line : {"%|", "5%|", "5%||", "5%|#| /", "5%|#| 1/", "5%|#| x/2", "5%|#| 3/2", "5%|#| 1/0",
                           "5%|#| 99999999999999999999999/99999999999999999999999", "%|#| 1/2", "5%|#| 1.2G/3.4G"}) {
    EXPECT_FALSE(tracker.Feed(line)) << line;
    EXPECT_EQ(tracker.active()->total, 0u) << line;
  }
  EXPECT_TRUE(tracker.Feed("\r 50%|█████     | 1/2"));
  EXPECT_EQ(tracker.active()->done, 1u);
}

TEST(BootTrackerTest, MemoryIsBounded) {
  BootTracker tracker("vllm-plugin", {});
  for (int i = 0; i < 10'000; ++i) tracker.Feed("Error number " + std::to_string(i) + std::string(10'000, 'x'));
  EXPECT_EQ(tracker.tail().size(), 40u);
  EXPECT_EQ(tracker.causes().size(), 50u);
  EXPECT_LE(tracker.causes()[0].size(), 2000u);
  EXPECT_FALSE(tracker.ready());
}

// ---------------------------------------------------------------------------------------------------------------------
// Case 48

class FollowTest : public ::testing::Test {
 protected:
  BootEnd Follow(const std::string& logs, milliseconds deadline, std::stop_token stop = {}) {
    fake_.Answer("case \"$1\" in logs) " + logs + ";; inspect) echo 3;; esac");
    EngineOptions options;
    options.program = "docker";
    const auto engine = ContainerEngine::Find(options);
    const auto end = FollowBoot(
        *engine, "c", &tracker_, deadline, [this](bool) { ++lines_; }, std::move(stop));
    EXPECT_TRUE(end) << end.error().message;
    return *end;
  }
  FakeProgram fake_{"docker"};
  BootTracker tracker_{"tt-dit-server", {kLandmark}};
  int lines_ = 0;
};

TEST_F(FollowTest, LandmarkMeansReady) {
  const auto start = Clock::now();
  const BootEnd end =
      Follow("echo Loading weights; echo 'Application startup complete.' >&2; sleep 100", milliseconds(20'000));
  EXPECT_EQ(end.kind, BootEndKind::kReady);
  EXPECT_EQ(lines_, 2);
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
}

TEST_F(FollowTest, SilenceEndsAtTheDeadline) {
  const auto start = Clock::now();
  EXPECT_EQ(Follow("sleep 100", milliseconds(1000)).kind, BootEndKind::kDeadline);
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
}

TEST_F(FollowTest, EndOfTheLogMeansExited) {
  const BootEnd end = Follow("printf 'bad \\377 byte'", milliseconds(20'000));
  EXPECT_EQ(end.kind, BootEndKind::kExited);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_THAT(tracker_.tail(), ElementsAre("bad \xEF\xBF\xBD byte"));
}

TEST_F(FollowTest, StopsWhenAsked) {
  std::stop_source source;
  std::jthread later([&source] {
    std::this_thread::sleep_for(milliseconds(200));
    source.request_stop();
  });
  EXPECT_EQ(Follow("sleep 100", milliseconds(20'000), source.get_token()).kind, BootEndKind::kCancelled);
}

// ---------------------------------------------------------------------------------------------------------------------
// Diagnosis

const BootQuestion kQuestion{"tt-model-gaze-default", "me/gaze", "tt-model", {"--refresh", "--max-model-len=9"}};
const BootEnd kExited{BootEndKind::kExited, 1, milliseconds(5000)};

// Case 51.
TEST(DiagnosisTest, RejectedFlagIsBlamed) {
  const BootTracker tracker =
      Fed("vllm-plugin", {"usage: vllm serve [options]", "vllm: error: unrecognized arguments: --refresh"});
  const BootDiagnosis diagnosis = DiagnoseBoot(tracker, kExited, kQuestion);
  EXPECT_EQ(diagnosis.failure, BootFailure::kFlagRejected);
  EXPECT_EQ(diagnosis.title, "tt-model-gaze-default — the server does not know --refresh");
  EXPECT_EQ(diagnosis.evidence, "vllm: error: unrecognized arguments: --refresh");
  EXPECT_THAT(diagnosis.actions[0], HasSubstr("without --refresh"));
  // Nobody passed a flag: then it is the package's own mistake.
  BootQuestion none = kQuestion;
  none.passed_arguments.clear();
  EXPECT_EQ(DiagnoseBoot(tracker, kExited, none).failure, BootFailure::kOther);
}

TEST(DiagnosisTest, HeldDeviceIsNamed) {
  for (const char* line : {"RuntimeError: CHIP_IN_USE_0_PCIe", "Sysmem mapped at unexpected NOC address 0x1",
                           "stale process holding /dev/tenstorrent/0"}) {
    const BootDiagnosis diagnosis =
        DiagnoseBoot(Fed("tt-dit-server", {line, "Traceback (most recent call last):"}), kExited, kQuestion);
    EXPECT_EQ(diagnosis.failure, BootFailure::kDeviceHeld) << line;
    EXPECT_EQ(diagnosis.evidence, line);
  }
}

TEST(DiagnosisTest, TakenPortIsNamed) {
  const BootTracker tracker = Fed(
      "tt-dit-server",
      {"ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 20001): address already in use"});
  const BootDiagnosis diagnosis = DiagnoseBoot(tracker, kExited, kQuestion);
  EXPECT_EQ(diagnosis.failure, BootFailure::kPortTaken);
  EXPECT_THAT(diagnosis.title, HasSubstr("port 20001 is taken"));
  EXPECT_THAT(diagnosis.evidence, ::testing::StartsWith("error while attempting to bind"));
}

TEST(DiagnosisTest, TimeoutLeavesTheContainer) {
  const BootTracker tracker = Fed("tt-dit-server", {"Loading weights"});
  const BootDiagnosis diagnosis =
      DiagnoseBoot(tracker, {BootEndKind::kDeadline, 0, milliseconds(1'800'000)}, kQuestion);
  EXPECT_EQ(diagnosis.failure, BootFailure::kNotReady);
  EXPECT_EQ(diagnosis.detail, "The server did not report ready within 30 min, it was loading weights.");
  EXPECT_THAT(diagnosis.consequence, HasSubstr("still running"));
}

TEST(DiagnosisTest, EvidenceIsTheLastErrorElseTheLastLine) {
  const std::string prefix = "(EngineCore_0 pid=123) ERROR 09-14 10:00:01 [core.py:700] ";
  BootDiagnosis diagnosis = DiagnoseBoot(
      Fed("vllm-plugin", {prefix + "ValueError: no such model", "some more", "INFO: bye"}), kExited, kQuestion);
  EXPECT_EQ(diagnosis.failure, BootFailure::kOther);
  EXPECT_EQ(diagnosis.evidence, "ValueError: no such model");
  EXPECT_EQ(diagnosis.detail, "The container ended with exit code 1 after 5 s.");
  diagnosis = DiagnoseBoot(Fed("vllm-plugin", {"a", "\x1b[31m2026-09-14 10:00:01,123 - app - last words\x1b[0m", ""}),
                           kExited, kQuestion);
  EXPECT_EQ(diagnosis.evidence, "app - last words");
  EXPECT_THAT(DiagnoseBoot(Fed("vllm-plugin", {}), kExited, kQuestion).evidence, IsEmpty());
}

TEST(DiagnosisTest, LongEvidenceIsCutBetweenCharacters) {
  std::string line = "Error: ";
  for (int i = 0; i < 200; ++i) line += "ü";
  const std::string evidence = DiagnoseBoot(Fed("vllm-plugin", {line}), kExited, kQuestion).evidence;
  EXPECT_EQ(evidence, line.substr(0, 7 + 2 * 113));
}

TEST(DiagnosisTest, LastLinesAreEight) {
  std::vector<std::string> lines;
  for (int i = 0; i < 20; ++i) lines.push_back("line " + std::to_string(i));
  const auto last = DiagnoseBoot(Fed("vllm-plugin", lines), kExited, kQuestion).last_lines;
  ASSERT_EQ(last.size(), 8u);
  EXPECT_EQ(last.front(), "line 12");
  EXPECT_EQ(last.back(), "line 19");
}

}  // namespace
}  // namespace sightline
