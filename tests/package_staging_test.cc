// Code trees: their digest, what is copied into a package and what is not, and where it came from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "package/package.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

void Write(const fs::path& path, std::string_view content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string Content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Every file and link below, relative.
std::vector<std::string> Files(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!fs::is_directory(entry.symlink_status())) files.push_back(entry.path().lexically_relative(folder).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(PackageDigest, Case61GoldenVectors) {
  using Tree = std::vector<std::pair<const char*, const char*>>;
  const std::pair<Tree, const char*> cases[] = {
      {{}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {{{"a/b.txt", "x"}, {"a-b.txt", "y"}}, "d8e04255df1bdc7cee70b2332b6cd314d455c4a5cf671416f5922889973d3bcb"},
      {{{"models/common/__init__.py", ""}, {"models/common/x.py", "print(1)\n"}},
       "d7dbe9b9d776f56287e87810556bedb36259cad494cf6057cf5f1df5840cab36"},
      {{{"a/b.txt", "x"},
        {"a-b.txt", "y"},
        {"a.txt", "z"},
        {"a/B.txt", ""},
        {"A/z", "1"},
        {"__init__.py", ""},
        {"models/common/__init__.py", "# hi\n"}},
       "77d214b6d02abfdab9293f6522f188284d67a553be22fa50d449cdcc6738d842"},
  };
  for (const auto& [tree, expected] : cases) {
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "empty/folders/count/for/nothing");
    for (const auto& [name, content] : tree) Write(folder.path() / name, content);
    EXPECT_EQ(CodeDigest(folder.path()).value(), expected);
  }
}

TEST(PackageDigest, RefusesWhatIsNoTree) {
  const TemporaryFolder folder;
  EXPECT_FALSE(CodeDigest(folder.path() / "missing").has_value());
  fs::create_symlink("/etc/passwd", folder.path() / "link");
  EXPECT_FALSE(CodeDigest(folder.path()).has_value());
}

class PackageStaging : public ::testing::Test {
 protected:
  Result<std::vector<std::string>> Stage(std::vector<CodeRoot> roots) { return StageCode(roots, out_); }

  const TemporaryFolder folder_;
  const fs::path metal_ = folder_.path() / "metal", extra_ = folder_.path() / "extra", out_ = folder_.path() / "code";
};

TEST_F(PackageStaging, Case60TwoRootsBecomeOneTree) {
  Write(metal_ / "models/common/a.py", "a");
  Write(metal_ / "models/common/__pycache__/a.pyc", "x");
  Write(metal_ / "models/common/tt/mlp.py", "stock");
  Write(metal_ / "models/other/b.py", "b");
  Write(extra_ / "models/common/tt/mlp.py", "ours");
  Write(extra_ / "server/app.py", "app");
  Write(extra_ / "server/logs/today", "x");
  Write(extra_ / "server/weights.safetensors", "x");
  Write(extra_ / "conftest.py", "c");
  const auto staged = Stage({{metal_, {"models/common"}}, {extra_, {"models", "server/", "conftest.py"}}});
  ASSERT_TRUE(staged.has_value()) << staged.error().message;
  EXPECT_THAT(*staged, UnorderedElementsAre("models/common/__pycache__", "server/logs", "server/weights.safetensors"));
  EXPECT_THAT(Files(out_),
              ElementsAre("conftest.py", "models/common/a.py", "models/common/tt/mlp.py", "server/app.py"));
  EXPECT_EQ(Content(out_ / "models/common/tt/mlp.py"), "ours");
}

TEST_F(PackageStaging, CachesAndWeightsAreNeverShipped) {
  const std::vector<std::string> dropped = {"__pycache__", "a.pyc",  ".pytest_cache", "a.egg-info",    ".venv",
                                            "venv",        "logs",   "a.log",         "a.safetensors", "a.pt",
                                            "a.pth",       "a.ckpt", "a.bin",         "a.refpt"};
  const std::vector<std::string> kept = {".hidden", "a.json", "a.py", "log", "logs.py", "readiness_check", "venv2"};
  for (const std::string& name : dropped) Write(metal_ / "m" / name, "x");
  for (const std::string& name : kept) Write(metal_ / "m" / name, "x");
  const auto staged = Stage({{metal_, {"m"}}});
  ASSERT_TRUE(staged.has_value());
  EXPECT_EQ(staged->size(), dropped.size());
  EXPECT_EQ(Files(out_ / "m"), kept);
}

TEST_F(PackageStaging, ASingleFileIsNotFiltered) {
  Write(metal_ / "models/table.bin", "x");
  EXPECT_TRUE(Stage({{metal_, {"models/table.bin"}}}).has_value());
  EXPECT_EQ(Content(out_ / "models/table.bin"), "x");
}

TEST_F(PackageStaging, NothingIsLeftOutSilently) {
  Write(metal_ / "a", "x");
  const auto staged = Stage({{metal_, {"missing"}}});
  ASSERT_FALSE(staged.has_value());
  EXPECT_THAT(staged.error().message, HasSubstr("'missing' does not exist"));
  fs::remove_all(out_);
  EXPECT_THAT(Stage({{metal_, {"a"}}, {extra_, {"a"}}}).error().message, HasSubstr(extra_.string()));
}

TEST_F(PackageStaging, AReadOnlyFileIsReplacedToo) {
  Write(metal_ / "m/a", "stock");
  fs::permissions(metal_ / "m/a", fs::perms::owner_read);
  Write(extra_ / "m/a", "ours");
  EXPECT_TRUE(Stage({{metal_, {"m"}}, {extra_, {"m"}}}).has_value());
  EXPECT_EQ(Content(out_ / "m/a"), "ours");
}

TEST_F(PackageStaging, LinksInsideAreFollowedAndOthersRefused) {
  Write(metal_ / "real/a", "x");
  fs::create_directories(metal_ / "models");
  fs::create_symlink("../real", metal_ / "models/inside");
  ASSERT_TRUE(Stage({{metal_, {"models"}}}).has_value());
  EXPECT_EQ(Content(out_ / "models/inside/a"), "x");
  EXPECT_FALSE(fs::is_symlink(out_ / "models/inside"));
  fs::remove_all(out_);
  fs::create_symlink("/etc", metal_ / "models/outside");
  EXPECT_THAT(Stage({{metal_, {"models"}}}).error().message, HasSubstr("leads out of"));
  fs::remove_all(out_);
  fs::remove(metal_ / "models/outside");
  fs::create_symlink("../models", metal_ / "models/circle");
  EXPECT_THAT(Stage({{metal_, {"models"}}}).error().message, HasSubstr("circle"));
  fs::remove_all(out_);
  fs::remove(metal_ / "models/circle");
  ASSERT_EQ(::mkfifo((metal_ / "models/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Stage({{metal_, {"models"}}}).error().message, HasSubstr("neither file nor folder"));
}

TEST_F(PackageStaging, PathsThatEscapeAreRefused) {
  Write(folder_.path() / "secret", "x");
  fs::create_directories(metal_);
  for (const char* entry : {"../secret", "/etc/passwd", "a/../../secret", ""}) {
    EXPECT_FALSE(Stage({{metal_, {entry}}}).has_value()) << entry;
    fs::remove_all(out_);
  }
}

TEST_F(PackageStaging, DestinationMustBeNewAndOutside) {
  Write(metal_ / "a/b", "x");
  fs::create_directories(out_);
  EXPECT_FALSE(Stage({{metal_, {"a"}}}).has_value());
  EXPECT_FALSE(CopyMetalTree(metal_, metal_ / "copy").has_value());
}

TEST_F(PackageStaging, MetalTreeWithoutWhatNoImageNeeds) {
  for (const char* name : {"tt_metal/a.cc", "tt_metal/build_graph.cpp", "build_metal.sh", "tests/x.cc", "ttnn/docs2/y",
                           "build_Release/x", "build/x", "venv/x", ".venv-dev/x", "models/m.py", "docs/d",
                           "ttnn/docs/d", ".git/HEAD", "run.log", "ttnn/models/m"}) {
    Write(metal_ / name, "x");
  }
  fs::create_symlink("tt_metal/a.cc", metal_ / "link");
  ASSERT_TRUE(CopyMetalTree(metal_, out_).has_value());
  EXPECT_THAT(Files(out_), ElementsAre("build_metal.sh", "link", "tests/x.cc", "tt_metal/a.cc",
                                       "tt_metal/build_graph.cpp", "ttnn/docs2/y"));
  EXPECT_TRUE(fs::is_symlink(out_ / "link"));
}

class PackageGit : public PackageStaging {
 protected:
  void Git(const std::string& arguments) {
    const std::string line = "git -c user.name=t -c user.email=t@t -c init.defaultBranch=main -C '" + metal_.string() +
                             "' " + arguments + " >/dev/null 2>&1";
    ASSERT_EQ(std::system(line.c_str()), 0) << arguments;
  }
  void MakeMetal() {
    Write(metal_ / "tt_metal/third_party/umd/CMakeLists.txt", "x");
    Git("init");
    Git("add .");
    Git("commit -m one");
  }
};

TEST_F(PackageGit, ProvenanceOfALocalCheckout) {
  MakeMetal();
  Git("tag -a v0.78.0 -m x");
  const auto clean = ResolveLocalMetal(metal_);
  ASSERT_TRUE(clean.has_value()) << clean.error().message;
  EXPECT_EQ(clean->sha.size(), 40u);
  EXPECT_EQ(clean->describe, "v0.78.0");
  EXPECT_EQ(clean->scm_version, "0.78.0");
  EXPECT_EQ(clean->branch, "main");
  EXPECT_FALSE(clean->dirty);
  EXPECT_FALSE(clean->pushed);
  EXPECT_EQ(clean->remote, std::nullopt);
  Git("commit --allow-empty -m two");
  Git("clone --bare . ../remote.git");
  Git("remote add origin https://me:secret@example.org/upstream");
  Git("remote add fork ../remote.git");
  Git("fetch fork");
  Write(metal_ / "new", "x");
  const auto dirty = ResolveLocalMetal(metal_);
  ASSERT_TRUE(dirty.has_value());
  EXPECT_TRUE(dirty->dirty);
  EXPECT_TRUE(dirty->pushed);
  EXPECT_EQ(dirty->remote, "../remote.git");  // origin does not hold the commit
  EXPECT_EQ(dirty->scm_version, "0.78.1.dev1");
  Git("remote remove fork");
  EXPECT_EQ(ResolveLocalMetal(metal_)->remote, "https://example.org/upstream");
}

TEST_F(PackageGit, WhatIsNoTtMetal) {
  fs::create_directories(metal_);
  EXPECT_THAT(ResolveLocalMetal(metal_).error().message, HasSubstr("no tt-metal checkout"));
  fs::create_directories(metal_ / "tt_metal");
  EXPECT_THAT(ResolveLocalMetal(metal_).error().message, HasSubstr("uninitialised git submodules"));
}

TEST(PackageScm, VersionsOfDescriptions) {
  const std::tuple<const char*, bool, const char*> cases[] = {
      {"v0.78.0-0-gabc1234", false, "0.78.0"},
      {"v0.78.0-25-gabc1234", false, "0.78.1.dev25"},
      {"v0.78.0-25-gabc1234-dirty", false, "0.78.1.dev25+gabc1234"},
      {"v0.78.0-0-gabc1234", true, "0.78.0+gabc1234"},
      {"v0.78.0", false, "0.78.0"},
      {"", false, "0.0.0.dev0"},
      {"v0.78", false, "0.0.0.dev0"},
      {"v0.78.0-rc1-25-gabc", false, "0.0.0.dev0"},
      {"v1.2.99999999999999999999", false, "0.0.0.dev0"},
  };
  for (const auto& [describe, dirty, version] : cases) EXPECT_EQ(ScmVersion(describe, dirty), version) << describe;
}

TEST_F(PackageGit, ReferencesBecomeCommits) {
  MakeMetal();
  Git("tag -a v1 -m x");
  const std::string repo = metal_.string();
  const std::string sha = ResolveLocalMetal(metal_)->sha;
  EXPECT_EQ(ResolveGitReference(repo, "main").value(), sha);
  EXPECT_EQ(ResolveGitReference(repo, "v1").value(), sha);  // the commit, not the tag
  EXPECT_EQ(ResolveGitReference(repo, "abcdef1").value(), "abcdef1");
  EXPECT_EQ(ResolveGitReference("/nowhere", std::string(40, 'a')).value(), std::string(40, 'a'));
  EXPECT_THAT(ResolveGitReference(repo, "missing").error().message, HasSubstr("'missing'"));
  EXPECT_FALSE(ResolveGitReference("--upload-pack=touch /nowhere/x", "main").has_value());
}

TEST_F(PackageGit, ReferenceIsAWholeNameAndATagComesBeforeABranch) {
  MakeMetal();
  const std::string first = ResolveCheckout(metal_)->sha;
  Git("checkout -b x/main");
  Git("commit --allow-empty -m two");
  const std::string second = ResolveCheckout(metal_)->sha;
  const std::string repo = metal_.string();
  EXPECT_EQ(ResolveGitReference(repo, "main").value(), first);
  EXPECT_EQ(ResolveGitReference(repo, "x/main").value(), second);
  EXPECT_EQ(ResolveGitReference(repo, "refs/heads/main").value(), first);
  EXPECT_EQ(ResolveGitReference(repo, "heads/x/main").value(), second);
  EXPECT_EQ(ResolveGitReference(repo, "HEAD").value(), second);
  Git("branch release");
  Git("tag -a release main -m x");
  EXPECT_EQ(ResolveGitReference(repo, "release").value(), first);
  Git("tag -a other/late -m x");
  EXPECT_FALSE(ResolveGitReference(repo, "late").has_value());
  EXPECT_FALSE(ResolveGitReference(repo, "ma*").has_value());
}

TEST_F(PackageGit, CloneIsAtItsCommit) {
  MakeMetal();
  const GitSource source{metal_.string(), "main", ResolveCheckout(metal_)->sha};
  Write(metal_ / "later", "x");
  Git("add .");
  Git("commit -m two");
  ASSERT_TRUE(CloneCommit(source, out_));
  EXPECT_FALSE(fs::exists(out_ / "later"));
  EXPECT_EQ(ResolveCheckout(out_)->sha, source.sha);
  EXPECT_FALSE(ResolveCheckout(out_)->dirty);
  const auto failed = CloneCommit({(folder_.path() / "nothing").string(), "main"}, folder_.path() / "other");
  EXPECT_EQ(failed.error().code, Code::kUnreachable);
  EXPECT_THAT(failed.error().message, HasSubstr("nothing"));
}

TEST_F(PackageGit, CheckoutByGitsListing) {
  Write(metal_ / "pyproject.toml", "x");
  Write(metal_ / ".gitignore", "model_cache/\n");
  Write(metal_ / "src/a.py", "a");
  Write(metal_ / "src/gone.py", "a");
  Git("init");
  Git("add .");
  Write(metal_ / "src/new.py", "not committed");
  Write(metal_ / "model_cache/huge", "x");
  Write(metal_ / "src/__pycache__/a.pyc", "x");
  fs::remove(metal_ / "src/gone.py");
  ASSERT_TRUE(CopyCheckout(metal_, out_).has_value());
  EXPECT_THAT(Files(out_), ElementsAre(".gitignore", "pyproject.toml", "src/a.py", "src/new.py"));
}

TEST_F(PackageGit, CheckoutThatGitCannotListIsAnError) {
  Write(metal_ / "pyproject.toml", "x");
  Write(metal_ / "secret.env", "x");
  Write(metal_ / ".git", "gitdir: /nowhere\n");
  const auto copied = CopyCheckout(metal_, out_);
  ASSERT_FALSE(copied.has_value());
  EXPECT_THAT(copied.error().message, HasSubstr("not a git repository: /nowhere"));
  EXPECT_FALSE(fs::exists(out_ / "secret.env"));
}

TEST_F(PackageGit, FolderThatTheCheckoutAroundItIgnoresIsCopied) {
  Write(metal_ / ".gitignore", "vendored/\n");
  Write(metal_ / "vendored/plugin/setup.py", "x");
  Git("init");
  ASSERT_TRUE(CopyCheckout(metal_ / "vendored/plugin", out_).has_value());
  EXPECT_THAT(Files(out_), ElementsAre("setup.py"));
}

TEST_F(PackageGit, CheckoutThatIsNoRepository) {
  Write(metal_ / "setup.py", "x");
  Write(metal_ / "src/a.py", "a");
  Write(metal_ / "build/x", "x");
  Write(metal_ / "a.egg-info/x", "x");
  ASSERT_TRUE(CopyCheckout(metal_, out_).has_value());
  EXPECT_THAT(Files(out_), ElementsAre("setup.py", "src/a.py"));
  EXPECT_THAT(CopyCheckout(metal_ / "src", out_).error().message, HasSubstr("no Python package"));
}

}  // namespace
}  // namespace sightline
