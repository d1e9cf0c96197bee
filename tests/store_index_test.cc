// Folders, targets and installed.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "store/store.h"
#include "tests/support/fake_program.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void Write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

nlohmann::json Read(const fs::path& file) { return nlohmann::json::parse(std::ifstream(file)); }

IndexEntry Entry(const std::string& id) {
  IndexEntry entry;
  entry.id = id;
  entry.image = "tt-model/x:0123456789ab";
  entry.revision = std::string(40, 'a');
  entry.manifest = "/home/u/m.json";
  entry.arch = "blackhole";
  entry.image_digest = "sha256:" + std::string(64, '1');
  entry.profile = "default";
  entry.profiles = {"default", "fast"};
  return entry;
}

TEST(StoreFoldersTest, AreThoseOfTtModel) {
  const TemporaryFolder home;
  const ScopedVariable h("HOME", home.path().string()), x("XDG_CACHE_HOME", ""), s("SIGHTLINE_CACHE", "");
  const auto folders = StoreFoldersFromEnvironment();
  ASSERT_TRUE(folders);
  EXPECT_EQ(folders->index, home.path() / ".cache/tt-model/installed.json");
  EXPECT_EQ(folders->PulledFolder("org/name"), home.path() / ".cache/tt-model/pulled/org__name");
  EXPECT_EQ(folders->PackageCache("my-dit"), home.path() / ".cache/tt-model/my-dit");
  EXPECT_EQ(folders->BuildLog("my-dit"), home.path() / ".cache/tt-model/build/my-dit.log");
}

TEST(StoreFoldersTest, OldNameServesWhereOnlyItExists) {
  const TemporaryFolder home;
  const ScopedVariable h("HOME", home.path().string()), x("XDG_CACHE_HOME", "");
  fs::create_directories(home.path() / ".cache/tt-kernel");
  EXPECT_EQ(StoreFoldersFromEnvironment()->index, home.path() / ".cache/tt-kernel/installed.json");
  fs::create_directories(home.path() / ".cache/tt-model");
  EXPECT_EQ(StoreFoldersFromEnvironment()->index, home.path() / ".cache/tt-model/installed.json");
}

TEST(StoreFoldersTest, WithXdgTheOldPlacesAreStillRead) {
  const TemporaryFolder home;
  const ScopedVariable h("HOME", home.path().string()), x("XDG_CACHE_HOME", (home.path() / "xdg").string());
  const auto folders = StoreFoldersFromEnvironment();
  EXPECT_EQ(folders->PulledFolder("o/n"), home.path() / "xdg/tt-model/pulled/o__n");
  fs::create_directories(home.path() / ".cache/tt-model/pulled/o__n");
  fs::create_directories(home.path() / ".cache/tt-model/warm");
  EXPECT_EQ(folders->PulledFolder("o/n"), home.path() / ".cache/tt-model/pulled/o__n");
  EXPECT_EQ(folders->PackageCache("warm"), home.path() / ".cache/tt-model/warm");
}

TEST(TargetTest, KindsAreToldApart) {
  const TemporaryFolder folder;
  Write(folder.path() / "p" / kWireManifestName, "{}");
  EXPECT_EQ(ParseTarget("org/name")->kind, TargetKind::kHub);
  EXPECT_EQ(ParseTarget("org/name@v1.2")->revision, "v1.2");
  EXPECT_EQ(ParseTarget("gaze-lle")->kind, TargetKind::kShortName);
  EXPECT_EQ(ParseTarget("oci://localhost:5000/a/b:1")->kind, TargetKind::kRegistry);
  const auto file = ParseTarget((folder.path() / "p").string());
  EXPECT_EQ(file->kind, TargetKind::kFile);
  EXPECT_EQ(file->manifest_file, folder.path() / "p" / kWireManifestName);
  EXPECT_EQ(ParseTarget("./tt-model.yaml")->kind, TargetKind::kFile);
}

TEST(TargetTest, WhatIsNoneIsRefused) {
  for (const char* text : {"", "name", "a/b/c", "org/name@", "oci://", "org/../x", "or g/x"}) {
    const auto target = ParseTarget(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(target.error().code, Code::kUsage) << text;
  }
  EXPECT_THAT(ParseTarget("name").error().message, HasSubstr("is not a repo id"));
}

TEST(PackageIndexTest, HasTheKeysThatOthersRead) {
  const TemporaryFolder folder;
  const PackageIndex index(folder.path() / "installed.json");
  ASSERT_TRUE(index.Put(Entry("Org/Name")));
  const auto entry = Read(folder.path() / "installed.json").at("Org/Name");
  EXPECT_EQ(entry["repo_id"], "Org/Name");
  EXPECT_EQ(entry["container"], true);
  EXPECT_EQ(entry["image"], "tt-model/x:0123456789ab");
  EXPECT_EQ(entry["manifest"], "/home/u/m.json");
  EXPECT_EQ(entry["arch"], "blackhole");
  EXPECT_EQ(entry["image_loaded_id"], nullptr);
  EXPECT_EQ(entry["profiles"], nlohmann::json({"default", "fast"}));
  EXPECT_EQ(index.Find("org/name")->id, "Org/Name");
}

TEST(PackageIndexTest, KeepsWhatIsNotOurs) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "installed.json";
  Write(file, R"({"a/old": {"self_contained": true, "install_dir": "/x"}, "b/c": {"repo_id": "b/c", "note": [1, 2.5]},
                  "junk": 3})");
  const PackageIndex index(file);
  EXPECT_EQ(index.Read().size(), 2u);
  IndexEntry entry = *index.Find("b/c");
  entry.profile = "fast";
  ASSERT_TRUE(index.Put(entry));
  ASSERT_TRUE(index.Put(Entry("d/e")));
  const auto document = Read(file);
  EXPECT_EQ(document["a/old"]["install_dir"], "/x");
  EXPECT_EQ(document["b/c"]["note"], nlohmann::json::parse("[1, 2.5]"));
  EXPECT_EQ(document["b/c"]["profile"], "fast");
  EXPECT_EQ(document["junk"], 3);
}

TEST(PackageIndexTest, DamagedFileReadsAsEmptyAndIsKeptAside) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "installed.json";
  Write(file, "{\"a/b\": {");
  const PackageIndex index(file);
  EXPECT_TRUE(index.Read().empty());
  EXPECT_EQ(index.ReadStrictly().error().code, Code::kCorruptWeights);
  ASSERT_TRUE(index.Put(Entry("c/d")));
  EXPECT_EQ(index.Read().size(), 1u);
  EXPECT_TRUE(fs::exists(folder.path() / "installed.json.damaged"));
}

TEST(PackageIndexTest, WritersDoNotLoseEachOther) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "installed.json";
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&file, writer] {
      const PackageIndex index(file);
      for (int i = 0; i < 15; ++i) ASSERT_TRUE(index.Put(Entry("org/p" + std::to_string(writer * 100 + i))));
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(PackageIndex(file).Read().size(), 60u);
}

TEST(PackageIndexTest, RemovesOne) {
  const TemporaryFolder folder;
  const PackageIndex index(folder.path() / "installed.json");
  ASSERT_TRUE(index.Put(Entry("a/b")));
  ASSERT_TRUE(index.Put(Entry("c/d")));
  EXPECT_EQ(index.Remove("A/B"), true);
  EXPECT_EQ(index.Remove("a/b"), false);
  EXPECT_EQ(index.Read().size(), 1u);
}

}  // namespace
}  // namespace sightline
