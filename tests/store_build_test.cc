// Building packages: staging, images by an engine, and this program as an image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/stored_package.h"

namespace sightline::testing {
namespace {

using ::testing::HasSubstr;

// As kImageDocker, but builds: an image whose id is fixed; `save` gives the archive that the test left.
constexpr char kBuildDocker[] = R"sh(
case "$1" in
  build) echo "step 1"; [ -e build-fails ] && { echo "base image not found" >&2; exit 1; }
    while [ $# -gt 0 ]; do [ "$1" = --tag ] && tag=$2; last=$1; shift; done
    [ -d "$last/code" ] && [ -e "$last/Dockerfile" ] || exit 3
    cp id "i-$(echo "$tag" | tr '/:' '__')"; exit;;
  tag) cp "i-$(echo "$2" | tr '/:' '__')" "i-$(echo "$3" | tr '/:' '__')"; exit;;
  save) for last; do :; done; cat archive.tar; exit;;
  run) echo "fastapi==1.0"; exit;;
esac
)sh";

class BuildTest : public StoreTest {
 protected:
  BuildTest() {
    WriteFile(metal() / "tt_metal" / "third_party" / "umd" / "CMakeLists.txt", "x");
    WriteFile(metal() / "pkg" / "server" / "app.py", "app = 1\n");
    WriteFile(metal() / "pkg" / "server" / "__pycache__" / "app.pyc", "x");
    Git("init -q -b main");
    Git("add -A");
    Git("-c user.name=t -c user.email=t@t commit -q -m one");
    WriteFile(yaml(), With(kDitManifest, "tt_metal: tt-metal", "tt_metal: " + metal().string()));
    docker_.Answer(std::string(kBuildDocker) + kImageDocker);
  }
  fs::path metal() const { return folder_.path() / "tt-metal"; }
  fs::path yaml() const { return folder_.path() / "author" / "tt-model.yaml"; }
  fs::path out() const { return folder_.path() / "out"; }
  void Git(const std::string& words) const {
    const std::string command = "PATH=/usr/bin:/bin git -C " + metal().string() + " " + words;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  StoreResult<BuildReport> Build(bool build = true) {
    const ScopedVariable path("PATH", docker_.folder().string() + ":/usr/bin:/bin");
    const ScopedVariable epoch("SOURCE_DATE_EPOCH", "1790000000");
    return BuildPackage(Settings(), {yaml(), out(), build, false}, &reports_);
  }
  // What the engine will have built.
  void ProvideImage() {
    OciImageRecipe recipe;
    WriteFile(folder_.path() / "tree" / "x", "y");
    recipe.layers = {{folder_.path() / "tree", "/"}};
    const auto image = WriteOciImage(recipe, folder_.path() / "layout");
    ASSERT_TRUE(image);
    WriteFile(docker_.folder() / "id", image->config.digest);
    std::ofstream archive(docker_.folder() / "archive.tar", std::ios::binary);
    const auto write = [&](std::span<const std::byte> bytes) -> Status {
      archive.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      return {};
    };
    ASSERT_TRUE(WriteDockerArchive(folder_.path() / "layout", FinalTag("my-dit", image->config.digest), write));
  }
};

TEST_F(BuildTest, StagingAloneIsReproducible) {
  const auto first = Build(false);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->built);
  EXPECT_EQ(first->folder, out() / "my-dit.staged");
  EXPECT_THAT(first->dropped, ::testing::Contains(HasSubstr("__pycache__")));
  const auto files = FilesBelow(first->folder);
  for (const char* name : {"ctx/Dockerfile", "ctx/install_engine.sh", "ctx/verify.sh", "ctx/serve-default.sh",
                           "ctx/entrypoint.sh", "ctx/code/pkg/server/app.py", "README.md", kWireManifestName}) {
    EXPECT_TRUE(files.contains(name)) << name;
  }
  EXPECT_FALSE(files.contains("ctx/code/pkg/server/__pycache__/app.pyc"));
  ASSERT_TRUE(Build(false));
  EXPECT_EQ(FilesBelow(first->folder), files);
}

TEST_F(BuildTest, BuiltPackageIsWhole) {
  ProvideImage();
  const auto report = Build();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->folder, out() / "my-dit");
  const auto wire = WireManifest::Load(report->folder / kWireManifestName);
  ASSERT_TRUE(wire);
  EXPECT_EQ(wire->container->image.tag, report->image);
  EXPECT_EQ(wire->container->image.digest, report->image_digest);
  EXPECT_EQ(CodeDigest(report->folder / "code"), report->code_digest);
  EXPECT_TRUE(OpenOciLayout(report->folder / "image"));
  EXPECT_THAT(ReadWhole(report->folder / "requirements.lock"), HasSubstr("fastapi==1.0"));
  EXPECT_FALSE(fs::exists(report->folder / "ctx"));
  EXPECT_THAT(ReadWhole(Settings().folders.BuildLog("my-dit")), HasSubstr("+ docker build"));
  EXPECT_THAT(ReadWhole(report->folder / kWireManifestName),
              ::testing::Not(HasSubstr(folder_.path().string() + "/out")));
}

TEST_F(BuildTest, FailedBuildLeavesThePreviousOne) {
  ProvideImage();
  ASSERT_TRUE(Build());
  const auto before = FilesBelow(out() / "my-dit");
  WriteFile(docker_.folder() / "build-fails", "");
  const auto failed = Build();
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().card.detail, HasSubstr("my-dit.staged"));
  EXPECT_EQ(FilesBelow(out() / "my-dit"), before);
  EXPECT_TRUE(fs::exists(out() / "my-dit.staged" / "ctx" / "Dockerfile"));
}

TEST_F(BuildTest, WithoutAnEngineTheStagedFilesAreNamed) {
  RemoveEngine();
  const auto failed = Build();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().card.cause, "no image can be built here");
  EXPECT_TRUE(fs::exists(out() / "my-dit.staged" / "ctx" / "code" / "pkg"));
}

TEST_F(BuildTest, CredentialsOfSourcesAreNotPublished) {
  WriteFile(metal() / "models" / "common" / "a.py", "a = 1\n");
  WriteFile(metal() / "models" / "autoports" / "my_model" / "m.py", "m = 1\n");
  WriteFile(yaml(), With(With(kForkManifest, "tt_metal: tt-metal", "tt_metal: " + metal().string()), "https://",
                         "https://user:secret@"));
  const auto staged = Build(false);
  ASSERT_TRUE(staged) << staged.error().message;
  const std::string manifest = ReadWhole(staged->folder / kWireManifestName);
  EXPECT_THAT(manifest, HasSubstr("https://example.org/vllm"));
  EXPECT_THAT(manifest, ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(ReadWhole(staged->folder / "README.md"), ::testing::Not(HasSubstr("secret")));
}

TEST_F(BuildTest, LockThatIsMissingIsAnError) {
  WriteFile(yaml(), With(ReadWhole(yaml()), "runtime:", "runtime:\n  lock: absent.lock"));
  const auto failed = Build(false);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("absent.lock"));
  EXPECT_FALSE(fs::exists(out() / "my-dit.staged"));
}

TEST_F(BuildTest, ProgramBecomesAnImageThatIsTheSameEachTime) {
  const ScopedVariable path("PATH", "/usr/bin:/bin"), time("SOURCE_DATE_EPOCH", "1780000000");
  const ProgramImageOptions options{"gaze-lle", "/usr/bin/true", out(), "you/gaze-lle-cpu"};
  const auto first = BuildProgramPackage(options, nullptr);
  ASSERT_TRUE(first) << first.error().message;
  const auto files = FilesBelow(first->folder);
  const auto again = BuildProgramPackage(options, nullptr);
  ASSERT_TRUE(again);
  EXPECT_EQ(first->image_digest, again->image_digest);
  EXPECT_EQ(FilesBelow(again->folder), files);
  const auto wire = WireManifest::Load(first->folder / kWireManifestName);
  ASSERT_TRUE(wire) << wire.error().message;
  EXPECT_FALSE(NeedsDevices(*wire));
  EXPECT_THAT(ReadWhole(first->folder / "README.md"), HasSubstr("Runs on the processor, x86_64, without any device."));
  const auto profile = wire->container->ResolveProfile();
  ASSERT_TRUE(profile) << profile.error().message;
  const auto command = ServeCommand(*wire, *profile);
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_THAT(*command, ::testing::Contains("/opt/sightline/bin/sightline"));
  const auto layout = OpenOciLayout(first->folder / "image");
  ASSERT_TRUE(layout);
  EXPECT_THAT(layout->images.front().reference, HasSubstr(first->image));
  EXPECT_EQ(wire->container->image.digest, layout->images.front().config.digest);
  const fs::path root = folder_.path() / "unpacked";
  for (const OciDescriptor& layer : layout->images.front().layers) {
    const auto unpacked = UnpackArchiveFile(layout->folder / "blobs/sha256" / layer.digest.substr(7), root);
    ASSERT_TRUE(unpacked) << unpacked.error().message;
  }
  EXPECT_TRUE(fs::exists(root / "opt/sightline/bin/sightline"));
  // What was packed starts by what was packed with it, and by nothing else.
  const std::string loader = (root / "lib64/ld-linux-x86-64.so.2").string();
  const std::string run = loader + " --library-path " + (root / "opt/sightline/lib").string() + " --inhibit-cache " +
                          (root / "opt/sightline/bin/sightline").string();
  if (fs::exists(loader)) {
    EXPECT_EQ(std::system(run.c_str()), 0);
  }
}

}  // namespace
}  // namespace sightline::testing
