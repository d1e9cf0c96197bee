#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "hub/hub.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HubPattern, MatchesAsPythonsFnmatch) {  // each row as Python 3.11 answers
  const struct {
    const char* pattern;
    const char* path;
    bool matches;
  } rows[] = {
      {"*.json", "a/b.json", true},
      {"*.json", "a.jsonl", false},
      {"image/**", "image/blobs/sha256/ab", true},
      {"image/", "image/index", true},
      {"image/", "images", false},
      {"data/*.json", "data/x/y.json", true},
      {"?.bin", "a.bin", true},
      {"?.bin", "ab.bin", false},
      {"[ab].bin", "b.bin", true},
      {"[!ab].bin", "b.bin", false},
      {"[!ab].bin", "c.bin", true},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[]]x", "]x", true},
      {"[!]]x", "]x", false},
      {"[abc", "[abc", true},
      {"[^a]x", "^x", true},
      {"[^a]x", "bx", false},
      {"a.b", "axb", false},
      {"*", "", true},
      {"", "", true},
      {"", "a", false},
      {"**a", "bca", true},
      {"*a*b*c", "xaxbxcx", false},
      {"*a*b*c", "xaxbxc", true},
      {"?.txt", "ä.txt", true},
      {"??.txt", "ä.txt", false},
      {"A.txt", "a.txt", false},
      {"code\\*", "code/a", true},
      {"[a-]x", "-x", true},
      {"[-a]x", "-x", true},
      {"*.safetensors", "m-00001-of-00002.safetensors", true},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(MatchesHubPattern(row.pattern, row.path), row.matches) << row.pattern << " and " << row.path;
  }
}

TEST(HubPattern, ManyStarsEndSoon) {
  const std::string pattern = [] {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "*a";
    return text + "b";
  }();
  EXPECT_FALSE(MatchesHubPattern(pattern, std::string(2000, 'a')));
}

TEST(HubPattern, AllowComesFirstThenIgnore) {
  const HubPatterns patterns{{"*.json", "image/"}, {"image/big*"}};
  EXPECT_TRUE(patterns.Select("config.json"));
  EXPECT_TRUE(patterns.Select("image/index"));
  EXPECT_FALSE(patterns.Select("image/big.json"));
  EXPECT_FALSE(patterns.Select("model.safetensors"));
  EXPECT_TRUE(HubPatterns().Select("anything"));
}

TEST(HubNames, RepoIdsAreThoseTheHubAllows) {
  for (const char* good : {"org/name", "a/b", "Org-1/na.me_2", "nvidia/LocateAnything-3B", "_x/y_"}) {
    EXPECT_TRUE(CheckRepoId(good)) << good;
  }
  for (const char* bad : {"", "name", "/name", "org/", "a/b/c", "../etc", "org/..", "org/na me", "org/-x", "org/x.",
                          "or--g/name", "org/a..b", "org/name.git", "org/na\nme", "org/näme"}) {
    const Status status = CheckRepoId(bad);
    ASSERT_FALSE(status) << bad;
    EXPECT_THAT(status.error().message, HasSubstr("is not a repo id"));
    EXPECT_THAT(status.error().message, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(CacheFolderName("Org/Na.me"), "models--Org--Na.me");
}

TEST(HubNames, PathsStayInsideAFolder) {
  for (const char* good : {"a", "a/b/c.json", ".gitattributes", "ä/ö", "a b", "..a", "a..", "-"}) {
    EXPECT_TRUE(CheckHubPath(good)) << good;
  }
  const std::string long_part(256, 'x'), long_path = std::string(2049, 'y');
  for (const std::string bad : {"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "./a", "a//b", "a/",
                                "a\\b", "a\nb", "a\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80"}) {
    EXPECT_FALSE(CheckHubPath(bad)) << bad;
  }
  EXPECT_FALSE(CheckHubPath(long_part));
  EXPECT_FALSE(CheckHubPath(long_path));
  EXPECT_FALSE(CheckHubPath(std::string("a\0b", 3)));
}

TEST(HubNames, ACommitIsFortyDigits) {
  EXPECT_TRUE(IsCommit("f83e53f0f17dd2175f31ceaf9fa650044147ada1"));
  EXPECT_FALSE(IsCommit("F83E53F0F17DD2175F31CEAF9FA650044147ADA1"));
  EXPECT_FALSE(IsCommit("f83e53f"));
  EXPECT_FALSE(IsCommit("main"));
}

// The environment of a test, taken back afterwards.
class HubSettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) unsetenv(name);
    setenv("HOME", home_.path().c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : kNames) unsetenv(name);
  }
  std::filesystem::path Home() const { return home_.path(); }
  void Write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static HubSettings Read() {
    const auto settings = HubSettingsFromEnvironment();
    EXPECT_TRUE(settings) << settings.error().message;
    return settings ? *settings : HubSettings();
  }

 private:
  static constexpr const char* kNames[] = {
      "HF_HOME",       "HF_HUB_CACHE",          "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME",
      "HF_ENDPOINT",   "HF_HUB_OFFLINE",        "TRANSFORMERS_OFFLINE",  "HF_TOKEN",
      "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"};
  TemporaryFolder home_;
};

TEST_F(HubSettingsTest, CacheFollowsTheVariablesInTheirOrder) {
  EXPECT_EQ(Read().cache, Home() / ".cache/huggingface/hub");
  EXPECT_EQ(Read().endpoint, "https://huggingface.co");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(Read().cache, "/xdg/huggingface/hub");
  setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(Read().cache, Home() / "hf/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(Read().cache, "/old");
  setenv("HF_HUB_CACHE", "$HOME/new/${HF_HOME}/$NO_SUCH_VARIABLE", 1);
  EXPECT_EQ(Read().cache.string(), Home().string() + "/new/~/hf/$NO_SUCH_VARIABLE");
}

TEST_F(HubSettingsTest, OfflineIsTrueInTheWordsOfThePythonPackage) {
  for (const char* yes : {"1", "on", "Yes", "TRUE"}) {
    setenv("HF_HUB_OFFLINE", yes, 1);
    EXPECT_TRUE(Read().offline) << yes;
  }
  for (const char* no : {"0", "", "off", "2"}) {
    setenv("HF_HUB_OFFLINE", no, 1);
    EXPECT_FALSE(Read().offline) << no;
  }
}

TEST_F(HubSettingsTest, TokenFollowsTheVariablesInTheirOrder) {
  EXPECT_EQ(Read().token, "");
  Write(Home() / ".cache/huggingface/token", " hf_file\n");
  EXPECT_EQ(Read().token, "hf_file");
  EXPECT_THAT(Read().token_source, HasSubstr("huggingface/token"));
  Write(Home() / "elsewhere", "hf_elsewhere");
  setenv("HF_TOKEN_PATH", "~/elsewhere", 1);
  EXPECT_EQ(Read().token, "hf_elsewhere");
  setenv("HUGGING_FACE_HUB_TOKEN", "hf_legacy", 1);
  EXPECT_EQ(Read().token, "hf_legacy");
  setenv("HF_TOKEN", "\thf_first\r\n", 1);
  EXPECT_EQ(Read().token, "hf_first");
  EXPECT_EQ(Read().token_source, "HF_TOKEN");
}

TEST_F(HubSettingsTest, NonsenseIsNamedAndATokenNeverShown) {
  setenv("HF_ENDPOINT", "ftp://u:secret@host/", 1);
  auto settings = HubSettingsFromEnvironment();
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("HF_ENDPOINT"));
  EXPECT_THAT(settings.error().message, Not(HasSubstr("secret")));
  setenv("HF_ENDPOINT", "http://127.0.0.1:8000///", 1);
  EXPECT_EQ(Read().endpoint, "http://127.0.0.1:8000");
  setenv("HF_TOKEN", "hf_secret with a space", 1);
  settings = HubSettingsFromEnvironment();
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("HF_TOKEN"));
  EXPECT_THAT(settings.error().message, Not(HasSubstr("hf_secret")));
}

}  // namespace
}  // namespace sightline
