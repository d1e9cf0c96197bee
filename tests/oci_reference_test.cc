#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "oci/oci.h"
#include "tests/support/fake_program.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

TEST(OciReferenceTest, Grammar) {
  struct Row {
    std::string text, host, repository, tag, digest;
  };
  const Row rows[] = {
      {"oci://localhost:5000/gaze", "localhost:5000", "gaze", "latest", ""},
      {"oci://ghcr.io/team/gaze-lle:1.0_a", "ghcr.io", "team/gaze-lle", "1.0_a", ""},
      {"oci://host/a/b/c@" + kDigest, "host", "a/b/c", "", kDigest},
      {"oci://h/a__b.c--d:T@" + kDigest, "h", "a__b.c--d", "T", kDigest},
      {"oci://[::1]:5000/a", "[::1]:5000", "a", "latest", ""},
      {"ghcr.io/a", "ghcr.io", "a", "latest", ""},
      {"localhost/a:b", "localhost", "a", "b", ""},
  };
  for (const Row& row : rows) {
    const auto reference = ParseOciReference(row.text);
    ASSERT_TRUE(reference) << reference.error().message;
    EXPECT_EQ(reference->host, row.host);
    EXPECT_EQ(reference->repository, row.repository);
    EXPECT_EQ(reference->tag, row.tag);
    EXPECT_EQ(reference->digest, row.digest);
    EXPECT_EQ(*ParseOciReference(FormatOciReference(*reference)).map(FormatOciReference),
              FormatOciReference(*reference));
  }
}

TEST(OciReferenceTest, WhatIsNoneIsRefused) {
  for (const std::string text : {"",
                                 "oci://",
                                 "oci:///a",
                                 "oci://host",
                                 "oci://host/",
                                 "oci://host/A",
                                 "oci://host/a/",
                                 "oci://host//a",
                                 "oci://host/a:",
                                 "oci://host/a:.b",
                                 "oci://host/a@sha256:12",
                                 "oci://host/a@",
                                 "oci://host/a..b",
                                 "oci://host/a___b",
                                 "oci://host/-a",
                                 "oci://host/../a",
                                 "oci://ho st/a",
                                 "oci://user:pw@host/a",
                                 "oci://host:0/a",
                                 "oci://host:99999/a",
                                 "oci://host:x/a",
                                 "org/name",
                                 "oci://host/a?b",
                                 "oci://host/a:b:c",
                                 "oci://[::1/a",
                                 "oci://host/a@sha512:12"}) {
    const auto reference = ParseOciReference(text);
    ASSERT_FALSE(reference) << text;
    EXPECT_EQ(reference.error().code, Code::kUsage);
    EXPECT_THAT(reference.error().message, HasSubstr("expected for example oci://"));
  }
  EXPECT_FALSE(ParseOciReference("oci://host/" + std::string(300, 'a')));
  EXPECT_FALSE(ParseOciReference("oci://host/a:" + std::string(129, 'a')));
}

TEST(DigestTest, OnlySha256) {
  EXPECT_TRUE(IsDigest(kDigest));
  EXPECT_FALSE(IsDigest("sha256:" + std::string(64, 'A')));
  EXPECT_FALSE(IsDigest("sha256:" + std::string(63, 'a')));
  EXPECT_FALSE(IsDigest("sha512:" + std::string(64, 'a')));
  EXPECT_FALSE(IsDigest("sha256:../../../../../../../../../../../../../../../../../../../../../../"));
}

class CredentialsTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  ScopedVariable home_{"HOME", folder_.path().string()}, runtime_{"XDG_RUNTIME_DIR", folder_.path() / "none"},
      config_{"XDG_CONFIG_HOME", ""}, docker_{"DOCKER_CONFIG", ""}, file_{"REGISTRY_AUTH_FILE", ""};
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
  }
  // Of a repository ("host/team/image"), or of any of a host.
  std::string Find(const std::string& name) {
    const size_t slash = std::min(name.find('/'), name.size());
    OciReference reference{name.substr(0, slash), slash < name.size() ? name.substr(slash + 1) : "any"};
    const auto found = FindRegistryCredentials(reference);
    if (!found) return found.error().message;
    return *found ? (*found)->user + "/" + (*found)->password : "none";
  }
};

TEST_F(CredentialsTest, AreFoundWhereOtherToolsKeepThem) {
  EXPECT_EQ(Find("localhost:5000"), "none");
  Write(".docker/config.json", R"({"auths":{"localhost:5000":{"auth":"bWU6c2VjcmV0"},
    "https://index.docker.io/v1/":{"auth":"YTpi"},"other":{}}})");
  EXPECT_EQ(Find("localhost:5000"), "me/secret");
  EXPECT_EQ(Find("docker.io"), "a/b");
  EXPECT_EQ(Find("localhost"), "none");
  EXPECT_EQ(Find("other"), "none");
  Write(".config/containers/auth.json", R"({"auths":{"localhost:5000":{"auth":"eW91OnB3OndpdGg6Y29sb25z"}}})");
  EXPECT_EQ(Find("localhost:5000"), "you/pw:with:colons");
  Write("own.json", R"({"auths":{"x":{"auth":"YTpi"}}})");
  const ScopedVariable own("REGISTRY_AUTH_FILE", (folder_.path() / "own.json").string());
  EXPECT_EQ(Find("x"), "a/b");
  EXPECT_EQ(Find("localhost:5000"), "none");
}

// containers-auth.json(5).
TEST_F(CredentialsTest, ThoseOfTheNearestPathWin) {
  Write(".config/containers/auth.json", R"({"auths":{
    "r.example/team":{"auth":"dGVhbTp0"}, "r.example":{"auth":"aG9zdDpo"}, "r.example/team/image/part":{"auth":"cDpw"},
    "https://old.example/v1/":{"auth":"b2xkOm8="}, "only.example/team":{"auth":"dGVhbTp0"}}})");
  EXPECT_EQ(Find("r.example/team/image"), "team/t");
  EXPECT_EQ(Find("r.example/team"), "team/t");
  EXPECT_EQ(Find("r.example/team/image/part"), "p/p");
  EXPECT_EQ(Find("r.example/teammate/image"), "host/h");
  EXPECT_EQ(Find("r.example/other"), "host/h");
  EXPECT_EQ(Find("old.example/team"), "old/o");
  EXPECT_EQ(Find("only.example/other"), "none") << "the password of a team is for nobody else";
  // A file that is looked at earlier wins with whatever it has.
  Write("runtime/containers/auth.json", R"({"auths":{"r.example":{"auth":"YTpi"}}})");
  const ScopedVariable runtime("XDG_RUNTIME_DIR", (folder_.path() / "runtime").string());
  EXPECT_EQ(Find("r.example/team/image"), "a/b");
  EXPECT_EQ(Find("only.example/team/image"), "team/t");
}

TEST_F(CredentialsTest, BrokenFilesAreNamedAndKeepTheirSecrets) {
  Write(".docker/config.json", R"({"auths":{"h":{"auth":"!!c2VjcmV0"}}})");
  EXPECT_THAT(Find("h"), HasSubstr(".docker/config.json: the credentials for h cannot be read"));
  EXPECT_EQ(Find("h").find("c2VjcmV0"), std::string::npos);
  Write(".docker/config.json", "{");
  EXPECT_THAT(Find("h"), HasSubstr("is no JSON object"));
}

}  // namespace
}  // namespace sightline
