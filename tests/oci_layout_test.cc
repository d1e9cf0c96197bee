// Image layouts: written, read, verified, as archives of engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "oci/oci.h"
#include "tests/support/tar_archive.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::Tar;
using testing::TarMember;
using Json = nlohmann::json;

std::string ReadText(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// What a shell command prints; empty when it fails.
std::string Output(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  char piece[4096];
  for (size_t count; (count = std::fread(piece, 1, sizeof piece, pipe)) > 0;) output.append(piece, count);
  return ::pclose(pipe) == 0 ? output : "";
}

class LayoutTest : public ::testing::Test {
 protected:
  LayoutTest() {
    std::filesystem::create_directories(path("root/etc"));
    std::ofstream(path("root/etc/name")) << "sightline";
    std::ofstream(path("root/etc/run")) << "#!/bin/sh\n";
    std::filesystem::permissions(path("root/etc/run"), std::filesystem::perms(0700));
    std::filesystem::create_symlink("/etc/name", path("root/link"));
    std::ofstream(path("binary")) << std::string(100'000, 'b');
    recipe_.layers = {{path("root"), "/"}, {path("binary"), "/usr/bin/sightline"}};
    recipe_.runs.entrypoint = {"/usr/bin/sightline"};
    recipe_.runs.command = {"serve"};
    recipe_.runs.environment = {{"HOME", "/home"}, {"A", "b=c"}};
    recipe_.runs.folder = "/home";
    recipe_.runs.user = "1000:1000";
    recipe_.runs.ports = {20000};
    recipe_.runs.labels = {{"org.tenstorrent.tt-model", "gaze"}};
    recipe_.reference = "tt-model/gaze:0123456789ab";
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  OciImage Write(const std::string& name = "image") {
    auto image = WriteOciImage(recipe_, path(name));
    EXPECT_TRUE(image) << image.error().message;
    return image ? *image : OciImage{};
  }
  std::filesystem::path Blob(const std::string& digest, const std::string& layout = "image") const {
    return path(layout) / "blobs/sha256" / digest.substr(7);
  }
  // Replaces index.json by one that names this document.
  void Index(const std::string& document, const std::string& type = "application/vnd.oci.image.manifest.v1+json") {
    std::filesystem::create_directories(path("bad/blobs/sha256"));
    const std::string hex = Sha256Hex(AsBytes(document));
    std::ofstream(path("bad/blobs/sha256/" + hex)) << document;
    std::ofstream(path("bad/oci-layout")) << R"({"imageLayoutVersion":"1.0.0"})";
    std::ofstream(path("bad/index.json")) << Json{
        {"schemaVersion", 2},
        {"manifests", Json::array({{{"mediaType", type}, {"digest", "sha256:" + hex}, {"size", document.size()}}})}};
  }
  std::string BadLayout() {
    const auto layout = OpenOciLayout(path("bad"));
    return layout ? "" : layout.error().message;
  }

  TemporaryFolder folder_;
  OciImageRecipe recipe_;
};

TEST_F(LayoutTest, IsWrittenAndRead) {
  const OciImage image = Write();
  EXPECT_EQ(image.reference, "tt-model/gaze:0123456789ab");
  EXPECT_EQ(image.layers.size(), 2u);
  EXPECT_EQ(image.diff_ids.size(), 2u);
  EXPECT_THAT(image.runs.entrypoint, ElementsAre("/usr/bin/sightline"));
  EXPECT_THAT(image.runs.command, ElementsAre("serve"));
  EXPECT_THAT(image.runs.environment, ElementsAre(std::pair("HOME", "/home"), std::pair("A", "b=c")));
  EXPECT_THAT(image.runs.ports, ElementsAre(20000));
  EXPECT_EQ(image.runs.user, "1000:1000");
  EXPECT_EQ(image.runs.labels.at("org.tenstorrent.tt-model"), "gaze");
  const auto layout = OpenOciLayout(path("image"));
  ASSERT_TRUE(layout) << layout.error().message;
  ASSERT_EQ(layout->images.size(), 1u);
  EXPECT_EQ(layout->images[0].manifest.digest, image.manifest.digest);
  EXPECT_TRUE(VerifyOciLayout(*layout));
  EXPECT_EQ(ReadText(path("image/oci-layout")), R"({"imageLayoutVersion":"1.0.0"})");
  const Json docker = Json::parse(ReadText(path("image/manifest.json")));
  EXPECT_EQ(docker[0]["RepoTags"][0], "tt-model/gaze:0123456789ab");
  EXPECT_EQ(docker[0]["Config"], "blobs/sha256/" + image.config.digest.substr(7));
}

TEST_F(LayoutTest, UnpacksToWhatWasPackedIn) {
  const OciImage image = Write();
  std::filesystem::create_directory(path("out"));
  for (size_t i = 0; i < image.layers.size(); ++i) {
    const std::string blob = Blob(image.layers[i].digest).string();
    ASSERT_EQ(std::system(("tar -xzf " + blob + " -C " + path("out").string()).c_str()), 0);
    EXPECT_THAT(Output("gzip -dc " + blob + " | sha256sum"), StartsWith(image.diff_ids[i].substr(7)));
  }
  EXPECT_EQ(ReadText(path("out/etc/name")), "sightline");
  EXPECT_EQ(std::filesystem::read_symlink(path("out/link")), "/etc/name");
  EXPECT_EQ(ReadText(path("out/usr/bin/sightline")), std::string(100'000, 'b'));
  EXPECT_NE(std::filesystem::status(path("out/etc/run")).permissions() & std::filesystem::perms::others_exec,
            std::filesystem::perms::none);
}

TEST_F(LayoutTest, SameInputSameDigests) {
  const OciImage first = Write();
  std::filesystem::create_directories(path("elsewhere"));
  std::filesystem::copy(path("root"), path("elsewhere/root"),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  std::filesystem::permissions(path("elsewhere/root/etc"), std::filesystem::perms(0700));
  recipe_.layers[0].source = path("elsewhere/root");
  EXPECT_EQ(Write("again").manifest.digest, first.manifest.digest);
  std::ofstream(path("elsewhere/root/etc/name")) << "other";
  EXPECT_NE(Write("third").manifest.digest, first.manifest.digest);
}

TEST_F(LayoutTest, OtherToolsReadIt) {
  if (std::system("skopeo --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "skopeo is not installed";
  const OciImage image = Write();
  const std::string said = Output("skopeo inspect oci:" + path("image").string() + ":0123456789ab");
  ASSERT_NE(said, "");
  const Json inspected = Json::parse(said);
  EXPECT_EQ(inspected["Digest"], image.manifest.digest);
  EXPECT_EQ(inspected["Architecture"], "amd64");
  EXPECT_EQ(inspected["Layers"][1], image.layers[1].digest);
  EXPECT_EQ(inspected["Env"], Json::parse(R"(["HOME=/home","A=b=c"])"));
  // And a whole copy, which checks every digest and diff id.
  const std::string copy = "skopeo --insecure-policy copy oci:" + path("image").string() + ":0123456789ab ";
  EXPECT_NE(Output(copy + "docker-archive:" + path("docker.tar").string() + ":tt-model/gaze:1"), "");
  EXPECT_NE(Output(copy + "oci:" + path("copy").string() + ":latest"), "");
  const auto layout = OpenOciLayout(path("copy"));
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->images[0].reference, "latest");
  EXPECT_TRUE(VerifyOciLayout(*layout));
}

TEST_F(LayoutTest, FailuresLeaveNothing) {
  recipe_.layers.push_back({path("nowhere"), "/x"});
  EXPECT_EQ(WriteOciImage(recipe_, path("image")).error().code, Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path("image")));
  recipe_.layers.pop_back();
  for (const char* target : {"usr/bin", "/../x", "/a/../../x"}) {
    recipe_.layers[1].target = target;
    EXPECT_EQ(WriteOciImage(recipe_, path("image")).error().code, Code::kInvalidRequest) << target;
  }
  recipe_.layers[1].target = "/usr/bin/sightline";
  std::filesystem::create_directories(path("full"));
  std::ofstream(path("full/x")) << "mine";
  EXPECT_THAT(WriteOciImage(recipe_, path("full")).error().message, HasSubstr("is not empty"));
  EXPECT_TRUE(std::filesystem::exists(path("full/x")));
  ASSERT_EQ(std::system(("mkfifo " + path("root/pipe").string()).c_str()), 0);
  EXPECT_THAT(WriteOciImage(recipe_, path("image")).error().message, HasSubstr("a device, a pipe or a socket"));
}

TEST_F(LayoutTest, EveryDamageIsFound) {
  const OciImage image = Write();
  const auto layout = OpenOciLayout(path("image"));
  const std::vector<std::string> digests{image.manifest.digest, image.config.digest, image.layers[0].digest,
                                         image.layers[1].digest};
  for (const std::string& digest : digests) {
    const std::string good = ReadText(Blob(digest));
    std::string bad = good;
    bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 1);
    std::ofstream(Blob(digest)) << bad;
    EXPECT_EQ(VerifyOciLayout(*layout).error().code, Code::kCorruptWeights);
    EXPECT_THAT(VerifyOciLayout(*layout).error().message, HasSubstr(digest));
    std::ofstream(Blob(digest)) << good + "x";
    EXPECT_THAT(VerifyOciLayout(*layout).error().message, HasSubstr(" bytes, expected "));
    EXPECT_FALSE(OpenOciLayout(path("image")));
    std::filesystem::remove(Blob(digest));
    EXPECT_EQ(VerifyOciLayout(*layout).error().code, Code::kNotFound);
    EXPECT_EQ(OpenOciLayout(path("image")).error().code, Code::kNotFound);
    std::ofstream(Blob(digest)) << good;
  }
  EXPECT_TRUE(VerifyOciLayout(*layout));
  std::ofstream(Blob("sha256:" + std::string(64, 'a'))) << "nobody names it, but it is wrong";
  EXPECT_FALSE(VerifyOciLayout(*layout));
}

TEST_F(LayoutTest, BlobsMayBeLinks) {
  const OciImage image = Write();
  std::filesystem::rename(Blob(image.layers[0].digest), path("cached"));
  std::filesystem::create_symlink(path("cached"), Blob(image.layers[0].digest));
  const auto layout = OpenOciLayout(path("image"));
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_TRUE(VerifyOciLayout(*layout));
}

TEST_F(LayoutTest, MalformedDocumentsAreRefused) {
  const Json good = {{"schemaVersion", 2},
                     {"config", {{"mediaType", "x"}, {"digest", "sha256:" + std::string(64, 'a')}, {"size", 2}}},
                     {"layers", Json::array()}};
  const auto with = [&good](const Json::json_pointer& at, const Json& value) {
    Json changed = good;
    changed[at] = value;
    return changed.dump();
  };
  using Pointer = Json::json_pointer;
  const std::pair<std::string, const char*> cases[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{\"schemaVersion\":2", "no JSON object"},
      {with(Pointer("/schemaVersion"), 1), "schemaVersion is not 2"},
      {with(Pointer("/schemaVersion"), "2"), "schemaVersion is not 2"},
      {with(Pointer("/config"), 5), "config is missing or no object"},
      {with(Pointer("/config/digest"), "sha256:../../../../etc/passwd"), "config.digest is 'sha256:../"},
      {with(Pointer("/config/digest"), "md5:" + std::string(64, 'a')), "expected sha256:"},
      {with(Pointer("/config/size"), -1), "config.size is no number"},
      {with(Pointer("/config/size"), 1e300), "config.size is no number"},
      {with(Pointer("/config/size"), 5'000'000), "expected at most 4194304"},
      {with(Pointer("/layers"), {{"a", 1}}), "layers is missing or no list"},
      {with(Pointer("/layers"), Json::array({1})), "layers[0] is missing or no object"},
      {with(Pointer("/layers"), Json(std::vector<Json>(2000, good["config"]))), "has more than 1000 layers"},
      {with(Pointer("/layers"), Json::array({good["config"]})), "cannot read"},
      {std::string(100, '[') + std::string(100, ']'), "no JSON object"},
  };
  for (const auto& [document, reason] : cases) {
    Index(document);
    EXPECT_THAT(BadLayout(), HasSubstr(reason)) << document.substr(0, 200);
  }
  std::ofstream(path("bad/oci-layout")) << R"({"imageLayoutVersion":"2.0.0"})";
  EXPECT_THAT(BadLayout(), HasSubstr("imageLayoutVersion is '2.0.0'"));
}

TEST_F(LayoutTest, IndexesEndSomewhere) {
  // Each names the one before: deeper than anybody needs.
  std::string document = R"({"schemaVersion":2,"manifests":[]})";
  const std::string type = "application/vnd.oci.image.index.v1+json";
  for (int depth = 0; depth < 6; ++depth) {
    Index(document, type);
    EXPECT_TRUE(depth >= 4 || BadLayout().empty()) << depth;
    document = ReadText(path("bad/index.json"));
  }
  EXPECT_THAT(BadLayout(), HasSubstr("nested more than 4 deep"));
  // Wide at every level: a billion entries in a few kilobytes.
  document = R"({"schemaVersion":2,"manifests":[]})";
  for (int depth = 0; depth < 4; ++depth) {
    Index(document, type);
    Json index = Json::parse(ReadText(path("bad/index.json")));
    for (int i = 0; i < 200; ++i) index["manifests"].push_back(index["manifests"][0]);
    document = index.dump();
  }
  std::ofstream(path("bad/index.json")) << document;
  EXPECT_THAT(BadLayout(), HasSubstr("has more than 1000 manifests"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Archives of engines: cases 57 to 59

Status Collect(std::string* archive, std::span<const std::byte> bytes) {
  archive->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

Status ReadArchive(const std::string& archive, const std::filesystem::path& folder) {
  size_t at = 0;
  return ReadDockerArchive(
      [&](std::span<std::byte> bytes) -> Result<size_t> {
        const size_t count = std::min(bytes.size(), archive.size() - at);
        std::copy_n(AsBytes(archive).begin() + static_cast<std::ptrdiff_t>(at), count, bytes.begin());
        at += count;
        return count;
      },
      folder);
}

TEST_F(LayoutTest, ArchiveForLoadFollowsLinksAndIsSorted) {
  const OciImage image = Write();
  std::filesystem::rename(Blob(image.layers[0].digest), path("cached"));
  std::filesystem::create_symlink(path("cached"), Blob(image.layers[0].digest));
  std::string archive;
  const auto sink = [&archive](std::span<const std::byte> bytes) { return Collect(&archive, bytes); };
  ASSERT_TRUE(WriteDockerArchive(path("image"), "", sink));
  std::ofstream(path("archive.tar")) << archive;
  std::istringstream names(Output("tar tf " + path("archive.tar").string()));
  std::vector<std::string> members;
  for (std::string name; std::getline(names, name);) members.push_back(name);
  EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
  EXPECT_THAT(members,
              ::testing::IsSupersetOf({"blobs/", "blobs/sha256/", "index.json", "manifest.json", "oci-layout"}));
  EXPECT_THAT(members, ::testing::Contains("blobs/sha256/" + image.layers[0].digest.substr(7)));
  ASSERT_TRUE(ReadArchive(archive, path("back")));
  EXPECT_FALSE(std::filesystem::is_symlink(Blob(image.layers[0].digest, "back")));
  EXPECT_TRUE(VerifyOciLayout(*OpenOciLayout(path("back"))));
}

TEST_F(LayoutTest, ArchiveForLoadCanNameTheImage) {
  Write();
  std::string archive;
  const auto sink = [&archive](std::span<const std::byte> bytes) { return Collect(&archive, bytes); };
  ASSERT_TRUE(WriteDockerArchive(path("image"), "tt-model/other:1", sink));
  ASSERT_TRUE(ReadArchive(archive, path("back")));
  EXPECT_EQ(OpenOciLayout(path("back"))->images[0].reference, "tt-model/other:1");
  EXPECT_EQ(Json::parse(ReadText(path("back/manifest.json")))[0]["RepoTags"][0], "tt-model/other:1");
  EXPECT_EQ(OpenOciLayout(path("image"))->images[0].reference, "tt-model/gaze:0123456789ab");
}

TEST_F(LayoutTest, FolderWithoutLayoutIsNotLoaded) {
  std::string archive;
  const auto sink = [&archive](std::span<const std::byte> bytes) { return Collect(&archive, bytes); };
  const auto status = WriteDockerArchive(path("root"), "", sink);
  EXPECT_THAT(status.error().message, HasSubstr("is no image layout, it has no file oci-layout"));
  EXPECT_EQ(archive, "");
}

TEST_F(LayoutTest, SavedArchivesAreReadWithCare) {
  std::filesystem::create_directories(path("full"));
  std::ofstream(path("full/x")) << "mine";
  EXPECT_THAT(ReadArchive(Tar(), path("full")).error().message, HasSubstr("is not empty"));
  const auto status = ReadArchive(Tar(TarMember{"manifest.json", "[]"}), path("old"));
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("Docker 25 or newer"));
  for (const char* name : {"../x", "/x", "a/../../x"}) {
    EXPECT_FALSE(ReadArchive(Tar(TarMember{"oci-layout", R"({"imageLayoutVersion":"1.0.0"})"}, TarMember{name, "y"}),
                             path("evil")));
    EXPECT_FALSE(std::filesystem::exists(path("evil")));
    EXPECT_FALSE(std::filesystem::exists(path("x")));
  }
}

}  // namespace
}  // namespace sightline
