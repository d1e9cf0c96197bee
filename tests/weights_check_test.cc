#include <gtest/gtest.h>

#include "tests/support/torch_archive.h"
#include "weights/weights.h"

namespace sightline {
namespace {

// A file with norm.weight [2, 3] and steps [6] of int64, and whatever `more` names with shape [6].
std::string File(const std::vector<std::string>& more = {}) {
  PickledTensor weight, steps, flat;
  steps.storage_class = "LongStorage", steps.key = "1", steps.shape = {6}, steps.strides = {1};
  flat.shape = {6}, flat.strides = {1};
  std::string items = PickledString("norm.weight") + weight.Record() + PickledString("steps") + steps.Record();
  for (const std::string& name : more) items += PickledString(name) + flat.Record();
  return ArchiveBuilder().Build({{"m/data.pkl", PickledDictionary(items)},
                                 {"m/data/0", std::string(24, 'A')},
                                 {"m/data/1", std::string(48, 'A')}});
}

std::string Check(const std::string& file, const std::vector<TensorSpec>& specs,
                  const std::vector<std::string>& optional = {}) {
  const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.pth");
  if (!checkpoint) return checkpoint.error().message;
  const Status status = CheckTensors(*checkpoint, specs, optional);
  if (status) return "";
  EXPECT_EQ(status.error().code, Code::kCorruptWeights);
  return status.error().message;
}

TEST(CheckTensors, AcceptsExactlyTheTensorsAskedFor) {
  EXPECT_EQ(Check(File({"a"}), {{"a", {6}}, {"norm.weight", {2, 3}}, {"gone", {1}}}, {"gone"}),
            "x.pth: unexpected: steps");
  const std::string file = ArchiveOf(PickledTensor());
  EXPECT_EQ(Check(file, {{"w", {2, 3}}}), "");
  EXPECT_EQ(Check(file, {{"w", {2, 3}}, {"b", {1}}}, {"b"}), "");
}

TEST(CheckTensors, NamesBothSides) {
  EXPECT_EQ(Check(ArchiveOf(PickledTensor()), {{"w", {3, 2}}}), "x.pth: w has shape [2, 3], expected [3, 2]");
  EXPECT_EQ(Check(File(), {{"norm.weight", {2, 3}}, {"steps", {6}}}),
            "x.pth: steps has type int64, expected a floating-point type");
  EXPECT_EQ(Check(ArchiveOf(PickledTensor()), {{"w", {2, 3}}, {"b", {4}}}), "x.pth: missing: b");
}

TEST(CheckTensors, ChecksTheShapeOfOptionalTensorsToo) {
  EXPECT_EQ(Check(ArchiveOf(PickledTensor()), {{"w", {6}}}, {"w"}), "x.pth: w has shape [2, 3], expected [6]");
}

TEST(CheckTensors, ListsUpToThreeFurtherFaultsInAStableOrder) {
  EXPECT_EQ(Check(File({"zebra", "ant"}), {{"norm.weight", {6}}, {"steps", {6}}, {"b", {1}}, {"a", {1}}}),
            "x.pth: norm.weight has shape [2, 3], expected [6]; steps has type int64, expected a floating-point type; "
            "missing: b, a; and 2 more");
  EXPECT_EQ(Check(File({"zebra", "ant"}), {{"norm.weight", {6}}, {"a", {1}}}),
            "x.pth: norm.weight has shape [2, 3], expected [6]; missing: a; unexpected: ant, steps; and 1 more");
}

TEST(CheckTensors, ShowsHostileNamesHarmlessly) {
  PickledTensor tensor;
  const std::string items = PickledString("\x1b[2J") + tensor.Record();
  EXPECT_EQ(Check(ArchiveOfPickle(PickledDictionary(items)), {}), "x.pth: unexpected: ?[2J");
}

}  // namespace
}  // namespace sightline
