#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <map>

#include "hub/hub.h"
#include "tests/support/temporary_folder.h"

static std::atomic<bool> no_locks{false};

// In place of the C library's: a disk that knows no locks, where a test wants one.
extern "C" int flock(int descriptor, int operation) {
  if (!no_locks) return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
  errno = ENOLCK;
  return -1;
}

namespace sightline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kFirst = "f83e53f0f17dd2175f31ceaf9fa650044147ada1";
constexpr const char* kSecond = "f83e53f0ffffffffffffffffffffffffffffffff";
constexpr const char* kThird = "c32291ca5e996f5a7a485845b4f57a233936bba0";

std::string BlobName(const std::string& content) { return Sha256Hex(AsBytes(content)); }

// A cache as other programs leave it: org/name with the contents "alpha" and "beta" in three snapshots.
class HubCacheTest : public ::testing::Test {
 protected:
  HubCacheTest() {
    Blob("alpha");
    Blob("beta");
    Link(kFirst, "a.txt", "alpha");
    Link(kFirst, "deep/er/b.txt", "beta");
    Link(kSecond, "a.txt", "alpha");
    Link(kThird, "b.txt", "beta");
    Write(repo_ / "refs/main", kFirst);
    Write(repo_ / "refs/refs/pr/1", kThird);
  }

  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void Blob(const std::string& content) { Write(repo_ / "blobs" / BlobName(content), content); }
  void Link(const std::string& commit, const std::string& path, const std::string& content) {
    const fs::path link = repo_ / "snapshots" / commit / path;
    fs::create_directories(link.parent_path());
    std::string up = "../../";
    for (const char c : path) up += c == '/' ? "../" : "";
    fs::create_symlink(up + "blobs/" + BlobName(content), link);
  }
  CacheReport Verify(bool repair = false) {
    const auto report = cache_.Verify("org/name", repair);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : CacheReport();
  }
  bool Has(const CacheReport& report, CacheProblemKind kind) {
    return std::any_of(report.problems.begin(), report.problems.end(),
                       [kind](const CacheProblem& problem) { return problem.kind == kind; });
  }

  TemporaryFolder folder_;
  const fs::path root_ = folder_.path() / "hub";
  const fs::path repo_ = root_ / "models--org--name";
  const HubCache cache_{root_};
};

TEST_F(HubCacheTest, FindsCommitsRefsAndUnambiguousPrefixes) {
  EXPECT_EQ(cache_.Find("org/name")->commit, kFirst);
  EXPECT_EQ(cache_.Find("org/name", "refs/pr/1")->commit, kThird);
  EXPECT_EQ(cache_.Find("org/name", kSecond)->folder, repo_ / "snapshots" / kSecond);
  EXPECT_EQ(cache_.Find("org/name", "c32291")->commit, kThird);
  EXPECT_EQ(cache_.Find("org/name", "f83e53f0f1")->commit, kFirst);
  for (const char* absent : {"f83e53f0", "c32", "v1", "0000000000000000000000000000000000000000"}) {
    EXPECT_EQ(cache_.Find("org/name", absent).error().fault, HubFault::kNoRevision) << absent;
  }
  EXPECT_EQ(cache_.Find("org/other").error().fault, HubFault::kNoRevision);
  EXPECT_THAT(cache_.Find("org/other").error().message, HasSubstr("pull it first"));
}

TEST_F(HubCacheTest, RevisionsThatLeadOutAreRefused) {
  Write(root_ / "elsewhere", kFirst);
  for (const char* bad : {"../../elsewhere", "/etc/passwd", "..", "a/../../b", ""}) {
    EXPECT_EQ(cache_.Find("org/name", bad).error().fault, HubFault::kUnsafe) << bad;
    EXPECT_EQ(cache_.BytesThere("org/name", bad), 0u) << bad;  // spec, case 66
  }
  Write(repo_ / "refs/evil", "../../../etc");
  EXPECT_EQ(cache_.Find("org/name", "evil").error().fault, HubFault::kNoRevision);
  EXPECT_FALSE(cache_.FindFile("org/name", "main", "../../../../elsewhere"));
}

TEST_F(HubCacheTest, CountsEachContentOnceAndUnfinishedOnes) {
  EXPECT_EQ(cache_.BytesThere("org/name", "main"), 9u);
  EXPECT_EQ(cache_.BytesThere("org/name", kThird), 4u);
  Write(repo_ / "blobs" / (BlobName("gamma") + ".incomplete"), "gam");
  EXPECT_EQ(cache_.BytesThere("org/name", kThird), 7u);
  const auto repo = cache_.Describe("org/name");
  ASSERT_TRUE(repo);
  EXPECT_EQ(repo->bytes, 9u);
  EXPECT_EQ(repo->unfinished_bytes, 3u);
  ASSERT_EQ(repo->revisions.size(), 3u);
  std::map<std::string, CachedRevision> revisions;
  for (const CachedRevision& revision : repo->revisions) revisions[revision.commit] = revision;
  EXPECT_EQ(revisions[kFirst].files, 2);
  EXPECT_EQ(revisions[kFirst].refs, std::vector<std::string>{"main"});
  EXPECT_EQ(revisions[kThird].refs, std::vector<std::string>{"refs/pr/1"});
  const auto list = cache_.List();
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->front().id, "org/name");
  EXPECT_TRUE(HubCache(root_ / "absent").List()->empty());
}

TEST_F(HubCacheTest, CompleteMeansTheListWhereThereIsOne) {
  EXPECT_TRUE(cache_.FindComplete("org/name", "main"));
  Write(repo_ / "blobs" / (BlobName("gamma") + ".incomplete"), "gam");
  EXPECT_EQ(cache_.FindComplete("org/name", "main").error().fault, HubFault::kIncomplete);
  // As huggingface_hub 2.4 writes it.
  const std::string a =
      R"("a.txt": {"size": 5, "blob_id": "0123456789012345678901234567890123456789", "lfs_sha256": ")" +
      BlobName("alpha") + R"(", "lfs_size": 5})";
  const std::string c = R"("c.txt": {"size": 1, "blob_id": "0123456789012345678901234567890123456789"})";
  Write(repo_ / "trees" / (std::string(kFirst) + ".json"), R"({"format_version": 1, "files": {)" + a + ", " + c + "}}");
  const auto part = cache_.FindComplete("org/name", "main");
  ASSERT_FALSE(part);
  EXPECT_THAT(part.error().message, HasSubstr("c.txt"));
  const auto chosen = cache_.FindComplete("org/name", "main", {{}, {"c.*"}});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->bytes, 5u);
  for (const char* broken : {"", "[]", "{\"format_version\": 1, \"files\": {\"../x\": {\"size\": 1}}}"}) {
    Write(repo_ / "trees" / (std::string(kFirst) + ".json"), broken);
    EXPECT_EQ(cache_.FindComplete("org/name", "main").error().fault, HubFault::kIncomplete) << broken;
  }
}

TEST_F(HubCacheTest, MainRefIsMadeOnce) {
  EXPECT_FALSE(*cache_.EnsureMainRef("org/name", kThird));
  EXPECT_EQ(cache_.Find("org/name")->commit, kFirst);
  fs::remove(repo_ / "refs/main");
  EXPECT_TRUE(*cache_.EnsureMainRef("org/name", kThird));
  EXPECT_EQ(cache_.Find("org/name")->commit, kThird);
}

TEST_F(HubCacheTest, VerifyReadsEveryBlob) {
  const CacheReport report = Verify();
  EXPECT_TRUE(report.problems.empty());
  EXPECT_EQ(report.blobs, 2);
  EXPECT_EQ(report.bytes, 9u);
}

TEST_F(HubCacheTest, VerifyFindsAndRepairs) {
  Write(repo_ / "blobs" / BlobName("beta"), "bela");
  Write(repo_ / "blobs" / "notes.txt", "mine");
  Write(repo_ / "refs/gone", "0000000000000000000000000000000000000000");
  Write(folder_.path() / "secret", "s");
  fs::create_symlink(folder_.path() / "secret", repo_ / "snapshots" / kSecond / "out.txt");
  fs::create_symlink("../../blobs/" + BlobName("never"), repo_ / "snapshots" / kSecond / "dangling.txt");
  const CacheReport found = Verify();
  EXPECT_EQ(found.problems.size(), 5u);
  for (const auto kind : {CacheProblemKind::kWrongDigest, CacheProblemKind::kForeign, CacheProblemKind::kBrokenRef,
                          CacheProblemKind::kOutside, CacheProblemKind::kDangling}) {
    EXPECT_TRUE(Has(found, kind));
  }
  EXPECT_TRUE(fs::exists(repo_ / "blobs" / BlobName("beta"))) << "without repair nothing is removed";
  Verify(true);
  EXPECT_FALSE(fs::exists(repo_ / "blobs" / BlobName("beta")));
  EXPECT_TRUE(fs::exists(folder_.path() / "secret"));
  const CacheReport after = Verify();
  ASSERT_EQ(after.problems.size(), 1u) << "a foreign file is told and left alone";
  EXPECT_EQ(after.problems.front().kind, CacheProblemKind::kForeign);
}

TEST_F(HubCacheTest, SharedBlobsOfThePythonPackageAreNoProblem) {
  const fs::path shared = root_ / "blobs" / "ab" / std::string(64, 'a');
  Write(shared, "beta");
  fs::remove(repo_ / "blobs" / BlobName("beta"));
  fs::create_symlink("../../blobs/ab/" + std::string(64, 'a'), repo_ / "blobs" / BlobName("beta"));
  EXPECT_TRUE(Verify().problems.empty());
  Write(folder_.path() / "outside", "beta");
  fs::remove(repo_ / "blobs" / BlobName("beta"));
  fs::create_symlink(folder_.path() / "outside", repo_ / "blobs" / BlobName("beta"));
  EXPECT_TRUE(Has(Verify(), CacheProblemKind::kOutside));
}

TEST_F(HubCacheTest, RemovingARevisionKeepsWhatOthersUse) {
  ASSERT_TRUE(cache_.RemoveRevision("org/name", kFirst));
  EXPECT_FALSE(fs::exists(repo_ / "snapshots" / kFirst));
  EXPECT_FALSE(fs::exists(repo_ / "refs/main"));
  EXPECT_TRUE(fs::exists(repo_ / "snapshots" / kSecond / "a.txt"));
  ASSERT_TRUE(cache_.RemoveRevision("org/name", kThird));
  EXPECT_FALSE(fs::exists(repo_ / "blobs" / BlobName("beta")));
  EXPECT_TRUE(Verify().problems.empty());
  EXPECT_TRUE(*cache_.Remove("org/name"));
  EXPECT_FALSE(fs::exists(repo_));
  EXPECT_FALSE(*cache_.Remove("org/name"));
}

// A folder that cannot be listed is not an empty one. Links that lead to themselves or nowhere stand for broken disks.
TEST_F(HubCacheTest, WhatCannotBeListedIsAnError) {
  for (const char* name : {"snapshots", "blobs", "refs"}) {
    for (const char* target : {name, "not-mounted"}) {
      fs::rename(repo_ / name, folder_.path() / "aside");
      fs::create_symlink(target, repo_ / name);
      const auto verified = cache_.Verify("org/name", true);
      ASSERT_FALSE(verified) << name;
      EXPECT_THAT(verified.error().message, HasSubstr((repo_ / name).string()));
      EXPECT_FALSE(cache_.Describe("org/name"));
      if (name != std::string("refs")) {
        EXPECT_FALSE(cache_.CollectGarbage("org/name")) << name;
      }
      fs::remove(repo_ / name);
      fs::rename(folder_.path() / "aside", repo_ / name);
      EXPECT_EQ(Verify().blobs, 2) << "nothing of it was removed";
    }
  }
}

TEST_F(HubCacheTest, WithoutLocksNothingIsTakenForGarbage) {
  Blob("unused");
  no_locks = true;
  const auto freed = cache_.CollectGarbage("org/name");
  no_locks = false;
  ASSERT_TRUE(freed);
  EXPECT_EQ(*freed, 0u);
  EXPECT_EQ(Verify().blobs, 3);
}

TEST_F(HubCacheTest, WhatAnotherProcessWorksOnIsNoGarbage) {
  Blob("unused");
  const fs::path lock = root_ / ".locks/models--org--name" / (BlobName("unused") + ".lock");
  Write(lock, "");
  const int held = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  EXPECT_EQ(*cache_.CollectGarbage("org/name"), 0u);
  ::close(held);
  EXPECT_EQ(*cache_.CollectGarbage("org/name"), 6u);
}

TEST_F(HubCacheTest, KilledRemovalsAreFinished) {
  const fs::path trash = root_ / ".sightline-4194304-models--org--gone";  // no process has such a number
  const auto strand = [&] { Write(trash / "blobs/a", "12345"); };
  strand();
  EXPECT_TRUE(Verify(false).problems.empty());
  EXPECT_TRUE(fs::exists(trash)) << "looking removes nothing";
  Verify(true);
  EXPECT_FALSE(fs::exists(trash));
  strand();
  EXPECT_EQ(*cache_.CollectGarbage("org/name"), 5u);
  EXPECT_FALSE(fs::exists(trash));
  strand();
  EXPECT_FALSE(*cache_.Remove("org/other"));
  EXPECT_FALSE(fs::exists(trash));
  strand();
  EXPECT_TRUE(*cache_.Remove("org/name"));
  EXPECT_FALSE(fs::exists(trash));
  strand();
  EXPECT_EQ(*cache_.CollectTrash(), 5u);
  EXPECT_EQ(*cache_.CollectTrash(), 0u);
}

TEST_F(HubCacheTest, GarbageIsWhatNothingRefersTo) {
  Blob("unused");
  Write(repo_ / "blobs" / (BlobName("gamma") + ".incomplete"), "gam");
  Write(repo_ / ".sightline-4194304-0.tmp", "left");  // no process has such a number
  const auto freed = cache_.CollectGarbage("org/name");
  ASSERT_TRUE(freed);
  EXPECT_EQ(*freed, 6u + 3u + 4u);
  EXPECT_TRUE(Verify().problems.empty());
  EXPECT_EQ(Verify().blobs, 2);
  EXPECT_FALSE(fs::exists(repo_ / ".sightline-4194304-0.tmp"));
}

}  // namespace
}  // namespace sightline
