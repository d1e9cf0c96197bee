// Bringing packages here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/stored_package.h"

namespace sightline::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kRepo[] = "org/my-dit";

class PullTest : public StoreTest {
 protected:
  // The seed's own package, as far as this matters.
  static std::string GazePackage() {
    return With(With(kDitManifest, "weights: {repo: org/W, revision: abc123}",
                     "weights: {repo: changh95/gaze-lle-weights, revision: f83e53f0f17dd2175f31ceaf9fa650044147ada1}"),
                "repo: org/my-dit", "repo: changh95/gaze-lle-p150");
  }
  nlohmann::json Index() const { return nlohmann::json::parse(ReadWhole(Settings().folders.index)); }
};

TEST_F(PullTest, ContainerIsLoadedAndRecorded) {
  AddDevice();
  const std::string commit = Publish(kRepo, kDitManifest);
  const auto report = Pull(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->image_loaded);
  EXPECT_EQ(Calls("load"), 1);
  const auto entry = Index().at(kRepo);
  EXPECT_EQ(entry["revision"], commit);
  EXPECT_EQ(entry["container"], true);
  EXPECT_EQ(entry["pinned"], false);
  EXPECT_EQ(entry["image_digest"], entry["image_loaded_id"]);
  EXPECT_EQ(entry["manifest"], (home() / ".cache/tt-model/pulled/org__my-dit" / kWireManifestName).string());
  EXPECT_EQ(WireManifest::Load(std::string(entry["manifest"]))->name, "my-dit");
}

TEST_F(PullTest, OnlyManifestAndImageAreFetchedAndNothingTwice) {
  AddDevice();
  Publish(kRepo, kDitManifest);
  ASSERT_TRUE(Pull(kRepo));
  EXPECT_EQ(Requests("code/"), 0);
  EXPECT_EQ(Requests("README"), 0);
  hub_.Reset();
  PullOptions again;
  again.force = true;
  ASSERT_TRUE(Pull(kRepo, again));
  EXPECT_EQ(Calls("load"), 2);
  EXPECT_EQ(hub_.BytesSent(), 0u);
}

TEST_F(PullTest, UnchangedImageIsNotLoadedAgain) {
  AddDevice();
  Publish(kRepo, kDitManifest);
  ASSERT_TRUE(Pull(kRepo));
  const auto again = Pull(kRepo);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->image_loaded);
  EXPECT_FALSE(again->changed);
  EXPECT_EQ(Calls("load"), 1);
  EXPECT_NE(Index().at(kRepo)["image_loaded_id"], nullptr);
}

TEST_F(PullTest, OtherRevisionIsFetchedAndPinned) {
  AddDevice();
  const std::string first = Publish(kRepo, kDitManifest);
  Publish(kRepo, kDitManifest, "another layer");
  ASSERT_TRUE(Pull(kRepo));
  const auto pinned = Pull(std::string(kRepo) + "@" + first);
  ASSERT_TRUE(pinned) << pinned.error().message;
  EXPECT_TRUE(pinned->changed);
  EXPECT_EQ(Index().at(kRepo)["revision"], first);
  EXPECT_EQ(Index().at(kRepo)["pinned"], true);
}

TEST_F(PullTest, WithoutAnEngineTheImageStaysInTheStore) {
  AddDevice();
  RemoveEngine();
  Publish(kRepo, kDitManifest);
  const auto report = Pull(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->run.mode, RunMode::kContainer);
  EXPECT_THAT(reports_.notes, HasSubstr("the image stays in the store"));
  EXPECT_TRUE(OpenOciLayout(report->package.image_layout));
}

TEST_F(PullTest, KnownModelRunsNativelyWhereItsDeviceIsMissing) {
  Publish("changh95/gaze-lle-p150", GazePackage());
  const auto report = Pull("changh95/gaze-lle-p150");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->run.mode, RunMode::kNative);
  EXPECT_THAT(reports_.notes, HasSubstr("no Tenstorrent device"));
  EXPECT_EQ(Requests("image/"), 0);
  EXPECT_EQ(Calls("load"), 0);
  EXPECT_EQ(report->package.native->weights.revision, "f83e53f0f17dd2175f31ceaf9fa650044147ada1");
  EXPECT_EQ(Index().at("changh95/gaze-lle-p150")["native"], true);
}

TEST_F(PullTest, UserDecidesBetweenContainerAndNative) {
  Publish("changh95/gaze-lle-p150", GazePackage());
  PullOptions options;
  options.mode = RunMode::kContainer;
  ASSERT_TRUE(Pull("changh95/gaze-lle-p150", options));
  EXPECT_EQ(Calls("load"), 1);
  Publish(kRepo, kDitManifest);
  options.mode = RunMode::kNative;
  const auto refused = Pull(kRepo, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("does not know the model"));
}

TEST_F(PullTest, ShortNameIsOurPackage) {
  const auto report = Pull("gaze-lle");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->run.mode, RunMode::kNative);
  EXPECT_EQ(Index().at("gaze-lle")["container"], false);
  const Store store(Settings());
  const auto here = store.FindLocal(*ParseTarget("gaze-lle"));
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_EQ(here->native->weights.repo, "changh95/gaze-lle-weights");
}

TEST_F(PullTest, RepositoryWithoutManifestIsNoPackage) {
  hub_.Put("org/weights", {{"model.bin", "x"}});
  const auto refused = Pull("org/weights");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().card.cause, "not a tt-model bundle");
  EXPECT_FALSE(fs::exists(Settings().folders.index));
}

TEST_F(PullTest, MissingRepositoryAndTraversalAreRefused) {
  const auto missing = Pull("org/nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().card.cause, HubFaultTitle(HubFault::kNoRepo));
  const TemporaryFolder package;
  WritePackage(package.path() / "p", kDitManifest);
  auto files = FilesBelow(package.path() / "p");
  files[kWireManifestName] = With(files[kWireManifestName], "\"name\": \"my-dit\"", "\"name\": \"../../etc\"");
  hub_.Put("org/evil", files);
  EXPECT_FALSE(Pull("org/evil"));
  EXPECT_FALSE(fs::exists(Settings().folders.pulled));
}

TEST_F(PullTest, ImageThatIsNotWhatItsNamesSayIsNotLoaded) {
  AddDevice();
  const TemporaryFolder package;
  WritePackage(package.path() / "p", kDitManifest);
  auto files = FilesBelow(package.path() / "p");
  for (auto& [name, content] : files) {
    if (name.starts_with("image/blobs/")) content[content.size() / 2] ^= 1;
  }
  hub_.Put(kRepo, files);
  const auto refused = Pull(kRepo);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorruptWeights) << refused.error().message;
  EXPECT_EQ(Calls("load"), 0);
  EXPECT_FALSE(fs::exists(Settings().folders.index));
}

TEST_F(PullTest, ImageOfARegistryIsPulledByDigestOrComparedByIt) {
  AddDevice();
  const std::string manifest =
      With(kDitManifest, "runtime:", "image: {registry: reg.example/ns, repository: dit}\nruntime:");
  Publish(kRepo, manifest);
  ASSERT_FALSE(Pull(kRepo));
  const auto wire = Store(Settings()).FetchManifest(*ParseTarget(kRepo))->manifest;
  const WireImage& image = wire.container->image;
  // The registry knows the tag alone, as it does when the digest is the image's id.
  const std::string tag = "reg.example_ns_dit_" + image.tag.substr(image.tag.rfind(':') + 1);
  WriteFile(docker_.folder() / ("pull-" + tag), "sha256:" + std::string(64, '0'));
  const auto other = Pull(kRepo);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kCorruptWeights);
  WriteFile(docker_.folder() / ("pull-" + tag), *image.digest);
  const auto pulled = Pull(kRepo);
  ASSERT_TRUE(pulled) << pulled.error().message;
  const std::string by_tag = "reg.example/ns/dit:" + image.tag.substr(image.tag.rfind(':') + 1);
  EXPECT_EQ(Index().at(kRepo)["image"], by_tag);
  EXPECT_EQ(Requests("image/"), 0);
  // What was found out is known the next time, and after a repair.
  const int pulls = Calls("pull");
  ASSERT_TRUE(Pull(kRepo));
  EXPECT_EQ(Index().at(kRepo)["image"], by_tag);
  fs::remove(std::string(Index().at(kRepo)["manifest"]));
  ASSERT_TRUE(Store(Settings()).Verify({}, true, nullptr));
  EXPECT_EQ(Index().at(kRepo)["image"], by_tag);
  EXPECT_EQ(Index().at(kRepo)["image_loaded_id"], *image.digest);
  EXPECT_EQ(Calls("pull"), pulls);
}

TEST_F(PullTest, ImageOfAPullThatWasKilledIsFetchedToTheEnd) {
  AddDevice();
  Publish(kRepo, kDitManifest, Noise(50'000));
  RemoveEngine();
  ASSERT_TRUE(Pull(kRepo));
  engine_ = "docker";
  // As it is left when the layout's index has come and its layer has not.
  const fs::path repository = Settings().folders.images / "models--org--my-dit";
  fs::path layer;
  for (const auto& file : fs::recursive_directory_iterator(repository / "snapshots")) {
    if (file.is_regular_file() && file.file_size() > 40'000) layer = file.path();
  }
  fs::remove(fs::canonical(layer));
  fs::remove(layer);
  fs::remove(Settings().folders.index);
  const auto report = Pull(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->image_loaded);
}

TEST_F(PullTest, KeysOfOthersSurviveANewRevision) {
  AddDevice();
  Publish(kRepo, kDitManifest);
  ASSERT_TRUE(Pull(kRepo));
  auto index = Index();
  index[kRepo]["theirs"] = "kept";
  WriteFile(Settings().folders.index, index.dump());
  Publish(kRepo, kDitManifest, "another layer");
  const auto report = Pull(kRepo);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->image_loaded);
  EXPECT_EQ(Index().at(kRepo)["theirs"], "kept");
}

TEST_F(PullTest, ImageThatServeLoadsAgainIsRecorded) {
  AddDevice();
  Publish(kRepo, kDitManifest);
  ASSERT_TRUE(Pull(kRepo));
  auto index = Index();
  index[kRepo]["image_loaded_id"] = nullptr;
  index[kRepo]["theirs"] = "kept";
  WriteFile(Settings().folders.index, index.dump());
  for (const auto& file : fs::directory_iterator(docker_.folder())) {
    if (file.path().filename().string().starts_with("i-")) fs::remove(file);
  }
  Store store(Settings());
  auto package = store.FindLocal(*ParseTarget(kRepo));
  ASSERT_TRUE(package);
  ASSERT_TRUE(store.EnsureImage(*package, true, false, nullptr));
  EXPECT_EQ(Index().at(kRepo)["image_loaded_id"], Index().at(kRepo)["image_digest"]);
  EXPECT_EQ(Index().at(kRepo)["theirs"], "kept");
}

TEST_F(PullTest, NameInAnotherCaseIsTheSamePackage) {
  AddDevice();
  Publish(kRepo, kDitManifest);
  ASSERT_TRUE(Pull(kRepo));
  const auto again = Pull("Org/My-DIT");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->changed);
  EXPECT_EQ(Index().size(), 1u);
  EXPECT_TRUE(Index().contains(kRepo));
  EXPECT_FALSE(fs::exists(Settings().folders.images / "models--Org--My-DIT"));
}

class NativeFormTest : public PullTest {
 protected:
  void PublishWith(const std::string& sightline_yaml) {
    const TemporaryFolder package;
    WritePackage(package.path() / "p", GazePackage());
    auto files = FilesBelow(package.path() / "p");
    files[kNativeManifestName] = sightline_yaml;
    hub_.Put(kGaze, files);
  }
  static constexpr char kGaze[] = "changh95/gaze-lle-p150";
};

TEST_F(NativeFormTest, WhatIsWrongWithItIsSaid) {
  AddDevice();
  PublishWith("schema: '1'\nmodel: gaze-lie\n");
  const auto report = Pull(kGaze);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->run.mode, RunMode::kContainer);
  EXPECT_THAT(reports_.warnings, HasSubstr("'gaze-lie', expected one of gaze-lle"));
  PullOptions native;
  native.mode = RunMode::kNative;
  const auto refused = Pull(kGaze, native);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("'gaze-lie', expected one of gaze-lle"));
}

TEST_F(NativeFormTest, HubThatDoesNotGiveItIsHeard) {
  PublishWith("schema: '1'\n");
  hub_.Fault({{"match", "sightline.yaml"}, {"kind", "status"}, {"status", 403}, {"times", 100}});
  const auto refused = Pull(kGaze);
  ASSERT_FALSE(refused);
  hub_.Reset();
  hub_.Fault({{"match", "sightline.yaml"}, {"kind", "status"}, {"status", 500}, {"times", 100}});
  ASSERT_TRUE(Pull(kGaze));
  EXPECT_THAT(reports_.warnings, HasSubstr("has a sightline.yaml is not known"));
}

TEST_F(PullTest, TwoAtOnceAgree) {
  AddDevice();
  Publish(kRepo, kDitManifest, Noise(300'000));
  Publish("org/other", With(kDitManifest, "name: my-dit", "name: other"), Noise(200'000, 2));
  std::vector<std::thread> pulls;
  std::atomic<int> done{0};
  for (const char* repo : {kRepo, kRepo, "org/other"}) {
    pulls.emplace_back([&, repo] {
      Store store(Settings());
      const auto report = store.Pull(*ParseTarget(repo), {}, nullptr);
      EXPECT_TRUE(report) << report.error().message;
      ++done;
    });
  }
  for (std::thread& pull : pulls) pull.join();
  EXPECT_EQ(Index().size(), 2u);
  const auto verified = Store(Settings()).Verify({}, false, nullptr);
  ASSERT_TRUE(verified);
  EXPECT_TRUE(verified->problems.empty());
}

TEST_F(PullTest, CancelledPullLeavesNothingInTheIndex) {
  AddDevice();
  Publish(kRepo, kDitManifest);
  std::stop_source stop;
  stop.request_stop();
  Store store(Settings());
  const auto report = store.Pull(*ParseTarget(kRepo), {}, nullptr, stop.get_token());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCancelled);
  EXPECT_FALSE(fs::exists(Settings().folders.index));
}

// ---- weights

class WeightsTest : public PullTest {
 protected:
  WeightsTest() {
    commit_ = hub_.Put("org/W", {{"config.json", "{}"}, {"model.bin", Noise(5000)}}, {{"card", {{"license", "mit"}}}});
  }
  std::string Pinned() const { return With(kDitManifest, "abc123", commit_); }
  StoreResult<std::vector<WeightsState>> Ensure(WeightsRequest request) {
    Store store(Settings());
    return store.EnsureWeights(request, &reports_);
  }
  fs::path MainRef() const { return home() / "hub" / "models--org--W" / "refs" / "main"; }
  std::string commit_;
};

TEST_F(WeightsTest, PinnedDownloadNamesMainOnceAndNeverMovesIt) {
  AddDevice();
  Publish(kRepo, Pinned());
  PullOptions options;
  options.with_weights = true;
  const auto report = Pull(kRepo, options);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->weights.size(), 1u);
  EXPECT_TRUE(report->weights[0].complete);
  EXPECT_EQ(ReadWhole(MainRef()), commit_);
  WriteFile(MainRef(), std::string(40, 'b'));
  WeightsRequest local;
  local.weights = {{"org/W", commit_}};
  local.access = WeightsAccess::kLocalOnly;
  ASSERT_TRUE(Ensure(local));
  EXPECT_EQ(ReadWhole(MainRef()), std::string(40, 'b'));
}

TEST_F(WeightsTest, LicenseIsAskedOnce) {
  std::vector<std::string> asked;
  WeightsRequest request;
  request.weights = {{"org/W", commit_}};
  request.license = [&](const LicenseNotice& notice, const std::stop_token&) {
    asked.push_back(notice.repo + " " + notice.license.id);
    return false;
  };
  const auto refused = Ensure(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoPermission);
  EXPECT_FALSE(fs::exists(home() / "hub" / "models--org--W" / "blobs"));
  request.license = [&](const LicenseNotice&, const std::stop_token&) { return true; };
  ASSERT_TRUE(Ensure(request));
  fs::remove_all(home() / "hub");
  request.license = [&](const LicenseNotice&, const std::stop_token&) -> bool {
    throw std::logic_error("asked twice");
  };
  ASSERT_TRUE(Ensure(request));
  EXPECT_EQ(asked, std::vector<std::string>{"org/W mit"});
}

TEST_F(WeightsTest, OfflineMeansANoteOrAnError) {
  WeightsRequest request;
  request.weights = {{"org/W", commit_}};
  request.access = WeightsAccess::kLocalOnly;
  const auto noted = Ensure(request);
  ASSERT_TRUE(noted);
  EXPECT_FALSE(noted->front().complete);
  EXPECT_THAT(reports_.notes, HasSubstr("are not on this host"));
  EXPECT_EQ(Requests("org/W"), 0);
  request.required = true;
  const auto refused = Ensure(request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("hf download org/W"));
}

TEST_F(WeightsTest, FailureIsAWarningUnlessTheEnvironmentPinsThePath) {
  WeightsRequest request;
  request.weights = {{"org/absent", std::nullopt}};
  ASSERT_TRUE(Ensure(request));
  EXPECT_THAT(reports_.warnings, HasSubstr("org/absent"));
  request.environment = {{"MODEL", "/hf/hub/models--org--absent/snapshots/x"}};
  const auto refused = Ensure(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().card.cause, "no such weights repo, or no access");
}

TEST_F(WeightsTest, PatternsChooseFiles) {
  WeightsRequest request;
  request.weights = {{"org/W", commit_, {{"*.json"}}}};
  const auto state = Ensure(request);
  ASSERT_TRUE(state);
  EXPECT_TRUE(fs::exists(state->front().folder / "config.json"));
  EXPECT_FALSE(fs::exists(state->front().folder / "model.bin"));
}

}  // namespace
}  // namespace sightline::testing
