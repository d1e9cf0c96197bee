// Processes that race, die, run out of disk, or may not write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "hub/hub.h"
#include "tests/support/local_hub.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using testing::ChildProcess;
using ::testing::HasSubstr;
using testing::LocalHub;
using testing::Noise;

constexpr const char* kRepo = "org/package";

class HubProcessesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    local_ = new LocalHub();
    std::map<std::string, std::string> files{{"README.md", "# hello\n"}, {"tt_kernel_manifest.json", "{}"}};
    for (uint64_t i = 0; i < 6; ++i) files["image/blobs/" + std::to_string(i)] = Noise(400'000 + 1000 * i, i);
    for (int i = 0; i < 20; ++i) files["code/" + std::to_string(i)] = std::to_string(i);
    local_->Put(kRepo, files);
  }
  static void TearDownTestSuite() {
    delete local_;
    local_ = nullptr;
  }
  void SetUp() override { local_->Reset(); }
  static LocalHub& local() { return *local_; }

  std::map<std::string, std::string> Environment(const fs::path& cache) const {
    return {{"HF_ENDPOINT", local_->hub}, {"HF_HUB_CACHE", cache.string()}, {"HF_HOME", cache.string()},
            {"HUB_PROGRAM_FAST", "1"},    {"HUB_PROGRAM_RANGE", "100000"},  {"HF_TOKEN", ""},
            {"HF_HUB_OFFLINE", ""}};
  }
  static std::vector<std::string> Download() { return {SIGHTLINE_HUB_PROGRAM, "download", kRepo}; }

  // Everything is there, right, and without a problem.
  void ExpectClean(const fs::path& cache, bool complete) {
    const HubCache there(cache);
    if (!fs::exists(cache / CacheFolderName(kRepo))) return;
    const auto report = there.Verify(kRepo, false);
    ASSERT_TRUE(report) << report.error().message;
    for (const CacheProblem& problem : report->problems) ADD_FAILURE() << problem.sentence;
    if (!complete) return;
    const auto snapshot = there.FindComplete(kRepo, "main");
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    EXPECT_EQ(report->blobs, 28);
    EXPECT_EQ(report->unfinished, 0);
  }

  void KillInALoop(int rounds) {
    // Slower than any machine: a whole download takes several times the longest wait for the kill.
    local().Fault({{"match", "GET /objects/"}, {"kind", "slow"}, {"rate", 1'000'000}, {"times", 100'000}});
    std::mt19937 random(42);
    TemporaryFolder folder;
    int killed = 0;
    for (int round = 0; round < rounds; ++round) {
      ChildProcess child(Download(), Environment(folder.path() / "hub"));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 120));
      killed += child.Kill() == -SIGKILL ? 1 : 0;
      ExpectClean(folder.path() / "hub", false);
      if (HasFailure()) break;
      if (HubCache(folder.path() / "hub").FindComplete(kRepo, "main")) fs::remove_all(folder.path() / "hub");
    }
    EXPECT_GT(killed, rounds / 2) << "most rounds should end in the middle";
    local().Reset();
    ChildProcess last(Download(), Environment(folder.path() / "hub"));
    EXPECT_EQ(last.Wait(), 0);
    ExpectClean(folder.path() / "hub", true);
  }

  TemporaryFolder folder_;

 private:
  static inline LocalHub* local_ = nullptr;
};

TEST_F(HubProcessesTest, TwoAtOnceFetchEachByteOnce) {
  local().Fault({{"match", "GET /objects/"}, {"kind", "slow"}, {"rate", 2'000'000}, {"times", 1000}});
  {
    ChildProcess one(Download(), Environment(folder_.path())), two(Download(), Environment(folder_.path()));
    EXPECT_EQ(one.Wait(), 0);
    EXPECT_EQ(two.Wait(), 0);
  }
  ExpectClean(folder_.path(), true);
  uint64_t bytes = 0;
  for (const auto& entry : local().Log()) {
    if (std::string(entry["path"]).starts_with("/objects/")) bytes += uint64_t{entry["bytes"]};
  }
  EXPECT_EQ(bytes, 6u * 400'000 + 15 * 1000);
}

TEST_F(HubProcessesTest, KilledAtAnyMomentLeavesARightCache) { KillInALoop(40); }

TEST_F(HubProcessesTest, Long_KilledTwoHundredTimes) { KillInALoop(200); }

TEST_F(HubProcessesTest, ADyingHolderOfTheLockHoldsNobodyUp) {
  local().Fault({{"match", "GET /objects/"}, {"kind", "slow"}, {"rate", 50'000}, {"times", 4}});
  {
    ChildProcess slow(Download(), Environment(folder_.path()));
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  }
  ChildProcess next(Download(), Environment(folder_.path()));
  EXPECT_EQ(next.Wait(), 0);
  ExpectClean(folder_.path(), true);
}

// A file system of a few megabytes, gone with the test.
class SmallDisk {
 public:
  SmallDisk(const fs::path& path, const char* options) : path_(path) {
    fs::create_directories(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_;
};

TEST_F(HubProcessesTest, AFullDiskIsToldBeforeAndWhileLoading) {
  const SmallDisk disk(folder_.path() / "disk", "size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs is not allowed here";
  Hub hub(local().Settings(folder_.path() / "disk"));
  const auto refused = hub.Download({kRepo});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_THAT(refused.error().message, HasSubstr("2.4 MB are to be loaded"));
  EXPECT_THAT(refused.error().message, HasSubstr("HF_HUB_CACHE"));
  EXPECT_FALSE(fs::exists(folder_.path() / "disk" / CacheFolderName(kRepo))) << "nothing was begun";

  // Somebody else takes the space meanwhile.
  const SmallDisk other(folder_.path() / "other", "size=3m");
  local().Fault({{"match", "GET /objects/"}, {"kind", "slow"}, {"rate", 1'000'000}, {"times", 1000}});
  std::jthread eater([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    std::ofstream(folder_.path() / "other/full", std::ios::binary) << std::string(3u << 20, 'x');
  });
  Hub loading(local().Settings(folder_.path() / "other"));
  const auto full = loading.Download({kRepo});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kNoSpace) << full.error().message;
  EXPECT_THAT(full.error().message, HasSubstr("what was loaded is kept"));
  eater.join();
  fs::remove(folder_.path() / "other/full");
  ExpectClean(folder_.path() / "other", false);
  local().Reset();
  const auto resumed = loading.Download({kRepo});
  ASSERT_TRUE(resumed) << resumed.error().message;
  ExpectClean(folder_.path() / "other", true);
}

TEST_F(HubProcessesTest, AReadOnlyCacheServesWhatItHas) {
  const fs::path path = folder_.path() / "disk";
  const SmallDisk disk(path, "size=16m");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs is not allowed here";
  Hub hub(local().Settings(path));
  ASSERT_TRUE(hub.Download({kRepo, "main", {{}, {"code/*"}}}));
  ASSERT_EQ(::mount("none", path.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_TRUE(hub.Download({kRepo, "main", {{}, {"code/*"}}})) << "everything is there";
  EXPECT_TRUE(hub.Fetch(kRepo, "main", "README.md"));
  const auto refused = hub.Download({kRepo});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoPermission);
  EXPECT_THAT(refused.error().message, HasSubstr("set HF_HUB_CACHE"));
  ASSERT_EQ(::mount("none", path.c_str(), nullptr, MS_REMOUNT, nullptr), 0);
  EXPECT_TRUE(hub.Download({kRepo}));
}

}  // namespace
}  // namespace sightline
