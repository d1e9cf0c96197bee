// Native servers: what is written down of them, how they are found, watched and ended. A shell script stands for the
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "launch/detached_process.h"
#include "launch/log_reader.h"
#include "launch/native_record.h"
#include "launch/native_servers.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::chrono_literals;

class NativeServersTest : public ::testing::Test {
 protected:
  ~NativeServersTest() override {
    for (const NativeServer& server : servers_.List()) (void)servers_.Stop(server, 0s);
  }
  std::vector<std::string> Program(const std::string& script) const {
    const auto file = folder_.path() / "program";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return {file.string()};
  }
  Result<NativeServer> Start(const std::string& script, const std::string& target = "org/name") const {
    return servers_.Start({NativeServers::NameOf(target), target, "gaze-lle", 20'000, 0, {}, {}}, Program(script));
  }
  NativeEnd Wait(const NativeServer& server, std::chrono::milliseconds deadline = 20s) const {
    return servers_.WaitUntilReady(server, deadline, {}, {});
  }

  TemporaryFolder folder_;
  NativeServers servers_{folder_.path() / "servers"};
};

TEST_F(NativeServersTest, OneIsFoundByAnybodyOnceItIsStarted) {
  const auto started = Start("echo Application startup complete; exec sleep 60");
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(Wait(*started).kind, BootEndKind::kReady);
  const NativeServers others(folder_.path() / "servers");
  ASSERT_THAT(others.List(), SizeIs(1));
  EXPECT_EQ(others.List().front().target, "org/name");
  EXPECT_EQ(others.List().front().port, 20'000);
  EXPECT_EQ(others.Find("org__name")->process.pid, started->process.pid);
}

TEST_F(NativeServersTest, OneThatWasKilledIsNotFoundAnyMore) {
  const auto started = Start("exec sleep 60");
  ASSERT_TRUE(started);
  ::kill(started->process.pid, SIGKILL);
  while (!ReapIfEnded(started->process.pid)) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(servers_.List(), IsEmpty());
  EXPECT_TRUE(Start("exec sleep 60")) << "what has ended is in nobody's way";
}

TEST_F(NativeServersTest, NumberOfAProcessThatWasGivenAgainIsNotTakenForTheServer) {
  auto started = Start("exec sleep 60");
  ASSERT_TRUE(started);
  NativeServer reused = *started;
  reused.process = *IdentifyProcess(::getpid());
  reused.process.start_ticks -= 1;
  const auto file = folder_.path() / "servers" / "org__name.json";
  ASSERT_TRUE(WriteFileAtomically(file, AsBytes(NativeRecordText(reused))));
  EXPECT_THAT(servers_.List(), IsEmpty());
  EXPECT_TRUE(servers_.Stop(reused, 1s)) << "and stopping it does not signal us";
  ::kill(started->process.pid, SIGKILL);
  while (!ReapIfEnded(started->process.pid)) std::this_thread::sleep_for(1ms);
}

TEST_F(NativeServersTest, SecondOneOfTheSameNameIsRefused) {
  ASSERT_TRUE(Start("exec sleep 60"));
  const auto second = Start("exec sleep 60");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr("already running"));
}

TEST_F(NativeServersTest, StopLetsItEndByItself) {
  const auto started =
      Start("trap 'echo bye; exit 0' TERM; echo Application startup complete; while :; do sleep 0.01; done");
  ASSERT_TRUE(started);
  ASSERT_EQ(Wait(*started).kind, BootEndKind::kReady);
  const auto report = servers_.Stop(*started, 20s);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->was_running);
  EXPECT_TRUE(report->clean);
  EXPECT_THAT(servers_.List(), IsEmpty());
  LogReader log(started->log);
  EXPECT_THAT(log.Read(), ElementsAre("Application startup complete", "bye"));
}

TEST_F(NativeServersTest, StopKillsWhatDoesNotEnd) {
  const auto started = Start("trap '' TERM; echo Application startup complete; while :; do sleep 0.01; done");
  ASSERT_TRUE(started);
  ASSERT_EQ(Wait(*started).kind, BootEndKind::kReady);
  const auto report = servers_.Stop(*started, 0s);
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->clean);
  EXPECT_FALSE(IsAlive(started->process));
}

TEST_F(NativeServersTest, StoppingWhatHasEndedLeavesItsSuccessorAlone) {
  const auto first = Start("exec sleep 60");
  ASSERT_TRUE(first);
  ::kill(first->process.pid, SIGKILL);
  while (!ReapIfEnded(first->process.pid)) std::this_thread::sleep_for(1ms);
  const auto second = Start("exec sleep 60");
  ASSERT_TRUE(second);
  ASSERT_TRUE(servers_.Stop(*first, 0s));
  EXPECT_TRUE(IsAlive(second->process));
  EXPECT_THAT(servers_.List(), SizeIs(1)) << "it is known to everybody still";
}

TEST_F(NativeServersTest, OneThatExitsSaysWithWhat) {
  const auto started = Start("echo sightline: no weights >&2; exit 3");
  ASSERT_TRUE(started);
  const NativeEnd end = Wait(*started);
  EXPECT_EQ(end.kind, BootEndKind::kExited);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_THAT(end.last_lines, ElementsAre("sightline: no weights"));
}

TEST_F(NativeServersTest, SilentOneIsGivenUpAndGoesOn) {
  const auto started = Start("exec sleep 60");
  ASSERT_TRUE(started);
  EXPECT_EQ(Wait(*started, 30ms).kind, BootEndKind::kDeadline);
  EXPECT_THAT(servers_.List(), SizeIs(1));
}

TEST_F(NativeServersTest, WaitingEndsWhenAsked) {
  const auto started = Start("exec sleep 60");
  ASSERT_TRUE(started);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(servers_.WaitUntilReady(*started, 20s, {}, stop.get_token()).kind, BootEndKind::kCancelled);
}

TEST_F(NativeServersTest, LogsOfEarlierRunsAreKept) {
  for (int run = 0; run < 7; ++run) {
    const auto started = Start("echo run " + std::to_string(run) + "; exit 0");
    ASSERT_TRUE(started);
    ASSERT_EQ(Wait(*started).kind, BootEndKind::kExited);
  }
  const auto log = servers_.LogOf("org__name");
  EXPECT_THAT(LogReader(log).Read(), ElementsAre("run 6"));
  EXPECT_THAT(LogReader(log.string() + ".5").Read(), ElementsAre("run 1"));
  EXPECT_FALSE(std::filesystem::exists(log.string() + ".6"));
}

TEST_F(NativeServersTest, ProgramThatIsNotThereIsAnErrorAndNoServer) {
  const auto started = servers_.Start({"x", "x", "gaze-lle", 1, 0, {}, {}}, {"/nowhere/program"});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("/nowhere/program"));
  EXPECT_THAT(servers_.List(), IsEmpty());
}

TEST_F(NativeServersTest, TokensDoNotReachIt) {
  ::setenv("HF_TOKEN", "hf_secret", 1);
  const auto started = Start("env; exit 0");
  ::unsetenv("HF_TOKEN");
  ASSERT_TRUE(started);
  const NativeEnd end = Wait(*started);
  for (const std::string& line : end.last_lines) EXPECT_THAT(line, ::testing::Not(HasSubstr("hf_secret")));
}

TEST_F(NativeServersTest, DamagedRecordsAreNoServers) {
  std::filesystem::create_directories(folder_.path() / "servers");
  int number = 0;
  for (const char* text : {"", "{", "[]", "{\"pid\": \"x\"}", "null"}) {
    std::ofstream(folder_.path() / "servers" / (std::to_string(number++) + ".json")) << text;
  }
  EXPECT_THAT(servers_.List(), IsEmpty());
}

TEST(DetachedProcessTest, NothingIsStartedThatCouldNotBeAnnounced) {
  const TemporaryFolder folder;
  const auto mark = folder.path() / "mark";
  const DetachedCommand command{"/bin/sh", {"sh", "-c", "echo > " + mark.string()}, {}, folder.path() / "log"};
  const auto started =
      StartDetached(command, [](const ProcessIdentity&) -> Status { return Fail(Code::kNoSpace, "the disk is full"); });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kNoSpace);
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST(ProcessIdentityTest, ZombieIsNotAlive) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IdentifyProcess(child));
  ::waitpid(child, nullptr, 0);
}

TEST(NativeServersNameTest, IsAFileNameWhateverTheTarget) {
  EXPECT_EQ(NativeServers::NameOf("changh95/gaze-lle-p150"), "changh95__gaze-lle-p150");
  EXPECT_EQ(NativeServers::NameOf("oci://host:5000/a b:c").find('/'), std::string::npos);
  EXPECT_LE(NativeServers::NameOf(std::string(1000, 'x')).size(), 200u);
  EXPECT_NE(NativeServers::NameOf(std::string(1000, 'x')), NativeServers::NameOf(std::string(1001, 'x')));
}

TEST(LogReaderTest, GoesOnInTheNextFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  std::ofstream(path) << "one\ntw";
  LogReader reader(path);
  EXPECT_THAT(reader.Read(), ElementsAre("one"));
  std::ofstream(path, std::ios::app) << "o\n";
  ASSERT_TRUE(RotateFile(path, 2));
  std::ofstream(path) << "three\n";
  EXPECT_THAT(reader.Read(), ElementsAre("two", "three"));
}

TEST(LogReaderTest, EndlessLineComesInPieces) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  std::ofstream(path) << std::string(200'000, 'x');
  LogReader reader(path);
  for (const std::string& line : reader.Read()) EXPECT_LE(line.size(), 65'536u);
  EXPECT_LT(reader.Rest().size(), 65'536u);
}

TEST(LogTimeTest, SpansAndTimes) {
  const auto now = std::chrono::system_clock::from_time_t(1'767'225'600);  // 2026-01-01T00:00:00Z
  EXPECT_EQ(*LogTimeSince("90s", now), "2025-12-31T23:58:30.000Z");
  EXPECT_EQ(*LogTimeSince("1h30m", now), "2025-12-31T22:30:00.000Z");
  EXPECT_EQ(*LogTimeSince("2026-01-31", now), "2026-01-31T00:00:00.000Z");
  EXPECT_EQ(*LogTimeSince("2026-01-31T12:34", now), "2026-01-31T12:34:00.000Z");
  EXPECT_EQ(*LogTimeSince("2026-01-31T12:34:56.7Z", now), "2026-01-31T12:34:56.700Z");
  EXPECT_EQ(*LogTimeSince("2026-01-01t00:30:00.123456789+09:00", now), "2025-12-31T15:30:00.123Z");
  EXPECT_EQ(*LogTimeSince("2026-01-31 23:30:00-01:30", now), "2026-02-01T01:00:00.000Z");
  EXPECT_EQ(*LogTimeSince("1000000000d", now), "1970-01-01T00:00:00.000Z");
  for (const char* wrong :
       {"", "10", "m", "-5m", "yesterday", "2026-1-1", "99999999999999999999s", "2026-02-30", "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:60.Z", "2026-01-31T12:00:00+0900", "2026-01-31T12:00:00Zx", "2026-01-31T12"}) {
    EXPECT_EQ(LogTimeSince(wrong, now).error().code, Code::kUsage) << wrong;
  }
}

TEST(LogTimeTest, LinesWithoutTimeBelongToTheOneBefore) {
  const std::vector<std::string> lines{"2026-01-01T00:00:00.000Z info  a", "more of a",
                                       "2026-01-01T00:00:01.000Z info  b", "more of b"};
  EXPECT_THAT(LinesSince(lines, "2026-01-01T00:00:00.500Z"), ElementsAre(lines[2], lines[3]));
  EXPECT_THAT(LinesSince(lines, "2026-01-01T00:00:02.000Z"), IsEmpty());
  EXPECT_THAT(LinesSince(lines, ""), SizeIs(4));
}

}  // namespace
}  // namespace sightline
