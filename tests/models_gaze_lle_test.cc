// The op plan of Gaze-LLE, written down by the recording backend; and what is said about files that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/models.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using testing::HasSubstr;

class GazeModel : public testing::Test {
 protected:
  GazeLle::Files Files(bool inout = true) {
    const auto made = WriteSyntheticGazeLle({"tiny", inout, 1, {}, folder_.path()});
    EXPECT_TRUE(made) << made.error().message;
    return {*Checkpoint::Open(made->backbone), *Checkpoint::Open(made->decoder)};
  }
  static int64_t Count(const std::vector<std::string>& lines, const std::string& operation) {
    return std::ranges::count_if(lines, [&](const std::string& line) { return line.starts_with(operation); });
  }

  TemporaryFolder folder_;
  std::vector<std::string> lines_;
};

TEST_F(GazeModel, OneBackbonePassAPictureAndOneBatchedPassForAllHeads) {
  const auto backend = MakeRecordingBackend(&lines_);
  const auto model = GazeLle::Load(*backend, Files(), Precision::kF32, folder_.path());
  ASSERT_TRUE(model) << model.error().message;
  const auto scene = (*model)->Encode(std::vector<float>(kGazePatches * kPatchValues), Profile::kUpstream);
  ASSERT_TRUE(scene) << scene.error().message;
  EXPECT_EQ(Count(lines_, "attention"), 2) << "one for each backbone block";

  lines_.clear();
  const auto maps = (*model)->Decode(*scene, std::vector<HeadMask>(10));
  ASSERT_TRUE(maps) << maps.error().message;
  EXPECT_EQ(maps->size(), 10u);
  EXPECT_EQ(Count(lines_, "attention"), 3) << "one for each decoder block, whatever the number of heads";
  EXPECT_EQ(Count(lines_, "qkv"), 3);
}

TEST_F(GazeModel, SizesComeFromTheTensors) {
  const auto backend = MakeRecordingBackend(&lines_);
  const auto model = GazeLle::Load(*backend, Files(false), Precision::kF32, folder_.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->dimensions().width, 128);
  EXPECT_EQ((*model)->dimensions().depth, 2);
  EXPECT_EQ((*model)->dimensions().heads, 2);
  EXPECT_FALSE((*model)->dimensions().inout);
}

TEST_F(GazeModel, FilesThatDoNotFitNameBothSides) {
  const auto backend = MakeRecordingBackend(&lines_);
  const GazeLle::Files files = Files();
  const auto swapped = GazeLle::Load(*backend, {files.decoder, files.backbone}, Precision::kF32, folder_.path());
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().code, Code::kCorruptWeights);
  EXPECT_THAT(swapped.error().message,
              testing::AllOf(HasSubstr("gazelle_tiny"), HasSubstr("expected a DINOv2 backbone")));

  const auto other = WriteSyntheticGazeLle({"vitb14", true, 1, {}, folder_.path() / "b"});
  const auto mixed =
      GazeLle::Load(*backend, {files.backbone, *Checkpoint::Open(other->decoder)}, Precision::kF32, folder_.path());
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message,
              testing::AllOf(HasSubstr("linear.weight has shape [256, 768, 1, 1]"), HasSubstr("[256, 128, 1, 1]")));
}

}  // namespace
}  // namespace sightline
