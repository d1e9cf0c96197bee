#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <thread>

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

std::string Content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class HubDownloadTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { local_ = new LocalHub(); }
  static void TearDownTestSuite() {
    delete local_;
    local_ = nullptr;
  }
  void SetUp() override {
    local_->Reset();
    local_->Set({{"page", 1000}, {"lfs", 64 << 10}});
  }
  static LocalHub& local() { return *local_; }
  fs::path cache() const { return folder_.path() / "hub"; }
  fs::path RepoPath(const std::string& repo) const { return cache() / CacheFolderName(repo); }
  HubSettings Settings(const std::string& token = {}) const { return local_->Settings(cache(), token); }

  // A repository of its own per test.
  static std::string NewRepo(const std::map<std::string, std::string>& files,
                             const nlohmann::json& properties = nlohmann::json::object()) {
    static int count = 0;
    std::string name = "org/repo-" + std::to_string(count++);
    local_->Put(name, files, properties);
    return name;
  }

 private:
  static inline LocalHub* local_ = nullptr;
  TemporaryFolder folder_;
};

const std::map<std::string, std::string>& PlainFiles() {
  static const std::map<std::string, std::string> files{
      {"README.md", "# hello\n"},   {"config.json", "{}"},           {"empty", ""},
      {"code/a/b.py", "print()\n"}, {"copy/of.bin", Noise(200'000)}, {"model.bin", Noise(200'000)},
      {"a b/ü%20#?.txt", "odd"}};
  return files;
}

TEST_F(HubDownloadTest, SnapshotHasTheLayoutOfThePythonPackage) {
  const std::string repo = NewRepo(PlainFiles());
  Hub hub(Settings());
  KeptProgress progress;
  const auto snapshot = hub.Download({repo}, &progress);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  const std::string commit = local().State(repo)["commit"];
  EXPECT_EQ(snapshot->commit, commit);
  EXPECT_TRUE(snapshot->fetched);
  EXPECT_EQ(snapshot->folder, RepoPath(repo) / "snapshots" / commit);
  for (const auto& [path, content] : PlainFiles()) EXPECT_EQ(Content(snapshot->folder / path), content) << path;
  EXPECT_EQ(Content(RepoPath(repo) / "refs/main"), commit);  // no line end
  const std::string sha256 = Sha256Hex(AsBytes(Noise(200'000)));
  EXPECT_EQ(fs::read_symlink(snapshot->folder / "model.bin"), "../../blobs/" + sha256);
  EXPECT_EQ(fs::read_symlink(snapshot->folder / "copy/of.bin"), "../../../blobs/" + sha256);
  EXPECT_EQ(fs::read_symlink(snapshot->folder / "empty"), "../../blobs/e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_TRUE(fs::exists(cache() / ".locks" / CacheFolderName(repo) / (sha256 + ".lock")));
  EXPECT_TRUE(fs::exists(cache() / "CACHEDIR.TAG"));
  EXPECT_EQ(progress.last.files_done, 7);
  EXPECT_EQ(progress.last.bytes_done, progress.last.bytes_total);
  EXPECT_EQ(progress.last.bytes_total, snapshot->bytes);
}

TEST_F(HubDownloadTest, SecondTimeNothingIsFetched) {
  const std::string repo = NewRepo(PlainFiles());
  Hub hub(Settings());
  const auto first = hub.Download({repo});
  ASSERT_TRUE(first) << first.error().message;
  local().Reset();
  const auto second = hub.Download({repo});
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->fetched);
  EXPECT_EQ(second->folder, first->folder);
  EXPECT_EQ(local().BytesSent(), 0u);
  local().Reset();
  ASSERT_TRUE(hub.Download({repo, first->commit}));
  EXPECT_TRUE(local().Log().empty()) << "a pinned snapshot that is complete needs no request";
}

TEST_F(HubDownloadTest, PatternsAndPagesOfTheTree) {
  local().Set({{"page", 2}});
  const std::string repo = NewRepo(PlainFiles());
  Hub hub(Settings());
  const auto snapshot = hub.Download({repo, "main", {{"*.json", "code/"}, {}}});
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_TRUE(fs::exists(snapshot->folder / "config.json"));
  EXPECT_TRUE(fs::exists(snapshot->folder / "code/a/b.py"));
  EXPECT_FALSE(fs::exists(snapshot->folder / "model.bin"));
  const auto tree = hub.Tree(repo, "main");
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->size(), PlainFiles().size());
}

TEST_F(HubDownloadTest, PagesMayHoldFoldersAloneAndMustEnd) {
  const std::string repo = NewRepo({{"a/b/c/d.txt", "1"}, {"e", "2"}});
  local().Set({{"page", 1}});
  Hub hub(Settings());
  const auto tree = hub.Tree(repo, "main");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(tree->size(), 2u);
  local().Set({{"page", 0}});  // the next page is the same one
  const auto endless = hub.Tree(repo, "main");
  local().Set({{"page", 1000}});
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().fault, HubFault::kDamaged);
}

TEST_F(HubDownloadTest, TheListIsKeptAlsoWhereNothingIsMissing) {
  const std::string repo = NewRepo(PlainFiles());
  Hub hub(Settings());
  const auto first = hub.Download({repo});
  ASSERT_TRUE(first);
  const fs::path list = first->folder.parent_path().parent_path() / "trees" / (first->commit + ".json");
  ASSERT_TRUE(fs::remove(list));
  ASSERT_TRUE(hub.Download({repo}));
  EXPECT_TRUE(fs::exists(list));
}

// Spec, case 65.
TEST_F(HubDownloadTest, PinnedDownloadMakesMainRefOnceAndLeavesAnExistingOne) {
  const std::string repo = NewRepo({{"a", "1"}});
  const std::string first = local().State(repo)["commit"];
  local().Put(repo, {{"a", "2"}});
  const std::string second = local().State(repo)["commit"];
  Hub hub(Settings());
  ASSERT_TRUE(hub.Download({repo, first, {}, false}));
  EXPECT_FALSE(fs::exists(RepoPath(repo) / "refs")) << "a download by commit writes no ref of its own";
  ASSERT_TRUE(hub.Download({repo, first}));
  EXPECT_EQ(Content(RepoPath(repo) / "refs/main"), first);
  ASSERT_TRUE(hub.Download({repo, second}));
  EXPECT_EQ(Content(RepoPath(repo) / "refs/main"), first) << "an existing one is never overwritten";
  ASSERT_TRUE(hub.Download({repo, "main"}));
  EXPECT_EQ(Content(RepoPath(repo) / "refs/main"), second) << "unless main itself was asked for";
}

TEST_F(HubDownloadTest, ResumesAfterACutAtEveryTenth) {
  const std::string content = Noise(1'000'000, 7);
  for (int tenth = 0; tenth <= 9; ++tenth) {
    const std::string repo = NewRepo({{"model.bin", content}});
    HubSettings settings = Settings();
    settings.attempts = 1;  // no second try inside one download
    Hub hub(settings);
    local().Reset();
    const uint64_t after = content.size() / 10 * static_cast<uint64_t>(tenth);
    local().Fault({{"match", "GET /objects/"}, {"kind", "cut"}, {"after", after}});
    const auto cut = hub.Download({repo});
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().fault, HubFault::kUnreachable) << cut.error().message;
    const std::string blob = Sha256Hex(AsBytes(content));
    EXPECT_FALSE(fs::exists(RepoPath(repo) / "blobs" / blob));
    EXPECT_EQ(fs::file_size(RepoPath(repo) / "blobs" / (blob + ".incomplete")), after);
    EXPECT_EQ(hub.cache().Describe(repo)->unfinished_bytes, after);
    KeptProgress progress;
    const auto resumed = hub.Download({repo}, &progress);
    ASSERT_TRUE(resumed) << resumed.error().message;
    EXPECT_EQ(Content(resumed->folder / "model.bin"), content);
    EXPECT_EQ(local().BytesSent(), content.size()) << "what had come was fetched again, cut at " << after;
    EXPECT_EQ(progress.last.bytes_done, content.size());
    EXPECT_EQ(progress.last.bytes_moved, content.size() - after);
    EXPECT_EQ(hub.cache().Describe(repo)->unfinished_bytes, 0u);
  }
}

TEST_F(HubDownloadTest, GoesOnByItselfAfterCutsStallsAndServerErrors) {
  const std::string content = Noise(900'000, 3);
  const std::string repo = NewRepo({{"model.bin", content}});
  local().Fault({{"match", "GET /objects/"}, {"kind", "cut"}, {"after", 100'000}, {"times", 2}});
  local().Fault({{"match", "GET /objects/"}, {"kind", "stall"}, {"after", 50'000}, {"seconds", 4}});
  local().Fault({{"match", "GET /objects/"}, {"kind", "status"}, {"status", 503}});
  local().Fault({{"match", "GET /api/models/.*/tree"}, {"kind", "status"}, {"status", 500}});
  Hub hub(Settings());
  KeptProgress progress;
  const auto snapshot = hub.Download({repo}, &progress);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(Content(snapshot->folder / "model.bin"), content);
  EXPECT_THAT(progress.notes, HasSubstr("trying again"));
  EXPECT_THAT(progress.notes, Not(HasSubstr("secret-of-this-link")));
}

TEST_F(HubDownloadTest, LargeFilesComeInSeveralRangesAtOnce) {
  const std::string content = Noise(2'000'001, 5);
  const std::string repo = NewRepo({{"model.bin", content}});
  HubSettings settings = Settings();
  settings.range_bytes = 100'000;
  Hub hub(settings);
  local().Fault({{"match", "GET /objects/"}, {"kind", "cut"}, {"after", 30'000}, {"times", 5}, {"skip", 2}});
  const auto snapshot = hub.Download({repo});
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(Content(snapshot->folder / "model.bin"), content);
  EXPECT_EQ(local().BytesSent(), content.size());
}

TEST_F(HubDownloadTest, ServersWithoutRangesAreReadThrough) {
  const std::string content = Noise(1'000'000, 9);
  const std::string repo = NewRepo({{"model.bin", content}});
  HubSettings settings = Settings();
  settings.range_bytes = 100'000;
  Hub hub(settings);
  local().Fault({{"match", "GET /objects/"}, {"kind", "cut"}, {"also", "whole"}, {"after", 30'000}});
  local().Fault({{"match", "GET /objects/"}, {"kind", "cut"}, {"also", "whole"}, {"after", 500'000}});
  local().Fault({{"match", "GET /objects/"}, {"kind", "whole"}, {"times", 100}});
  const auto snapshot = hub.Download({repo});
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(Content(snapshot->folder / "model.bin"), content);
}

TEST_F(HubDownloadTest, WrongBytesAreFetchedAgainOnceAndNeverShown) {
  const std::string content = Noise(300'000, 11);
  const std::string repo = NewRepo({{"model.bin", content}, {"small.json", "{\"a\": 1}"}});
  Hub hub(Settings());
  KeptProgress progress;
  local().Fault({{"match", "GET /objects/"}, {"kind", "wrong"}, {"after", 1000}});
  const auto snapshot = hub.Download({repo}, &progress);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(Content(snapshot->folder / "model.bin"), content);
  EXPECT_THAT(progress.notes, HasSubstr("loading it again"));

  const std::string other = NewRepo({{"small.json", "{\"a\": 2}"}});
  local().Fault({{"match", "GET /api/resolve-cache/"}, {"kind", "wrong"}, {"after", 3}, {"times", 9}});
  const auto refused = hub.Download({other});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, HubFault::kDamaged);
  EXPECT_EQ(refused.error().code, Code::kCorruptWeights);
  EXPECT_THAT(refused.error().message, HasSubstr("small.json"));
  EXPECT_TRUE(fs::is_empty(RepoPath(other) / "blobs"));
  EXPECT_FALSE(fs::exists(RepoPath(other) / "refs/main"));
}

TEST_F(HubDownloadTest, AWrongPartOfAnEarlierTryIsReplaced) {
  const std::string content = Noise(300'000, 13);
  const std::string repo = NewRepo({{"model.bin", content}});
  const fs::path unfinished = RepoPath(repo) / "blobs" / (Sha256Hex(AsBytes(content)) + ".incomplete");
  fs::create_directories(unfinished.parent_path());
  for (const std::string& left : {std::string(100'000, 'x'), std::string(300'000, 'x'), std::string(400'000, 'x')}) {
    fs::remove_all(RepoPath(repo) / "snapshots");
    fs::remove(RepoPath(repo) / "blobs" / Sha256Hex(AsBytes(content)));
    std::ofstream(unfinished, std::ios::binary) << left;
    const auto snapshot = Hub(Settings()).Download({repo});
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    EXPECT_EQ(Content(snapshot->folder / "model.bin"), content);
  }
}

TEST_F(HubDownloadTest, RetryAfterIsWaitedForAndALongOneIsTold) {
  const std::string repo = NewRepo({{"a", "1"}});
  local().Fault(
      {{"match", "GET /api/models"}, {"kind", "status"}, {"status", 429}, {"headers", {{"Retry-After", "1"}}}});
  Hub hub(Settings());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(hub.Info(repo));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(950));
  local().Fault(
      {{"match", "GET /api/models"}, {"kind", "status"}, {"status", 429}, {"headers", {{"Retry-After", "9999"}}}});
  const auto refused = hub.Info(repo);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, HubFault::kRateLimited);
  EXPECT_THAT(refused.error().message, HasSubstr("fewer requests"));
}

TEST_F(HubDownloadTest, TheTokenStaysWithTheHub) {
  const std::string repo = NewRepo({{"model.bin", Noise(100'000)}, {"a", "1"}}, {{"private", true}});
  Hub hub(Settings("hf_write"));
  ASSERT_TRUE(hub.Download({repo}));
  int elsewhere = 0;
  for (const auto& entry : local().Log()) {
    const bool is_storage = std::string(entry["path"]).starts_with("/objects/");
    EXPECT_EQ(bool(entry["authorized"]), !is_storage) << entry;
    elsewhere += is_storage ? 1 : 0;
    EXPECT_THAT(std::string(entry["path"]), Not(HasSubstr("hf_write")));
  }
  EXPECT_GT(elsewhere, 0);
}

TEST_F(HubDownloadTest, RefusalsSayWhatToDo) {
  const std::string gated = NewRepo({{"model.bin", "x"}}, {{"gated", "manual"}});
  const std::string closed = NewRepo({{"model.bin", "x"}}, {{"private", true}});
  const auto fault = [&](const std::string& token, const std::string& repo, const std::string& revision = "main") {
    const auto answer = Hub(Settings(token)).Download({repo, revision});
    EXPECT_FALSE(answer);
    return answer ? HubError() : answer.error();
  };
  HubError error = fault("", gated);
  EXPECT_EQ(error.fault, HubFault::kGated);
  EXPECT_EQ(error.code, Code::kNoPermission);
  EXPECT_THAT(error.message, HasSubstr(local().hub + "/" + gated));
  EXPECT_THAT(error.message, HasSubstr("HF_TOKEN"));
  error = fault("hf_read", gated);
  EXPECT_EQ(error.fault, HubFault::kGated);
  EXPECT_THAT(error.message, HasSubstr("accept its conditions"));
  error = fault("", "org/nowhere");
  EXPECT_EQ(error.fault, HubFault::kNoRepo);
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("no such repository, or no access"));
  EXPECT_EQ(fault("", closed).fault, HubFault::kNoRepo);
  EXPECT_EQ(fault("hf_read", closed).fault, HubFault::kNoRepo);
  error = fault("hf_wrong", closed);
  EXPECT_EQ(error.fault, HubFault::kTokenRejected);
  EXPECT_THAT(error.message, Not(HasSubstr("hf_wrong")));
  EXPECT_EQ(fault("", gated, "v9").fault, HubFault::kNoRevision);
  EXPECT_EQ(fault("", "no-slash").code, Code::kUsage);
  EXPECT_EQ(fault("", gated, "../x").fault, HubFault::kUnsafe);
  HubSettings nobody = Settings();
  nobody.endpoint = "http://127.0.0.1:1";
  const auto unreachable = Hub(nobody).Download({gated});
  ASSERT_FALSE(unreachable);
  EXPECT_EQ(unreachable.error().fault, HubFault::kUnreachable);
  EXPECT_THAT(unreachable.error().message, HasSubstr("HF_ENDPOINT"));
}

TEST_F(HubDownloadTest, OfflineIsTheCacheAlone) {
  const std::string repo = NewRepo(PlainFiles());
  HubSettings settings = Settings();
  settings.offline = true;
  Hub offline(settings);
  const auto nothing = offline.Download({repo});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().fault, HubFault::kOffline);
  EXPECT_THAT(nothing.error().message, HasSubstr("HF_HUB_OFFLINE"));
  ASSERT_TRUE(Hub(Settings()).Download({repo, "main", {{"*.json"}, {}}}));
  local().Reset();
  const auto part = offline.Download({repo});
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().fault, HubFault::kIncomplete) << part.error().message;
  const auto chosen = offline.Download({repo, "main", {{"*.json"}, {}}});
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_FALSE(chosen->hub_asked);
  EXPECT_TRUE(offline.Fetch(repo, "main", "config.json"));
  EXPECT_FALSE(offline.Info(repo));
  EXPECT_TRUE(local().Log().empty());
}

TEST_F(HubDownloadTest, WhatIsCompleteServesWhereTheHubIsGone) {
  const std::string repo = NewRepo(PlainFiles());
  ASSERT_TRUE(Hub(Settings()).Download({repo}));
  HubSettings settings = Settings();
  settings.endpoint = "http://127.0.0.1:1";
  settings.attempts = 1;
  Hub gone(settings);
  KeptProgress progress;
  const auto snapshot = gone.Download({repo}, &progress);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_FALSE(snapshot->hub_asked);
  EXPECT_THAT(progress.notes, HasSubstr("what is on this machine is used"));
  EXPECT_TRUE(gone.Fetch(repo, "main", "README.md"));
}

TEST_F(HubDownloadTest, WhatIsPinnedAndCompleteServesWhereTheHubRefuses) {
  const std::string repo = NewRepo(PlainFiles());
  const auto first = Hub(Settings()).Download({repo});
  ASSERT_TRUE(first) << first.error().message;
  fs::remove_all(first->folder.parent_path().parent_path() / "trees");  // huggingface_hub keeps no lists
  Hub refusing(Settings("hf_wrong"));
  KeptProgress progress;
  const auto pinned = refusing.Download({repo, first->commit}, &progress);
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_EQ(pinned->folder, first->folder);
  EXPECT_THAT(progress.notes, HasSubstr("what is on this machine is used"));
  const auto branch = refusing.Download({repo, "main"});
  ASSERT_FALSE(branch);
  EXPECT_EQ(branch.error().fault, HubFault::kTokenRejected);
}

TEST_F(HubDownloadTest, FetchBringsOneFileAndRemembersWhatTheHubDoesNotHave) {
  const std::string repo = NewRepo(PlainFiles());
  Hub hub(Settings());
  const auto file = hub.Fetch(repo, "main", "code/a/b.py");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(Content(*file), "print()\n");
  const std::string commit = local().State(repo)["commit"];
  const auto missing = hub.Fetch(repo, "main", "tt_kernel_manifest.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fault, HubFault::kNoEntry);
  EXPECT_TRUE(fs::exists(RepoPath(repo) / ".no_exist" / commit / "tt_kernel_manifest.json"));
  EXPECT_EQ(hub.cache().FindFile(repo, "main", "tt_kernel_manifest.json").error().fault, HubFault::kNoEntry);
  EXPECT_FALSE(hub.Fetch(repo, "main", "../../etc/passwd"));
}

TEST_F(HubDownloadTest, NamesThatLeadOutAreRefused) {
  int count = 0;
  for (const char* name : {"../../../escape", "/absolute", "a/../../b", "back\\slash", "new\nline", "a//b", "."}) {
    const std::string repo = NewRepo({{name, "x"}, {"good", "y"}});
    const auto refused = Hub(Settings()).Download({repo});
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().fault, HubFault::kUnsafe) << refused.error().message;
    EXPECT_THAT(refused.error().message, Not(HasSubstr("\n")));
    EXPECT_FALSE(fs::exists(RepoPath(repo)));
    ++count;
  }
  EXPECT_EQ(count, 7);
  const std::string both = NewRepo({{"a", "x"}, {"a/b", "y"}});
  EXPECT_EQ(Hub(Settings()).Download({both}).error().fault, HubFault::kUnsafe);
}

TEST_F(HubDownloadTest, StopsSoonWhenAsked) {
  const std::string repo = NewRepo({{"model.bin", Noise(400'000)}});
  local().Fault({{"match", "GET /objects/"}, {"kind", "slow"}, {"rate", 20'000}});
  HubSettings settings = Settings();
  settings.stall_timeout = std::chrono::seconds(60);
  Hub hub(settings);
  std::stop_source stop;
  std::jthread asks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  const auto stopped = hub.Download({repo}, nullptr, stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_F(HubDownloadTest, InfoWhoAmIAndSearch) {
  const std::string repo = NewRepo({{"a", "1"}}, {{"tags", {"tt-model", "license:mit"}},
                                                  {"card", {{"license", "other"}, {"license_name", "nvidia"}}}});
  Hub hub(Settings("hf_read"));
  const auto info = hub.Info(repo);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->id, repo);
  EXPECT_EQ(info->license, "other");
  EXPECT_EQ(info->license_name, "nvidia");
  const auto user = hub.WhoAmI();
  ASSERT_TRUE(user);
  EXPECT_EQ(user->name, "reader");
  EXPECT_EQ(Hub(Settings()).WhoAmI().error().fault, HubFault::kTokenRejected);
  EXPECT_EQ(Hub(Settings("hf_no")).WhoAmI().error().fault, HubFault::kTokenRejected);
  const auto found = hub.Search({repo.substr(4), {"tt-model"}, "org", 5});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().id, repo);
  EXPECT_TRUE(hub.Search({"", {"no-such-tag"}})->empty());
}

TEST_F(HubDownloadTest, SomethingElseThanAHubIsNamed) {
  HubSettings settings = Settings();
  settings.endpoint = local().hub + "/admin";  // answers, but is no hub
  const auto refused = Hub(settings).Info("org/x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, HubFault::kNoRepo);
}

}  // namespace
}  // namespace sightline
