// Looking after packages: list, remove, verify, gc, export and import.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "store/scratch_folder.h"
#include "store/snapshot_files.h"
#include "tests/support/stored_package.h"

namespace sightline::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRepo[] = "org/my-dit";

class KeepTest : public StoreTest {
 protected:
  KeepTest() {
    AddDevice();
    commit_ = hub_.Put("org/W", {{"config.json", "{}"}, {"model.bin", Noise(5000)}});
  }
  void PullWithWeights(const std::string& repo = kRepo, std::string_view name = "my-dit") {
    Publish(repo, With(With(kDitManifest, "abc123", commit_), "name: my-dit", "name: " + std::string(name)));
    PullOptions options;
    options.with_weights = true;
    const auto report = Pull(repo, options);
    ASSERT_TRUE(report) << report.error().message;
  }
  StoreResult<RemoveReport> Remove(const std::string& id, RemoveOptions options = {}) {
    return Store(Settings()).Remove(id, options, nullptr);
  }
  StoreResult<VerifyReport> Verify(bool repair = false) { return Store(Settings()).Verify({}, repair, nullptr); }
  fs::path Images(const std::string& repo) const { return Settings().folders.images / CacheFolderName(repo); }
  fs::path Weights() const { return home() / "hub" / "models--org--W"; }
  // The largest blob of a repository.
  static fs::path Blob(const fs::path& repo) {
    fs::path largest;
    for (const auto& entry : fs::directory_iterator(repo / "blobs")) {
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    return largest;
  }
  static void Damage(const fs::path& file) {
    std::string content = ReadWhole(file);
    content[content.size() / 2] ^= 1;
    fs::permissions(file, fs::perms::owner_all);
    WriteFile(file, content);
  }
  std::string commit_;
};

TEST_F(KeepTest, ListSaysWhatIsReadyAndWhyNot) {
  PullWithWeights();
  ASSERT_TRUE(Pull("gaze-lle"));
  auto rows = Store(Settings()).List();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kind, "container");
  EXPECT_TRUE(rows[0].ready) << rows[0].problem;
  EXPECT_EQ(rows[0].image_bytes, 1000u);
  EXPECT_TRUE(rows[0].weights[0].complete);
  EXPECT_EQ(rows[1].kind, "native");
  EXPECT_FALSE(rows[1].ready);
  EXPECT_THAT(rows[1].problem, HasSubstr("are not here"));
  for (const auto& file : fs::directory_iterator(docker_.folder())) {
    if (file.path().filename().string().starts_with("i-")) fs::remove(file);
  }
  rows = Store(Settings()).List();
  EXPECT_FALSE(rows[0].ready);
  EXPECT_THAT(rows[0].problem, HasSubstr("is not in the engine"));
}

TEST_F(KeepTest, RemoveTakesAllButWeights) {
  PullWithWeights();
  const StoreFolders folders = Settings().folders;
  WriteFile(folders.PackageCache("my-dit") / "cache" / "kernel", "x");
  WriteFile(docker_.folder() / "c-tt-model-my-dit-default", "");
  const auto report = Remove(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->removed, Contains("container tt-model-my-dit-default"));
  EXPECT_THAT(report->removed, Contains(HasSubstr("image tt-model/my-dit:")));
  EXPECT_FALSE(fs::exists(folders.pulled / "org__my-dit"));
  EXPECT_FALSE(fs::exists(folders.PackageCache("my-dit")));
  EXPECT_FALSE(fs::exists(Images(kRepo)));
  EXPECT_TRUE(fs::exists(Weights()));
  EXPECT_FALSE(Store(Settings()).index().Find(kRepo));
  EXPECT_EQ(Remove(kRepo).error().code, Code::kNotFound);
}

TEST_F(KeepTest, RemoveKeepsWhatWasAskedFor) {
  PullWithWeights();
  WriteFile(Settings().folders.PackageCache("my-dit") / "cache" / "kernel", "x");
  RemoveOptions options;
  options.keep_cache = true;
  options.include_weights = true;
  ASSERT_TRUE(Remove(kRepo, options));
  EXPECT_TRUE(fs::exists(Settings().folders.PackageCache("my-dit") / "cache" / "kernel"));
  EXPECT_FALSE(fs::exists(Weights()));
}

TEST_F(KeepTest, RemoveLeavesWhatAnotherPackageUses) {
  PullWithWeights();
  PullWithWeights("org/copy");
  RemoveOptions options;
  options.include_weights = true;
  const auto report = Remove(kRepo, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->kept, Contains(HasSubstr("image tt-model/my-dit:")));
  EXPECT_THAT(report->kept, Contains(HasSubstr("weights org/W")));
  EXPECT_TRUE(fs::exists(Weights()));
  EXPECT_TRUE(Store(Settings()).List().at(0).ready);
}

TEST_F(KeepTest, RemoveLeavesContainersOfOthersOfThatName) {
  PullWithWeights();
  const fs::path container = docker_.folder() / "c-tt-model-my-dit-default";
  WriteFile(container, R"([{"Id": "1", "Name": "/tt-model-my-dit-default",
                            "Config": {"Labels": {"org.tenstorrent.tt-model.repo": "other/my-dit"}}}])");
  const auto report = Remove(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->kept, Contains("container tt-model-my-dit-default: it is of other/my-dit"));
  EXPECT_TRUE(fs::exists(container));
  // Without a label it might be anybody's.
  PullWithWeights();
  PullWithWeights("other/my-dit");
  WriteFile(container, "[]");
  const auto again = Remove(kRepo);
  ASSERT_TRUE(again);
  EXPECT_THAT(again->kept, Contains("container tt-model-my-dit-default: other/my-dit has the same name"));
  EXPECT_TRUE(fs::exists(container));
}

TEST_F(KeepTest, RemoveLeavesARepositoryOfTheUserThatHoldsMore) {
  PullWithWeights();
  const fs::path theirs = home() / "hub" / "models--org--my-dit";
  WriteFile(theirs / "snapshots" / std::string(40, 'a') / kWireManifestName, "{}");
  WriteFile(theirs / "snapshots" / std::string(40, 'a') / "model.bin", "weights");
  const auto report = Remove(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->kept, Contains(HasSubstr("it holds more than the package")));
  EXPECT_TRUE(fs::exists(theirs / "snapshots" / std::string(40, 'a') / "model.bin"));
  PullWithWeights();
  fs::remove(theirs / "snapshots" / std::string(40, 'a') / "model.bin");
  ASSERT_TRUE(Remove(kRepo));
  EXPECT_FALSE(fs::exists(theirs));
}

TEST_F(KeepTest, RemoveNeverLeavesItsFolders) {
  WriteFile(Settings().folders.index, R"({"..": {"repo_id": "..", "container": true, "manifest": "/nowhere"}})");
  WriteFile(Settings().folders.pulled / "org__x" / "keep", "x");
  ASSERT_TRUE(Remove(".."));
  EXPECT_TRUE(fs::exists(Settings().folders.pulled / "org__x" / "keep"));
}

TEST_F(KeepTest, VerifyReadsEverything) {
  PullWithWeights();
  auto report = Verify();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->problems.empty());
  EXPECT_GE(report->files, 4);
  Damage(Blob(Images(kRepo)));
  Damage(Blob(Weights()));
  report = Verify();
  ASSERT_TRUE(report);
  EXPECT_GE(report->problems.size(), 2u);
}

TEST_F(KeepTest, VerifyRepairs) {
  PullWithWeights();
  Damage(Blob(Images(kRepo)));
  Damage(Blob(Weights()));
  WriteFile(Settings().folders.pulled / "org__my-dit" / kWireManifestName, "{");
  const auto repaired = Verify(true);
  ASSERT_TRUE(repaired) << repaired.error().message;
  for (const StoreProblem& problem : repaired->problems) EXPECT_TRUE(problem.repaired) << problem.sentence;
  const auto after = Verify();
  ASSERT_TRUE(after);
  for (const StoreProblem& problem : after->problems) ADD_FAILURE() << problem.path << ": " << problem.sentence;
  EXPECT_TRUE(Store(Settings()).List().at(0).ready);
}

TEST_F(KeepTest, DamagedIndexIsAProblemAndStopsTheSweep) {
  PullWithWeights();
  WriteFile(Settings().folders.index, "{");
  EXPECT_EQ(Verify()->problems.size(), 1u);
  const auto swept = Store(Settings()).CollectGarbage(false, nullptr);
  ASSERT_FALSE(swept);
  EXPECT_TRUE(fs::exists(Images(kRepo)));
}

TEST_F(KeepTest, SweepTakesWhatNothingNames) {
  PullWithWeights();
  const std::string first = *Store(Settings()).index().Find(kRepo)->revision;
  Publish(kRepo, With(kDitManifest, "abc123", commit_), Noise(4000));
  ASSERT_TRUE(Pull(kRepo));
  WriteFile(Settings().folders.pulled / "org__gone" / kWireManifestName, "{}");
  const fs::path orphan = Settings().folders.images / "models--org--gone" / "blobs" / std::string(40, 'a');
  WriteFile(orphan, "x");
  const auto report = Store(Settings()).CollectGarbage(false, nullptr);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(fs::exists(orphan));
  EXPECT_FALSE(fs::exists(Settings().folders.pulled / "org__gone"));
  EXPECT_FALSE(fs::exists(Images(kRepo) / "snapshots" / first));
  EXPECT_TRUE(Verify()->problems.empty());
  EXPECT_TRUE(Store(Settings()).List().at(0).ready);
  EXPECT_TRUE(fs::exists(Weights() / "snapshots" / commit_ / "model.bin"));
}

TEST_F(KeepTest, SweepTakesScratchFoldersThatNobodyHolds) {
  PullWithWeights();
  const fs::path left = Settings().folders.images / ".sightline-aBc123", beside = Weights() / ".sightline-xYz789",
                 removed = home() / "hub" / ".sightline-4194304-models--org--gone";  // no process has such a number
  for (const fs::path& folder : {left, beside, removed}) WriteFile(folder / "content", "x");
  const auto held = ScratchFolder::MakeIn(Settings().folders.images);
  ASSERT_TRUE(held);
  const auto report = Store(Settings()).CollectGarbage(false, nullptr);
  ASSERT_TRUE(report) << report.error().message;
  for (const fs::path& folder : {left, beside, removed}) EXPECT_FALSE(fs::exists(folder)) << folder;
  EXPECT_TRUE(fs::exists(held->path()));
}

TEST_F(KeepTest, RegistryPackageWithARevisionThatIsNoDigestIsLivedWith) {
  PullWithWeights();
  const auto entry = *Store(Settings()).index().Find(kRepo);
  IndexEntry other = entry;
  other.id = "oci://localhost:5000/a/b:1";
  other.revision = "main";
  ASSERT_TRUE(Store(Settings()).index().Put(other));
  EXPECT_EQ(Store(Settings()).List().size(), 2u);
  EXPECT_TRUE(Store(Settings()).CollectGarbage(false, nullptr));
  EXPECT_TRUE(Remove(other.id));
}

TEST_F(KeepTest, SweepWaitsForNobodyWhoAdds) {
  PullWithWeights();
  const auto lock = FileLock::Take(Settings().folders.root / ".store.lock", FileLock::Kind::kShared);
  ASSERT_TRUE(lock);
  EXPECT_EQ(Store(Settings()).CollectGarbage(false, nullptr).error().code, Code::kBusy);
}

TEST_F(KeepTest, SweepOfLoadedImagesLeavesThePackageReady) {
  PullWithWeights();
  ASSERT_TRUE(Store(Settings()).CollectGarbage(true, nullptr));
  EXPECT_FALSE(fs::exists(Images(kRepo)));
  EXPECT_TRUE(Store(Settings()).List().at(0).ready);
}

TEST_F(KeepTest, ExportedPackageIsTheSameElsewhereWithoutANetwork) {
  PullWithWeights();
  const fs::path file = folder_.path() / "carried.tar";
  const auto written = Store(Settings()).Export(kRepo, file, true, nullptr);
  ASSERT_TRUE(written) << written.error().message;
  StoreSettings there = SettingsIn(folder_.path() / "there");
  there.hub.offline = true;
  hub_.Reset();
  Store store(there);
  const auto report = store.Import(file, {}, &reports_);
  ASSERT_TRUE(report) << report.error().message;
  const auto rows = store.List();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].ready) << rows[0].problem;
  EXPECT_TRUE(rows[0].entry.pinned);
  EXPECT_EQ(FilesBelow(folder_.path() / "there/hub/models--org--W/snapshots"), FilesBelow(Weights() / "snapshots"));
  const auto verified = store.Verify({}, false, nullptr);
  ASSERT_TRUE(verified);
  for (const StoreProblem& problem : verified->problems) ADD_FAILURE() << problem.path << ": " << problem.sentence;
}

TEST_F(KeepTest, ExportFetchesTheImageThatIsNotHere) {
  PullWithWeights();
  ASSERT_TRUE(Store(Settings()).CollectGarbage(true, nullptr));
  const fs::path file = folder_.path() / "carried.tar";
  const auto written = Store(Settings()).Export(kRepo, file, true, &reports_);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(reports_.warnings, "");
  StoreSettings there = SettingsIn(folder_.path() / "there");
  there.hub.offline = true;
  Store store(there);
  const auto report = store.Import(file, {}, &reports_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(OpenOciLayout(report->package.image_layout));
}

TEST_F(KeepTest, ExportWithoutTheImageSaysSo) {
  PullWithWeights();
  ASSERT_TRUE(Store(Settings()).CollectGarbage(true, nullptr));
  StoreSettings offline = Settings();
  offline.hub.offline = true;
  const fs::path file = folder_.path() / "carried.tar";
  const auto written = Store(offline).Export(kRepo, file, true, &reports_);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_THAT(reports_.warnings, HasSubstr("the image of org/my-dit is not in the file"));
  // The rest of it is.
  engine_ = "docker";
  StoreSettings there = SettingsIn(folder_.path() / "there");
  const auto report = Store(there).Import(file, {}, &reports_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->package.manifest.name, "my-dit");
}

TEST_F(KeepTest, PackageOfARegistryIsCompletedByAnImport) {
  const fs::path carried = folder_.path() / "carried", there = folder_.path() / "there";
  for (const char* name : {"manifest.json", "image/oci-layout", "image/blobs/x"}) WriteFile(carried / name, "new");
  WriteFile(there / "manifest.json", "old");
  ASSERT_TRUE(PlaceFolder(carried, there));
  EXPECT_EQ(FilesBelow(there), (std::map<std::string, std::string>{
                                   {"manifest.json", "old"}, {"image/oci-layout", "new"}, {"image/blobs/x", "new"}}));
}

TEST_F(KeepTest, ImportBelievesNoDigest) {
  PullWithWeights();
  const fs::path carried = folder_.path() / "carried";
  fs::create_directories(carried / "package" / "files");
  WriteFile(carried / "package" / "files" / kWireManifestName, "{}");
  WriteFile(carried / "package" / "blobs.json",
            "{\"" + std::string(kWireManifestName) + "\": \"" + std::string(64, 'a') + "\"}");
  const fs::path file = folder_.path() / "forged.tar";
  ASSERT_TRUE(ExportFolder(carried, file,
                           {{"kind", "sightline-package"}, {"id", "org/forged"}, {"revision", std::string(40, 'c')}}));
  const auto report = Store(Settings()).Import(file, {}, nullptr);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorruptWeights) << report.error().message;
  EXPECT_FALSE(fs::exists(Images("org/forged") / "snapshots"));
}

TEST_F(KeepTest, ImportOfNamesThatLeadOutIsRefused) {
  const fs::path carried = folder_.path() / "carried";
  WriteFile(carried / "package" / "files" / "x", "x");
  WriteFile(carried / "package" / "blobs.json", "{\"../../../../x\": \"" + std::string(64, 'a') + "\"}");
  const fs::path file = folder_.path() / "forged.tar";
  ASSERT_TRUE(ExportFolder(carried, file,
                           {{"kind", "sightline-package"}, {"id", "org/forged"}, {"revision", std::string(40, 'c')}}));
  const auto report = Store(Settings()).Import(file, {}, nullptr);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidRequest) << report.error().message;
}

// Section 1.9: which present image serves. The engine is asked by reference.
TEST(ImageIsCurrentTest, TruthTable) {
  EXPECT_FALSE(ImageIsCurrent({"", "p", "p", "x"}));
  EXPECT_TRUE(ImageIsCurrent({"x", "", "", ""}));
  EXPECT_TRUE(ImageIsCurrent({"p", "p", "", ""}));
  EXPECT_TRUE(ImageIsCurrent({"x", "p", "p", "x"}));
  EXPECT_FALSE(ImageIsCurrent({"x", "p", "q", "x"}));
  EXPECT_FALSE(ImageIsCurrent({"x", "p", "p", "y"}));
}

}  // namespace
}  // namespace sightline::testing
