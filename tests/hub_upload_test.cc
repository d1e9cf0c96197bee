#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "hub/hub.h"
#include "tests/support/local_hub.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::KeptProgress;
using testing::LocalHub;
using testing::Noise;
using ::testing::Not;

class HubUploadTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { local_ = new LocalHub(); }
  static void TearDownTestSuite() {
    delete local_;
    local_ = nullptr;
  }
  void SetUp() override {
    local_->Reset();
    local_->Set({{"part", 5 << 20}});
  }
  static LocalHub& local() { return *local_; }

  std::string NewRepo() {
    static int count = 0;
    const std::string repo = "org/push-" + std::to_string(count++);
    EXPECT_TRUE(*hub_.CreateRepo(repo, HubVisibility::kPrivate));
    return repo;
  }
  void Write(const std::string& path, const std::string& content) {
    fs::create_directories((source_ / path).parent_path());
    std::ofstream(source_ / path, std::ios::binary) << content;
  }
  HubUpload Upload(const std::string& repo) {
    HubUpload upload{repo};
    auto files = ListUploadFolder(source_);
    EXPECT_TRUE(files) << files.error().message;
    upload.files = std::move(*files);
    return upload;
  }
  // Whether the repository has exactly what the folder has.
  void ExpectSame(const std::string& repo) {
    const auto files = local().State(repo)["files"];
    const auto listed = ListUploadFolder(source_);
    EXPECT_EQ(files.size(), listed->size());
    for (const HubUploadFile& file : *listed) {
      const auto bytes = ReadFile(file.source, 100u << 20);
      ASSERT_TRUE(files.contains(file.path)) << file.path;
      EXPECT_EQ(files[file.path]["sha256"], Sha256Hex(*bytes)) << file.path;
    }
  }
  int Requests(const std::string& method, const std::string& part) {
    int count = 0;
    for (const auto& entry : local().Log()) {
      count += entry["method"] == method && std::string(entry["path"]).find(part) != std::string::npos ? 1 : 0;
    }
    return count;
  }

  TemporaryFolder folder_;
  const fs::path source_ = folder_.path() / "source";
  Hub hub_{local_->Settings(folder_.path() / "hub", "hf_write")};

 private:
  static inline LocalHub* local_ = nullptr;
};

TEST_F(HubUploadTest, FolderArrivesAndASecondPushDoesNothing) {
  const std::string repo = NewRepo();
  Write("README.md", "# one\n");
  Write("empty", "");
  Write("code/a.py", "print()\n");
  Write("image/blobs/sha256/ab", Noise(300'000));
  Write("model.bin", Noise(200'000, 2));
  Write(".git/config", "left out");
  Write(".cache/huggingface/x", "left out");
  KeptProgress progress;
  const auto report = hub_.Upload(Upload(repo), &progress);
  ASSERT_TRUE(report) << report.error().message;
  ExpectSame(repo);
  EXPECT_EQ(report->commit, local().State(repo)["commit"]);
  EXPECT_EQ(report->commits, 1);
  EXPECT_EQ(report->files_sent, 5);
  EXPECT_EQ(progress.last.phase, HubPhase::kCommitting);
  local().Reset();
  const auto again = hub_.Upload(Upload(repo));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->commits, 0);
  EXPECT_EQ(again->files_there, 5);
  EXPECT_EQ(again->commit, report->commit);
  EXPECT_EQ(Requests("POST", ""), 0);
  for (const auto& entry : local().Log()) EXPECT_THAT(std::string(entry["path"]), Not(HasSubstr("hf_write")));
}

TEST_F(HubUploadTest, LargeFilesGoInParts) {
  const std::string repo = NewRepo();
  local().Set({{"part", 100'000}});
  Write("model.safetensors", Noise(950'001));
  local().Fault({{"match", "PUT /store/"}, {"kind", "status"}, {"status", 500}, {"skip", 3}});
  ASSERT_TRUE(hub_.Upload(Upload(repo)));
  ExpectSame(repo);
  EXPECT_EQ(Requests("PUT", "/store/"), 11);
  EXPECT_EQ(Requests("POST", "/api/complete/"), 1);
  EXPECT_EQ(Requests("POST", "/api/verify/"), 1);
  for (const auto& entry : local().Log()) {
    EXPECT_FALSE(bool(entry["authorized"]) && std::string(entry["path"]).starts_with("/store/"));
  }
}

TEST_F(HubUploadTest, GoesOnWhereABrokenPushEnded) {
  const std::string repo = NewRepo();
  Write("a.bin", Noise(200'000, 3));
  Write("b.bin", Noise(200'000, 4));
  local().Fault({{"match", "POST /api/models/.*/commit"}, {"kind", "status"}, {"status", 403}});
  const auto refused = hub_.Upload(Upload(repo));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, HubFault::kForbidden);
  local().Reset();
  const auto report = hub_.Upload(Upload(repo));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(Requests("PUT", "/store/"), 0) << "what the storage had was sent again";
  EXPECT_EQ(report->bytes_sent, 0u);
  ExpectSame(repo);
}

TEST_F(HubUploadTest, CommitsOfOthersAreKept) {
  const std::string repo = NewRepo();
  Write("mine", "1");
  local().Fault({{"match", "POST /api/models/.*/commit"}, {"kind", "status"}, {"status", 412}, {"times", 2}});
  const auto report = hub_.Upload(Upload(repo));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(Requests("POST", "/commit/"), 3);
  EXPECT_EQ(report->commits, 1);
  EXPECT_EQ(report->files_sent, 1) << "a commit that was refused has sent nothing";
  EXPECT_EQ(report->bytes_sent, 1u);
  local().Put(repo, {{"theirs", "2"}});
  Write("mine", "3");
  ASSERT_TRUE(hub_.Upload(Upload(repo)));
  EXPECT_EQ(local().State(repo)["files"].size(), 2u);
}

TEST_F(HubUploadTest, ALostAnswerMakesNoSecondCommit) {
  const std::string repo = NewRepo();
  Write("a", "1");
  local().Fault({{"match", "POST /api/models/.*/commit"}, {"kind", "lost"}});
  const int before = local().State(repo)["commits"];
  const auto report = hub_.Upload(Upload(repo));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(local().State(repo)["commits"], before + 1);
  EXPECT_EQ(report->commits, 1);
  EXPECT_EQ(report->files_sent, 1);
  EXPECT_EQ(report->bytes_sent, 1u);
  ExpectSame(repo);
}

TEST_F(HubUploadTest, ManyFilesBecomeSeveralCommitsAndDeletionsGoAlong) {
  const std::string repo = NewRepo();
  for (int i = 0; i < 450; ++i) Write("f/" + std::to_string(i), std::to_string(i));
  const auto report = hub_.Upload(Upload(repo));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->commits, 3);
  HubUpload prune{repo};
  prune.deletions = {"f/1", "f/2", "f/not-there"};
  prune.summary = "drop 2 file(s)";
  const auto pruned = hub_.Upload(prune);
  ASSERT_TRUE(pruned) << pruned.error().message;
  EXPECT_EQ(pruned->deleted, 2);
  EXPECT_EQ(local().State(repo)["files"].size(), 448u);
}

TEST_F(HubUploadTest, RepositoriesAreMadeOnceAndTheirVisibilityChanged) {
  const std::string repo = NewRepo();
  EXPECT_FALSE(*hub_.CreateRepo(repo, HubVisibility::kPublic)) << "it was there";
  EXPECT_TRUE(bool(local().State(repo)["private"])) << "and its visibility is left alone";
  ASSERT_TRUE(hub_.SetVisibility(repo, HubVisibility::kPublic));
  EXPECT_FALSE(bool(local().State(repo)["private"]));
}

TEST_F(HubUploadTest, RefusalsSayWhatToDo) {
  const std::string repo = NewRepo();
  ASSERT_TRUE(hub_.SetVisibility(repo, HubVisibility::kPublic));
  Write("a", "1");
  const auto settings = [&](const std::string& token) { return local().Settings(folder_.path() / "hub", token); };
  const auto reader = Hub(settings("hf_read")).Upload(Upload(repo));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().fault, HubFault::kForbidden);
  EXPECT_THAT(reader.error().message, HasSubstr("right to read or write"));
  EXPECT_FALSE(Hub(settings("")).Upload(Upload(repo)));
  const auto nowhere = hub_.Upload(Upload("org/never-made"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().fault, HubFault::kNoRepo);
  HubUpload twice = Upload(repo);
  twice.files.push_back(twice.files.front());
  EXPECT_EQ(hub_.Upload(twice).error().code, Code::kUsage);
  HubUpload escape{repo};
  escape.files = {{"../a", source_ / "a"}};
  EXPECT_FALSE(hub_.Upload(escape));
  HubUpload absent{repo};
  absent.files = {{"b", source_ / "b"}};
  EXPECT_EQ(hub_.Upload(absent).error().code, Code::kNotFound);
}

TEST_F(HubUploadTest, LinksToFilesCountAndLinksToFoldersAreRefused) {
  Write("a", "1");
  fs::create_symlink("a", source_ / "b");
  EXPECT_EQ(ListUploadFolder(source_)->size(), 2u);
  fs::create_symlink("/", source_ / "root");
  EXPECT_THAT(ListUploadFolder(source_).error().message, HasSubstr("link to a folder"));
}

}  // namespace
}  // namespace sightline
