#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "base/base.h"
#include "base/processors.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

// --- the team

TEST(ThreadTeam, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadTeam team(threads);
    ASSERT_EQ(team.size(), threads);
    for (const int64_t tasks : {0, 1, 2, 7, 64, 10000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(tasks));
      std::atomic<bool> members_valid{true};
      team.Run(tasks, [&](int64_t task, int member) {
        calls[static_cast<size_t>(task)]++;
        if (member < 0 || member >= threads) members_valid = false;
      });
      EXPECT_TRUE(members_valid);
      for (const auto& count : calls) ASSERT_EQ(count, 1);
    }
  }
}

// Many tiny Runs with a body each: a member that is late for one of them must neither run its tasks again nor run them
// with the wrong body. Tasks check themselves against a value that only their own Run holds.
TEST(ThreadTeam, LateMembersNeverMixRuns) {
  for (const int threads : {2, 5}) {
    ThreadTeam team(threads);
    for (int64_t run = 0; run < 20000; ++run) {
      const int64_t tasks = 2 + run % 6;
      int64_t written[8] = {};
      const int64_t stamp = run;
      team.Run(tasks, [&written, stamp](int64_t task, int) { written[task] += stamp + 1; });
      for (int64_t task = 0; task < 8; ++task) ASSERT_EQ(written[task], task < tasks ? run + 1 : 0) << run;
    }
  }
}

TEST(ThreadTeam, WakesAfterSleep) {
  ThreadTeam team(3);
  for (int run = 0; run < 20; ++run) {
    std::this_thread::sleep_for(std::chrono::microseconds(run * 100));
    std::atomic<int> calls{0};
    team.Run(5, [&](int64_t, int) { calls++; });
    EXPECT_EQ(calls, 5);
  }
}

TEST(ThreadTeam, UsesItsMembers) {
  ThreadTeam team(2);
  // Each of the two tasks waits for the other: one member alone could not end this.
  std::atomic<int> present{0};
  team.Run(2, [&](int64_t, int) {
    present++;
    while (present < 2) std::this_thread::yield();
  });
  EXPECT_EQ(present, 2);
}

TEST(ThreadTeam, CanBeUsedFromOneThreadAfterAnother) {
  ThreadTeam team(2);
  int64_t sum = 0;
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      std::atomic<int64_t> part{0};
      team.Run(4, [&](int64_t task, int) { part += task; });
      sum += part;
    }).join();
  }
  EXPECT_EQ(sum, 50 * 6);
}

TEST(ThreadTeam, ManyTeamsComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    ThreadTeam team(3);
    if (i % 2 == 0) continue;
    std::atomic<int> calls{0};
    team.Run(3, [&](int64_t, int) { calls++; });
    ASSERT_EQ(calls, 3);
  }
}

TEST(ThreadTeam, IdleMembersCostNothing) {
  ThreadTeam team(4);
  team.Run(8, [](int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.05);
}

#if defined(__x86_64__)
TEST(ThreadTeam, FlushesDenormalsAndRestoresTheCaller) {
  const auto product_is_zero = [] {
    volatile float tiny = std::numeric_limits<float>::min();
    volatile float half = 0.5f;
    return tiny * half == 0;
  };
  ASSERT_FALSE(product_is_zero());
  for (const int64_t tasks : {1, 100}) {
    ThreadTeam team(3);
    std::atomic<int64_t> flushed{0};
    team.Run(tasks, [&](int64_t, int) { flushed += product_is_zero(); });
    EXPECT_EQ(flushed, tasks);
    EXPECT_FALSE(product_is_zero());
  }
}
#endif

TEST(ThreadTeamDeathTest, ARunInsideARunIsABug) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        ThreadTeam team(2);
        team.Run(2, [&](int64_t, int) { team.Run(2, [](int64_t, int) {}); });
      },
      "broken invariant");
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  const auto lambda = [&calls](int add) { return calls += add; };
  const FunctionRef<int(int)> reference(lambda);
  EXPECT_EQ(reference(2), 2);
  EXPECT_EQ(FunctionRef<int(int)>(reference)(3), 5);
}

// --- processors, read from made-up system folders

class Processors : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sightline-cpus-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void Put(const std::string& path, const std::string& content) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  void PutCore(int cpu, int package, int core) {
    const std::string topology = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    Put(topology + "physical_package_id", std::to_string(package) + "\n");
    Put(topology + "core_id", std::to_string(core) + "\n");
  }
  ProcessorLimits Read(const std::vector<int>& cpus) { return ReadProcessorLimits(root_, cpus); }

  fs::path root_;
};

TEST_F(Processors, AffinityDecidesWhereNothingElseIsKnown) {
  EXPECT_EQ(Read({0, 1, 5}).sentence(), "3 threads: affinity 3, cgroup quota none, physical cores 3");
  EXPECT_EQ(Read({3}).sentence(), "1 thread: affinity 1, cgroup quota none, physical cores 1");
  EXPECT_EQ(Read({}).threads(), 1);
}

TEST_F(Processors, SiblingsShareACore) {
  for (int cpu = 0; cpu < 8; ++cpu) PutCore(cpu, cpu / 2 % 2, cpu % 2);  // 2 packages of 2 cores of 2 threads
  EXPECT_EQ(Read({0, 1, 2, 3, 4, 5, 6, 7}).physical_cores, 4);
  EXPECT_EQ(Read({0, 4}).physical_cores, 1);
  EXPECT_EQ(Read({0, 1, 2, 3, 4, 5, 6, 7}).threads(), 4);
}

TEST_F(Processors, CgroupV2QuotaIsRoundedUp) {
  Put("proc/self/cgroup", "0::/\n");
  Put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3}).sentence(), "2 threads: affinity 4, cgroup quota 2, physical cores 4");
  Put("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3}).threads(), 1);
  Put("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3}).quota, std::nullopt);
}

TEST_F(Processors, TheSmallestQuotaUpToTheRootCounts) {
  Put("proc/self/cgroup", "0::/machine/box/leaf\n");
  Put("sys/fs/cgroup/machine/cpu.max", "300000 100000\n");
  Put("sys/fs/cgroup/machine/box/cpu.max", "800000 100000\n");
  Put("sys/fs/cgroup/machine/box/leaf/cpu.max", "max 100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3, 4, 5, 6, 7}).quota, 3);
}

TEST_F(Processors, CgroupV1QuotaCounts) {
  Put("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/\n1:name=systemd:/x\n0::/\n");
  Put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3}).quota, std::nullopt);
  Put("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n");
  Put("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3}).quota, 3);
}

TEST_F(Processors, HostNamesInsideAContainerFallBackToTheMountPoint) {
  Put("proc/self/cgroup", "2:cpu:/docker/abc\n0::/../../elsewhere\n");
  Put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  Put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read({0, 1, 2, 3}).quota, 2);
}

TEST_F(Processors, NonsenseLimitsNothing) {
  Put("proc/self/cgroup", "garbage\n::\n0::\n:cpu:no/slash\n\n");
  for (const char* text : {"", "x y", "100000", "-5 100000", "100000 0", "99999999999999999999 1"}) {
    Put("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Read({0, 1}).threads(), 2) << text;
  }
  Put("sys/fs/cgroup/cpu.max", "9000000000000000000 1");
  EXPECT_EQ(Read({0, 1}).threads(), 2);
}

TEST(DefaultThreadCount, IsPossibleHereAndSaysWhy) {
  std::string why;
  const int threads = DefaultThreadCount(&why);
  EXPECT_GE(threads, 1);
  EXPECT_LE(threads, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_EQ(why.rfind(std::to_string(threads) + " thread", 0), 0u) << why;
}

}  // namespace
}  // namespace sightline
