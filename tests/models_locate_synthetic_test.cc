// Synthetic LocateAnything folders against digests of what the goldens' generator writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/locate_anything_synthetic.h"
#include "models/models.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

const json& Digests() {
  static const json digests =
      json::parse(std::ifstream(fs::path(SIGHTLINE_TEST_DATA) / "locate" / "synthetic_digests.json"));
  return digests;
}

// SHA-256 of a tensor as it stands in the file.
std::string DigestOf(SyntheticLocateTensors& tensors, size_t index) {
  Sha256 digest;
  uint64_t count = 0;
  std::vector<uint16_t> rounded;
  const auto sink = [&](std::span<const float> values) -> Status {
    count += values.size();
    rounded.resize(values.size());
    std::ranges::transform(values, rounded.begin(), BF16FromFloat);
    digest.Update(AsBytes(rounded));
    return {};
  };
  EXPECT_TRUE(tensors.Fill(index, sink));
  EXPECT_EQ(count, static_cast<uint64_t>(ElementCount(tensors.specs()[index].shape)));
  return digest.HexDigest();
}

class SyntheticLocate : public testing::TestWithParam<std::string> {};

TEST_P(SyntheticLocate, HasTheBitsOfTheGenerator) {
  auto tensors = SyntheticLocateTensors::Make(GetParam(), 1);
  ASSERT_TRUE(tensors) << tensors.error().message;
  const json& expected = Digests().at(GetParam() + "/1");
  ASSERT_EQ(tensors->specs().size(), expected.size());
  for (size_t i = 0; i < tensors->specs().size(); ++i) {
    EXPECT_EQ(DigestOf(*tensors, i), expected.at(tensors->specs()[i].name)) << tensors->specs()[i].name;
  }
}

TEST_P(SyntheticLocate, HasTheBitsOfTheGeneratorForAnotherSeed) {
  auto tensors = SyntheticLocateTensors::Make(GetParam(), 2);
  ASSERT_TRUE(tensors) << tensors.error().message;
  std::string all;
  for (size_t i = 0; i < tensors->specs().size(); ++i) all += DigestOf(*tensors, i);
  EXPECT_EQ(Sha256Hex(AsBytes(all)), Digests().at(GetParam() + "/2"));
}

TEST_P(SyntheticLocate, FolderIsWhatTheGeneratorWrites) {
  const TemporaryFolder folder;
  int done = 0, total = 0;
  const Status written = WriteSyntheticLocateAnything(
      {.size = GetParam(), .folder = folder.path() / "new", .tokenizer = {{"vocab.json", "{}"}}}, [&](int i, int n) {
        EXPECT_EQ(i, done + 1);
        done = i, total = n;
      });
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(done, total);
  for (const auto& [name, digest] : Digests().at("files").items()) {
    if (!name.starts_with(GetParam())) continue;
    const auto file = ReadFile(folder.path() / "new" / fs::path(name).filename(), 1 << 20);
    ASSERT_TRUE(file) << name;
    EXPECT_EQ(Sha256Hex(*file), digest) << name;
  }
  const auto checkpoint = CheckpointFolder::Open(folder.path() / "new");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->note(), kSyntheticNote);
  EXPECT_EQ(checkpoint->tensor_bytes(), 163'513'736u);
  const auto config = ReadLocateConfig(folder.path() / "new");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->synthetic);
  EXPECT_TRUE(CheckTensors(*checkpoint, LocateTensors(*config)));
  EXPECT_TRUE(fs::exists(folder.path() / "new" / "vocab.json"));
}

INSTANTIATE_TEST_SUITE_P(Sizes, SyntheticLocate, testing::Values("tiny", "puppet"),
                         [](const auto& size) { return size.param; });

TEST(SyntheticLocateSizes, FullIsTheOfficialModel) {
  const auto tensors = SyntheticLocateTensors::Make("full", 1);
  ASSERT_TRUE(tensors);
  EXPECT_EQ(tensors->specs().size(), 770u);
  int64_t elements = 0;
  for (const TensorSpec& tensor : tensors->specs()) elements += ElementCount(tensor.shape);
  EXPECT_EQ(2 * elements, 7'661'331'936);
}

TEST(SyntheticLocateSizes, AnUnknownSizeListsTheKnownOnes) {
  const Status written = WriteSyntheticLocateAnything({.size = "huge", .folder = "x", .tokenizer = {}});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kInvalidRequest);
  EXPECT_THAT(written.error().message, HasSubstr("size 'huge' is unknown, expected one of: tiny, full, puppet"));
}

// Pieces of several big tensors, none of which is ever in memory as a whole.
TEST(Long_SyntheticLocate, FullHasTheBitsOfTheGenerator) {
  auto tensors = SyntheticLocateTensors::Make("full", 1);
  ASSERT_TRUE(tensors);
  for (const auto& [name, digest] : Digests().at("full/1").items()) {
    const auto spec = std::ranges::find(tensors->specs(), name, &TensorSpec::name);
    ASSERT_NE(spec, tensors->specs().end()) << name;
    EXPECT_EQ(DigestOf(*tensors, static_cast<size_t>(spec - tensors->specs().begin())), digest) << name;
  }
}

}  // namespace
}  // namespace sightline
