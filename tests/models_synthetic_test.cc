// Synthetic Gaze-LLE files against tests/data/gaze/digests.txt: every tensor of every listed size and seed, bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "models/models.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;

// One line: size, "seed<N>", part, name, shape, first and last value, SHA-256.
struct Digest {
  std::string size, seed, part, name, shape, first, last, sha256;
};

std::vector<Digest> Digests(const std::string& size, uint64_t seed, const std::string& part) {
  std::ifstream file(std::filesystem::path(SIGHTLINE_TEST_DATA) / "gaze" / "digests.txt");
  std::vector<Digest> digests;
  for (Digest row;
       file >> row.size >> row.seed >> row.part >> row.name >> row.shape >> row.first >> row.last >> row.sha256;) {
    if (row.size == size && row.seed == "seed" + std::to_string(seed) && row.part == part) digests.push_back(row);
  }
  return digests;
}

std::string Joined(const Shape& shape) {
  std::ostringstream text;
  for (size_t i = 0; i < shape.size(); ++i) text << (i == 0 ? "" : "x") << shape[i];
  return text.str();
}

void ExpectDigests(const std::filesystem::path& path, const std::vector<Digest>& digests) {
  ASSERT_FALSE(digests.empty());
  const auto checkpoint = Checkpoint::Open(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->names().size(), digests.size());
  for (size_t i = 0; i < digests.size(); ++i) {
    EXPECT_EQ(checkpoint->names()[i], digests[i].name);
    const TensorView* view = checkpoint->Find(digests[i].name);
    ASSERT_NE(view, nullptr) << digests[i].name;
    EXPECT_EQ(Joined(view->shape), digests[i].shape) << digests[i].name;
    EXPECT_EQ(Sha256Hex(CopyAsStored(*view)), digests[i].sha256) << digests[i].name;
  }
}

void ExpectGoldens(const std::string& size, uint64_t seed) {
  const TemporaryFolder folder;
  SyntheticGazeOptions options;
  options.size = size, options.seed = seed, options.folder = folder.path();
  const auto files = WriteSyntheticGazeLle(options);
  ASSERT_TRUE(files) << files.error().message;
  ExpectDigests(files->backbone, Digests(size, seed, "backbone"));
  ExpectDigests(files->decoder, Digests(size, seed, "decoder"));
}

TEST(SyntheticGazeLle, MatchesTheGoldensOfTiny) {
  ExpectGoldens("tiny", 1);
  ExpectGoldens("tiny", 2);
}
TEST(SyntheticGazeLle, Long_MatchesTheGoldensOfVitB) {
  ExpectGoldens("vitb14", 1);
  ExpectGoldens("vitb14", 2);
}
TEST(SyntheticGazeLle, Long_MatchesTheGoldensOfVitL) { ExpectGoldens("vitl14", 1); }

TEST(SyntheticGazeLle, NamesItsFilesAfterSizeSeedAndHead) {
  const TemporaryFolder folder;
  SyntheticGazeOptions options;
  options.seed = 18446744073709551615u;
  options.folder = folder.path() / "made" / "on the way";
  auto files = WriteSyntheticGazeLle(options);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->backbone, options.folder / "dinov2_tiny_seed18446744073709551615.pth");
  EXPECT_EQ(files->decoder, options.folder / "gazelle_tiny_inout_seed18446744073709551615.pt");
  options.inout = false;
  files = WriteSyntheticGazeLle(options);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->decoder, options.folder / "gazelle_tiny_seed18446744073709551615.pt");
}

TEST(SyntheticGazeLle, WithoutInoutHeadTheOtherTensorsStayTheSame) {
  const TemporaryFolder folder;
  SyntheticGazeOptions options;
  options.inout = false;
  options.folder = folder.path();
  const auto files = WriteSyntheticGazeLle(options);
  ASSERT_TRUE(files);
  std::vector<Digest> digests = Digests("tiny", 1, "decoder");
  std::erase_if(digests, [](const Digest& row) { return row.name.starts_with("inout"); });
  EXPECT_EQ(digests.size(), 40u);
  ExpectDigests(files->decoder, digests);
}

TEST(SyntheticGazeLle, TellsHowFarItIs) {
  const TemporaryFolder folder;
  SyntheticGazeOptions options;
  options.folder = folder.path();
  std::vector<int> done;
  const auto files = WriteSyntheticGazeLle(options, [&](int now, int total) {
    EXPECT_EQ(total, 80);
    done.push_back(now);
  });
  ASSERT_TRUE(files);
  ASSERT_EQ(done.size(), 80u);
  EXPECT_EQ(done.front(), 1);
  EXPECT_EQ(done.back(), 80);
}

TEST(SyntheticGazeLle, UnknownSizesListTheKnownOnes) {
  SyntheticGazeOptions options;
  options.size = "huge";
  EXPECT_EQ(WriteSyntheticGazeLle(options).error().message,
            "size huge is unknown, expected one of: tiny, vitb14, vitl14");
}

TEST(SyntheticGazeLle, TakesRulesFromAFile) {
  const TemporaryFolder folder;
  SyntheticGazeOptions options;
  options.folder = folder.path();
  options.size = "small";
  options.rules = folder.path() / "rules.json";
  ASSERT_TRUE(WriteFileAtomically(options.rules, AsBytes(R"({
      "sizes": {"small": {"embed_dim": 64, "depth": 1, "heads": 1}},
      "backbone": [{"name": "*", "centre": 0.5, "amplitude": 0}],
      "decoder": [{"name": "*", "centre": 0.5, "amplitude": 0}]})")));
  const auto files = WriteSyntheticGazeLle(options);
  ASSERT_TRUE(files) << files.error().message;
  const auto backbone = Checkpoint::Open(files->backbone);
  EXPECT_EQ(backbone->Find("blocks.0.mlp.fc1.weight")->shape, (Shape{256, 64}));
  options.rules = folder.path() / "none.json";
  EXPECT_THAT(WriteSyntheticGazeLle(options).error().message, HasSubstr("none.json"));
}

}  // namespace
}  // namespace sightline
