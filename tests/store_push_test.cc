// Publishing packages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/card_tags.h"
#include "tests/support/stored_package.h"

namespace sightline::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRepo[] = "org/my-dit";
constexpr char kTag[] = "tt-model-catalog";

class PushTest : public StoreTest {
 protected:
  PushTest() { Write(CardManifest()); }
  static std::string CardManifest() {
    return std::string(kDitManifest) + "card:\n  performance: fast\n  limitations: some\n";
  }
  void Write(const std::string& manifest, const std::string& layer = "a layer") {
    fs::remove_all(package());
    WritePackage(package(), manifest, layer);
  }
  fs::path package() const { return folder_.path() / "package"; }
  StoreResult<PushReport> Push(PushOptions options = {}) {
    options.folder = package();
    return Store(Settings()).Push(options, &reports_);
  }
  std::string Published(const std::string& repo, const std::string& path) {
    Hub hub(hub_.Settings(folder_.path() / "reader", "hf_write"));
    const auto file = hub.Fetch(repo, "main", path);
    return file ? ReadWhole(*file) : "";
  }
};

TEST_F(PushTest, PulledBackItIsBitEqual) {
  const auto report = Push();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->created);
  EXPECT_EQ(hub_.State(kRepo)["private"], true);
  Hub hub(hub_.Settings(folder_.path() / "reader", "hf_write"));
  const auto snapshot = hub.Download({kRepo});
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  auto back = FilesBelow(snapshot->folder), sent = FilesBelow(package());
  EXPECT_EQ(back, sent);
  const auto pulled = Pull(kRepo, PullOptions{false, false, RunMode::kContainer});
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_EQ(pulled->package.entry->revision, report->revision);
}

TEST_F(PushTest, WhatToolsLeaveStaysHere) {
  const std::string text = "x";
  for (const char* left :
       {".git/config", ".DS_Store", "code/.DS_Store", "code/a/__pycache__/b.pyc", "ctx/Dockerfile"}) {
    fs::create_directories((package() / left).parent_path());
    std::ofstream(package() / left) << text;
  }
  fs::create_directories(package() / "code/ctx");
  std::ofstream(package() / "code/ctx/kept") << text;
  ASSERT_TRUE(Push());
  std::string names;
  const auto state = hub_.State(kRepo);
  for (const auto& [path, file] : state["files"].items()) names += path + "\n";
  for (const char* left : {".git", ".DS_Store", "__pycache__", "Dockerfile"}) EXPECT_THAT(names, Not(HasSubstr(left)));
  EXPECT_THAT(names, HasSubstr("code/ctx/kept"));
}

TEST_F(PushTest, SecondPushSendsNothing) {
  ASSERT_TRUE(Push());
  const auto again = Push();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes_sent, 0u);
  EXPECT_EQ(hub_.State(kRepo)["commit"], again->revision);
}

TEST_F(PushTest, OtherRepositoryIsNamedInTheFourCommandLinesAlone) {
  WriteFile(package() / "README.md",
            "---\ntags:\n- x\n---\ntt model pull org/my-dit\ntt serve org/my-dit\ntt-model pull  org/my-dit\n"
            "tt-model serve org/my-dit\nSee org/my-dit for more, or run tt serve org/my-dit.\n");
  PushOptions options;
  options.target = "acme/other";
  ASSERT_TRUE(Push(options));
  const std::string readme = Published("acme/other", "README.md");
  EXPECT_THAT(readme, HasSubstr("tt model pull acme/other\ntt serve acme/other\ntt-model pull  acme/other\n"
                                "tt-model serve acme/other\nSee org/my-dit for more, or run tt serve org/my-dit."));
  EXPECT_THAT(ReadWhole(package() / "README.md"), Not(HasSubstr("acme")));
}

TEST_F(PushTest, StaleFilesOfCodeAndImageGoAndOthersStay) {
  ASSERT_TRUE(Push());
  hub_.Put(kRepo, {{"code/models/old.py", "x"}, {"media/a.png", "y"}, {"tt-model.yaml", "z"}});
  Write(CardManifest(), "another layer");
  const auto report = Push();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->deleted, 1);
  const auto files = hub_.State(kRepo)["files"];
  EXPECT_FALSE(files.contains("code/models/old.py"));
  EXPECT_TRUE(files.contains("media/a.png"));
  EXPECT_TRUE(files.contains("tt-model.yaml"));
  for (const auto& [path, content] : FilesBelow(package())) EXPECT_TRUE(files.contains(path)) << path;
}

TEST_F(PushTest, ListingNeedsACardAndUploadsNothingWithoutOne) {
  Write(std::string(kDitManifest) + "card:\n  performance: '  '\n");
  PushOptions options;
  options.publish = true;
  const auto refused = Push(options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("performance, limitations"));
  EXPECT_EQ(Requests("commit"), 0);
  EXPECT_EQ(Requests("create"), 0);
  Write(std::string(kDitManifest));
  EXPECT_FALSE(Push(options));
  EXPECT_TRUE(Push());
}

TEST_F(PushTest, PublishedStaysListedWhenPushedAgain) {
  PushOptions options;
  options.publish = true;
  const auto first = Push(options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(hub_.State(kRepo)["private"], false);
  EXPECT_THAT(Published(kRepo, "README.md"), HasSubstr(kTag));
  hub_.Put(kRepo, {}, {{"tags", {kTag}}});  // which a hub reads off the card
  Write(CardManifest(), "another layer");
  const auto again = Push();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->listed);
  EXPECT_THAT(Published(kRepo, "README.md"), HasSubstr(kTag));
  PushOptions hidden;
  hidden.visibility = HubVisibility::kPrivate;
  ASSERT_TRUE(Push(hidden));
  EXPECT_EQ(hub_.State(kRepo)["private"], true);
  EXPECT_THAT(Published(kRepo, "README.md"), Not(HasSubstr(kTag)));
}

TEST_F(PushTest, PublishAndUnpublishChangeTheTagAlone) {
  ASSERT_TRUE(Push());
  const std::string before = Published(kRepo, "README.md");
  Store store(Settings());
  const auto published = store.Publish(kRepo, &reports_);
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_EQ(hub_.State(kRepo)["private"], false);
  EXPECT_THAT(Published(kRepo, "README.md"), HasSubstr(kTag));
  ASSERT_TRUE(store.Unpublish(kRepo, &reports_));
  EXPECT_EQ(Published(kRepo, "README.md"), before);
  EXPECT_EQ(hub_.State(kRepo)["private"], false);
}

TEST_F(PushTest, WhatIsNoPackageIsRefused) {
  PushOptions contradiction;
  contradiction.publish = true;
  contradiction.visibility = HubVisibility::kPrivate;
  EXPECT_EQ(Push(contradiction).error().code, Code::kUsage);
  fs::remove_all(package() / "image");
  EXPECT_THAT(Push().error().message, HasSubstr("no image/oci-layout"));
  fs::remove_all(package());
  EXPECT_THAT(Push().error().message, HasSubstr(kWireManifestName));
  EXPECT_EQ(Requests("create"), 0);
}

TEST(CardTagsTest, AreEditedInPlace) {
  const std::string list = "---\nlicense: mit\ntags:\n- a\n- b\nx: 1\n---\n# T\n";
  EXPECT_EQ(WithCardTag(list, "c"), "---\nlicense: mit\ntags:\n- a\n- b\n- c\nx: 1\n---\n# T\n");
  EXPECT_EQ(WithCardTag(list, "b"), list);
  EXPECT_EQ(WithoutCardTag(WithCardTag(list, "c"), "c"), list);
  EXPECT_EQ(WithoutCardTag(list, "c"), list);
  EXPECT_EQ(WithCardTag("---\ntags: [a, 'b']\n---\n", "c"), "---\ntags:\n- a\n- 'b'\n- c\n---\n");
  EXPECT_EQ(WithCardTag("---\ntags:\n  - a\n---\n", "c"), "---\ntags:\n  - a\n  - c\n---\n");
  EXPECT_EQ(WithCardTag("---\nlicense: mit\n---\nx", "c"), "---\nlicense: mit\ntags:\n- c\n---\nx");
  EXPECT_EQ(WithCardTag("# T\n", "c"), "---\ntags:\n- c\n---\n# T\n");
  EXPECT_EQ(WithCardTag("", "c"), "---\ntags:\n- c\n---\n");
}

}  // namespace
}  // namespace sightline::testing
