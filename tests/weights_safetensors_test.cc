#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/torch_archive.h"
#include "weights/weights.h"

namespace sightline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string File(const std::string& header, const std::string& data) {
  return LittleEndian<uint64_t>(header.size()) + header + data;
}

std::string ErrorOf(const std::string& file) {
  const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.safetensors");
  if (checkpoint) return "no error";
  EXPECT_EQ(checkpoint.error().code, Code::kCorruptWeights);
  return checkpoint.error().message;
}

// One tensor "w" with that description and `bytes` bytes of data.
std::string ErrorOfTensor(const std::string& description, size_t bytes) {
  return ErrorOf(File("{\"w\":{" + description + "}}", std::string(bytes, '\1')));
}

const std::string kTwo = R"({"__metadata__":{"format":"pt"},)"
                         R"("b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
                         R"("a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},)"
                         R"("none":{"dtype":"F64","shape":[0,3],"data_offsets":[4,4]}}   )";
const std::string kTwoData = LittleEndian<int16_t>(-5) + LittleEndian<int16_t>(7) + LittleEndian(1.0f) +
                             LittleEndian(2.0f) + LittleEndian(3.0f) + LittleEndian(4.0f);

TEST(Safetensors, GivesTensorsInTheOrderOfTheirBytes) {
  const std::string file = File(kTwo, kTwoData);
  const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.safetensors");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("a", "none", "b"));
  const TensorView& b = *checkpoint->Find("b");
  EXPECT_EQ(b.shape, (Shape{2, 2}));
  EXPECT_TRUE(b.contiguous());
  std::vector<float> values(4);
  ASSERT_TRUE(CopyAsFloat(b, values));
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(checkpoint->Find("a")->dtype, DType::kI16);
  EXPECT_EQ(checkpoint->Find("none")->shape, (Shape{0, 3}));
  EXPECT_TRUE(checkpoint->Verify());
}

TEST(Safetensors, ReadsEveryElementType) {
  const std::map<std::string, std::pair<DType, size_t>> types = {
      {"F64", {DType::kF64, 8}}, {"F32", {DType::kF32, 4}},  {"F16", {DType::kF16, 2}}, {"BF16", {DType::kBF16, 2}},
      {"I64", {DType::kI64, 8}}, {"I32", {DType::kI32, 4}},  {"I16", {DType::kI16, 2}}, {"I8", {DType::kI8, 1}},
      {"U8", {DType::kU8, 1}},   {"BOOL", {DType::kBool, 1}}};
  for (const auto& [name, type] : types) {
    const std::string header = "{\"w\":{\"dtype\":\"" + name + "\",\"shape\":[3],\"data_offsets\":[0," +
                               std::to_string(3 * type.second) + "]}}";
    const std::string file = File(header, std::string(3 * type.second, '\1'));
    const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x");
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->Find("w")->dtype, type.first);
  }
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3])", 3),
              HasSubstr("w has the type F8_E4M3, which is not read"));
}

TEST(Safetensors, RefusesEveryTruncationAndTrailingBytes) {
  const std::string file = File(kTwo, kTwoData);
  for (size_t size = 0; size < file.size(); ++size) EXPECT_NE(ErrorOf(file.substr(0, size)), "no error") << size;
  EXPECT_THAT(ErrorOf(file + "x"), HasSubstr("describes 20 bytes of elements, the file has 21"));
}

TEST(Safetensors, SurvivesEveryChangedByte) {
  std::string file = File(kTwo, kTwoData);
  for (char& byte : file) {
    for (const char flip : {'\x01', '\x10', '\x80', '\xff'}) {
      byte = static_cast<char>(byte ^ flip);
      if (const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x")) {
        for (const std::string& name : checkpoint->names()) CopyAsStored(*checkpoint->Find(name));
      }
      byte = static_cast<char>(byte ^ flip);
    }
  }
}

TEST(Safetensors, RefusesOffsetsThatDoNotFit) {
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])", 8),
              HasSubstr("w lies at bytes 0 to 9"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8),
              HasSubstr("w lies at bytes 8 to 0"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
              HasSubstr("w has 4 bytes, expected 8 for [2] of float32"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", 12),
              HasSubstr("begins at byte 4, expected 0"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])", 0),
              HasSubstr("not possible"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0])", 0),
              HasSubstr("not possible"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[0,5],"data_offsets":[0,18446744073709551615])", 0),
              HasSubstr("w lies at bytes 0 to 18446744073709551615"));
}

TEST(Safetensors, RefusesOverlap) {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  EXPECT_THAT(ErrorOf(File(header, "abcdef")), HasSubstr("b begins at byte 2, expected 4"));
}

TEST(Safetensors, RefusesDescriptionsOfAnotherForm) {
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[2])", 8), HasSubstr("w has no dtype, shape or data_offsets"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,8])", 8), HasSubstr("not whole numbers"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", 8), HasSubstr("[-2]"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"F32","shape":[2],"data_offsets":[-1,8])", 8), HasSubstr("two whole numbers"));
  EXPECT_THAT(ErrorOfTensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])", 1),
              HasSubstr("9 dimensions"));
  EXPECT_THAT(ErrorOf(File("[]", "")), HasSubstr("no known format"));
  EXPECT_THAT(ErrorOf(File("{\"w\":3}", "")), HasSubstr("w has no dtype"));
  EXPECT_THAT(ErrorOf(File("{\"w\":", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(File("{\"w\":{}", "{}")), HasSubstr("not a JSON object"));
}

TEST(Safetensors, ReadsTheNoteOfTheMetadata) {
  const auto note_of = [](const std::string& metadata) {
    const std::string file = File("{\"__metadata__\":" + metadata + "}", "");
    const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x");
    return checkpoint ? checkpoint->note() : checkpoint.error().message;
  };
  EXPECT_EQ(note_of(R"({"format":"pt","note":"made up"})"), "made up");
  EXPECT_EQ(note_of(R"({"note":3})"), "");
  EXPECT_EQ(note_of("[]"), "");
  EXPECT_EQ(note_of(R"({"note":")" + std::string(5000, 'n') + "\"}").size(), 1024u);
}

TEST(Safetensors, RefusesTheSameNameTwice) {
  const std::string row = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(ErrorOf(File("{" + row + "," + row + "}", "a")), HasSubstr("has w twice"));
}

TEST(Safetensors, RefusesHeadersThatAreTooLongOrTooDeep) {
  EXPECT_THAT(ErrorOf(LittleEndian<uint64_t>(1000) + "{}"), AllOf(HasSubstr("1000 bytes"), HasSubstr("cut short")));
  EXPECT_THAT(ErrorOf(File("{}" + std::string(17 << 20, ' '), "")), HasSubstr("at most 16777216 are read"));
  EXPECT_THAT(ErrorOf(File("{\"w\":" + std::string(1 << 20, '['), "")), HasSubstr("not a JSON object"));
}

}  // namespace
}  // namespace sightline
