#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "containers/containers.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProcessCommand Shell(const std::string& script) { return {{"sh", "-c", script}}; }

// Whether a process with this number, as a file holds it, is still there.
bool IsAlive(const std::filesystem::path& file) {
  pid_t pid = 0;
  std::ifstream(file) >> pid;
  return pid > 0 && ::kill(pid, 0) == 0;
}

TEST(ProcessTest, GivesOutputAndExitCode) {
  const auto output = RunProcess(Shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->exit_code, 3);
  EXPECT_EQ(output->standard_output, "out\n");
  EXPECT_EQ(output->standard_error, "err\n");
}

TEST(ProcessTest, PassesArgumentsWithoutAShell) {
  const auto output = RunProcess({{"printf", "%s|", "a b", "$HOME", "*", "", "'\""}});
  ASSERT_TRUE(output);
  EXPECT_EQ(output->standard_output, "a b|$HOME|*||'\"|");
}

TEST(ProcessTest, EndsBySignalAsShellsSayIt) {
  EXPECT_EQ(RunProcess(Shell("kill -9 $$"))->exit_code, 137);
  EXPECT_EQ(RunProcess(Shell("kill -15 $$"))->exit_code, 143);
}

TEST(ProcessTest, UnknownProgramIsNamed) {
  const auto output = RunProcess({{"no-such-program-anywhere"}});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::kNotFound);
  EXPECT_EQ(output.error().message, "no-such-program-anywhere: there is no such program");
}

TEST(ProcessTest, HasItsOwnEnvironmentFolderAndNoInput) {
  const TemporaryFolder folder;
  ProcessCommand command = Shell("pwd -P; echo $GREETING; cat; echo end");
  command.environment = {{"GREETING", "hello"}};
  command.folder = folder.path();
  const auto output = RunProcess(command);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->standard_output, std::filesystem::canonical(folder.path()).string() + "\nhello\nend\n");
}

TEST(ProcessTest, ChildSeesOnlyItsThreeFiles) {
  const std::ifstream open("/dev/null");  // not closed on exec
  const auto output = RunProcess(Shell("ls /proc/self/fd | wc -l"));
  ASSERT_TRUE(output);
  EXPECT_EQ(std::stoi(output->standard_output), 4);  // and the folder that ls reads
}

TEST(ProcessTest, KeepsNoMoreThanTheLimitAndNeverBlocks) {
  ProcessLimits limits;
  limits.max_output_bytes = 1000;
  const auto output = RunProcess(Shell("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2; echo x"), limits);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->exit_code, 0);
  EXPECT_EQ(output->standard_output.size(), 1000u);
  EXPECT_EQ(output->standard_error.size(), 1000u);
}

TEST(ProcessTest, TimeIsUpForTheWholeGroup) {
  const TemporaryFolder folder;
  ProcessCommand command = Shell("sleep 100 & echo $! > inner; trap '' TERM; while :; do sleep 0.1; done");
  command.folder = folder.path();
  ProcessLimits limits;
  limits.timeout = milliseconds(300);
  limits.grace = milliseconds(300);
  const auto start = Clock::now();
  const auto output = RunProcess(command, limits);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::kDeadline);
  EXPECT_EQ(output.error().message, "sh -c: did not finish within 0.3 s");
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
  EXPECT_FALSE(IsAlive(folder.path() / "inner"));
}

TEST(ProcessTest, PoliteEndComesFirst) {
  const TemporaryFolder folder;
  ProcessCommand command = Shell("trap 'echo bye > bye; exit 0' TERM; while :; do sleep 0.05; done");
  command.folder = folder.path();
  ProcessLimits limits;
  limits.timeout = milliseconds(300);
  EXPECT_EQ(RunProcess(command, limits).error().code, Code::kDeadline);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "bye"));
}

TEST(ProcessTest, StopsWhenAsked) {
  std::stop_source source;
  std::jthread later([&source] {
    std::this_thread::sleep_for(milliseconds(200));
    source.request_stop();
  });
  ProcessLimits limits;
  limits.stop = source.get_token();
  const auto start = Clock::now();
  const auto output = RunProcess(Shell("sleep 100"), limits);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, Code::kCancelled);
  EXPECT_LT(Clock::now() - start, milliseconds(3000));
}

// As `podman run --detach` leaves its monitor behind.
TEST(ProcessTest, WhatIsLeftBehindDoesNotHoldUs) {
  const auto start = Clock::now();
  const auto output = RunProcess(Shell("sleep 3 & echo started"));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->standard_output, "started\n");
  EXPECT_LT(Clock::now() - start, milliseconds(2500));
}

std::vector<std::string> Lines(const std::string& script, StreamEnd expected = StreamEnd::kExited) {
  std::vector<std::string> lines;
  const auto result = StreamProcess(Shell(script), {}, [&lines](std::string_view line) {
    lines.emplace_back(line);
    return true;
  });
  EXPECT_TRUE(result);
  EXPECT_EQ(result->end, expected);
  return lines;
}

TEST(StreamTest, AllLineEndsCount) {
  EXPECT_THAT(Lines(R"(printf 'a\nb\r\nc\rd\n\ne')"), ElementsAre("a", "b", "c", "d", "", "e"));
  EXPECT_THAT(Lines(R"(printf 'a\r'; sleep 0.1; printf '\nb')"), ElementsAre("a", "b"));
}

TEST(StreamTest, ErrorsComeInOrderWithOutput) {
  EXPECT_THAT(Lines("echo 1; echo 2 >&2; echo 3"), ElementsAre("1", "2", "3"));
}

TEST(StreamTest, BadBytesAreReplaced) {
  EXPECT_THAT(Lines(R"(printf 'a\377b\n\303\251\n\355\240\200\n\360\237\230')"),
              ElementsAre("a\xEF\xBF\xBD"
                          "b",
                          "é", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", "\xEF\xBF\xBD"));
}

TEST(StreamTest, EndlessLinesComeInPieces) {
  size_t longest = 0, total = 0;
  ASSERT_TRUE(StreamProcess(Shell("head -c 1000000 /dev/zero | tr '\\0' x"), {}, [&](std::string_view line) {
    longest = std::max(longest, line.size());
    total += line.size();
    return true;
  }));
  EXPECT_EQ(total, 1000000u);
  EXPECT_LE(longest, 64u * 1024u);
}

TEST(StreamTest, EnoughEndsTheProcess) {
  const TemporaryFolder folder;
  ProcessCommand command = Shell("echo $$ > pid; while :; do echo x; sleep 0.01; done");
  command.folder = folder.path();
  int lines = 0;
  const auto result = StreamProcess(command, {}, [&lines](std::string_view) { return ++lines < 3; });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->end, StreamEnd::kSatisfied);
  EXPECT_EQ(lines, 3);
  EXPECT_FALSE(IsAlive(folder.path() / "pid"));
}

TEST(StreamTest, SilenceEndsAtTheDeadline) {
  ProcessLimits limits;
  limits.timeout = milliseconds(200);
  const auto start = Clock::now();
  const auto result = StreamProcess(Shell("sleep 100"), limits, [](std::string_view) { return true; });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->end, StreamEnd::kDeadline);
  EXPECT_LT(Clock::now() - start, milliseconds(3000));
}

TEST(StreamTest, TellsTheExitCode) {
  const auto result = StreamProcess(Shell("echo x; exit 5"), {}, [](std::string_view) { return true; });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_code, 5);
}

}  // namespace
}  // namespace sightline
