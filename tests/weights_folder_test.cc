// Model folders: shards and their index, read and written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/support/torch_archive.h"
#include "weights/weights.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kFirst[] = "model-00001-of-00002.safetensors", kSecond[] = "model-00002-of-00002.safetensors";

void Write(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }
std::string Read(const fs::path& path) {
  const auto bytes = ReadFile(path, 1 << 26);
  if (!bytes) return "no file";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// A safetensors file of one byte a tensor.
std::string Shard(const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += (i > 0 ? ",\"" : "\"") + names[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  header += "}";
  return LittleEndian<uint64_t>(header.size()) + header + std::string(names.size(), 'x');
}

// Two shards, a and b in the first, c in the second.
class ModelFolder : public testing::Test {
 protected:
  void SetUp() override {
    Write(path() / kFirst, Shard({"a", "b"}));
    Write(path() / kSecond, Shard({"c"}));
    WriteMap({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}});
  }
  const fs::path& path() const { return folder_.path(); }
  void WriteMap(const nlohmann::json& map) {
    Write(path() / kIndex, nlohmann::json{{"metadata", {{"total_size", 3}}}, {"weight_map", map}}.dump());
  }
  std::string ErrorOf(Code code = Code::kCorruptWeights) const {
    const auto folder = CheckpointFolder::Open(path());
    if (folder) return "no error";
    EXPECT_EQ(folder.error().code, code);
    return folder.error().message;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ModelFolder, IsOneSetOfTensors) {
  const auto folder = CheckpointFolder::Open(path());
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_THAT(folder->names(), ElementsAre("a", "b", "c"));
  ASSERT_NE(folder->Find("c"), nullptr);
  EXPECT_EQ(folder->Find("c")->shape, Shape{1});
  EXPECT_EQ(folder->Find("d"), nullptr);
  EXPECT_EQ(folder->tensor_bytes(), 3u);
  EXPECT_EQ(folder->source(), path().string());
  EXPECT_EQ(folder->note(), "");
  EXPECT_THAT(folder->identity(), HasSubstr(kSecond));
}

TEST_F(ModelFolder, OneFileNeedsNoIndexAndWinsOverIt) {
  Write(path() / "model.safetensors", Shard({"whole"}));
  EXPECT_THAT(CheckpointFolder::Open(path())->names(), ElementsAre("whole"));
  fs::remove(path() / "model.safetensors");
  fs::remove(path() / kIndex);
  EXPECT_THAT(ErrorOf(Code::kNotFound), HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

TEST_F(ModelFolder, ViewsOutliveTheFolderObject) {
  std::vector<std::byte> copy;
  {
    std::optional<CheckpointFolder> first = CheckpointFolder::Open(path()).value();
    const CheckpointFolder second = *first;
    first.reset();
    copy = CopyAsStored(*second.Find("b"));
  }
  EXPECT_THAT(copy, ElementsAre(std::byte{'x'}));
}

TEST_F(ModelFolder, IndexAndShardsMustAgree) {
  WriteMap({{"a", kFirst}, {"c", kSecond}});
  EXPECT_THAT(ErrorOf(), HasSubstr("does not list b, which model-00001-of-00002.safetensors holds"));
  WriteMap({{"a", kFirst}, {"b", kSecond}, {"c", kSecond}});
  EXPECT_THAT(ErrorOf(),
              HasSubstr("places b in model-00002-of-00002.safetensors, but model-00001-of-00002.safetensors"));
  WriteMap({{"a", kFirst}, {"b", kFirst}, {"c", kSecond}, {"d", kSecond}});
  EXPECT_THAT(ErrorOf(), HasSubstr("places d in model-00002-of-00002.safetensors, which does not hold it"));
  WriteMap({{"a", kFirst}, {"b", kFirst}, {"c", "model-3.safetensors"}});
  EXPECT_THAT(ErrorOf(), HasSubstr("lists the file model-3.safetensors, which is missing"));
}

TEST_F(ModelFolder, ATensorInTwoShardsIsRefused) {
  Write(path() / kSecond, Shard({"c", "a"}));
  EXPECT_THAT(ErrorOf(), HasSubstr("places a in model-00001-of-00002.safetensors, but model-00002-of-00002"));
}

TEST_F(ModelFolder, NamesThatLeaveTheFolderAreRefused) {
  fs::create_directory(path() / "sub");
  Write(path() / "sub" / kSecond, Shard({"c"}));
  for (const std::string& name :
       {"../" + std::string(kSecond), (path() / kSecond).string(), "sub/" + std::string(kSecond), std::string(""),
        std::string("."), std::string(".."), std::string("..safetensors"), std::string("c.bin"),
        std::string("a\0.safetensors", 14), std::string(300, 'n') + ".safetensors"}) {
    WriteMap({{"a", kFirst}, {"b", kFirst}, {"c", name}});
    EXPECT_THAT(ErrorOf(), HasSubstr("expected the name of a .safetensors file in the same folder")) << name;
  }
}

TEST_F(ModelFolder, AnIndexOfAnotherFormIsRefused) {
  for (const std::string text : {"", "[]", "3", "{", "\"x\"", "{\"weight_map\":", "null"}) {
    Write(path() / kIndex, text);
    EXPECT_THAT(ErrorOf(), HasSubstr("not a JSON object")) << text;
  }
  for (const std::string text : {"{}", R"({"weight_map":[]})", R"({"weight_map":"a"})"}) {
    Write(path() / kIndex, text);
    EXPECT_THAT(ErrorOf(), HasSubstr("weight_map is missing or no object")) << text;
  }
  Write(path() / kIndex, R"({"weight_map":{"a":1}})");
  EXPECT_THAT(ErrorOf(), HasSubstr("gives a no file name"));
  Write(path() / kIndex, R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})");
  EXPECT_THAT(ErrorOf(), HasSubstr("lists a twice"));
  Write(path() / kIndex, "{\"weight_map\":" + std::string(1 << 20, '['));
  EXPECT_THAT(ErrorOf(), HasSubstr("not a JSON object"));
}

TEST_F(ModelFolder, HugeIndexesAreRefused) {
  nlohmann::json map;
  for (int i = 0; i < 70'000; ++i) map["t" + std::to_string(i)] = kFirst;
  WriteMap(map);
  EXPECT_THAT(ErrorOf(), HasSubstr("lists more than 65536 tensors"));
  map.clear();
  for (int i = 0; i < 2000; ++i) map["t" + std::to_string(i)] = std::to_string(i) + ".safetensors";
  WriteMap(map);
  EXPECT_THAT(ErrorOf(), HasSubstr("lists 2000 files, at most 1024 are read"));
  Write(path() / kIndex, std::string(17 << 20, ' '));
  EXPECT_FALSE(CheckpointFolder::Open(path()));
}

TEST_F(ModelFolder, EveryTruncationIsRefused) {
  for (const std::string name : {kIndex, kFirst, kSecond}) {
    const std::string whole = Read(path() / name);
    for (size_t size = 0; size < whole.size(); ++size) {
      Write(path() / name, whole.substr(0, size));
      EXPECT_NE(ErrorOf(), "no error") << name << " " << size;
    }
    Write(path() / name, whole);
  }
}

TEST_F(ModelFolder, OtherCheckpointFormatsAreRefused) {
  Write(path() / kSecond, ArchiveOf(PickledTensor()));
  EXPECT_THAT(ErrorOf(), HasSubstr("is no safetensors file"));
}

TEST_F(ModelFolder, IsCheckedAsACheckpointIs) {
  const auto folder = CheckpointFolder::Open(path());
  const Status status = CheckTensors(*folder, std::vector<TensorSpec>{{"a", {1}}, {"b", {2}}, {"z", {1}}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            path().string() +
                ": a has type uint8, expected a floating-point type; b has shape [1], expected [2]; "
                "missing: z; unexpected: c");
}

// ---- writing

const std::vector<TensorSpec> kTensors = {{"a", {3}}, {"b.weight", {2, 2}}, {"c", {5}}, {"none", {0, 7}}};

// Values counted through all tensors, in pieces of two.
constexpr auto kCount = [](size_t index, PieceSink sink) -> Status {
  const auto total = static_cast<size_t>(ElementCount(kTensors[index].shape));
  for (size_t i = 0; i < total; i += 2) {
    const float pair[] = {static_cast<float>(100 * index + i), static_cast<float>(100 * index + i + 1)};
    SIGHTLINE_RETURN_IF_ERROR(sink(std::span(pair).first(std::min<size_t>(2, total - i))));
  }
  return {};
};

std::vector<float> ValuesOf(const CheckpointFolder& folder, std::string_view name) {
  const TensorView& view = *folder.Find(name);
  std::vector<float> values(static_cast<size_t>(ElementCount(view.shape)));
  EXPECT_TRUE(CopyAsFloat(view, values));
  return values;
}

TEST(WriteSafetensors, WritesShardsThatReadBack) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteSafetensors(folder.path(), kTensors, 14, kCount, "made up"));
  const auto back = CheckpointFolder::Open(folder.path());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(CheckTensors(*back, kTensors));
  EXPECT_EQ(back->note(), "made up");
  EXPECT_EQ(back->tensor_bytes(), 24u);
  EXPECT_EQ(back->Find("a")->dtype, DType::kBF16);
  EXPECT_THAT(ValuesOf(*back, "a"), ElementsAre(0, 1, 2));
  EXPECT_THAT(ValuesOf(*back, "b.weight"), ElementsAre(100, 101, 102, 103));
  EXPECT_THAT(ValuesOf(*back, "c"), ElementsAre(200, 201, 202, 203, 204));
  const auto index = nlohmann::json::parse(Read(folder.path() / kIndex));
  EXPECT_EQ(index["metadata"]["total_size"], 24);
  EXPECT_EQ(index["weight_map"]["b.weight"], kFirst);
  EXPECT_EQ(index["weight_map"]["c"], kSecond);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
}

TEST(WriteSafetensors, ATensorLargerThanAShardStandsAlone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteSafetensors(folder.path(), kTensors, 1, kCount));
  EXPECT_TRUE(fs::exists(folder.path() / "model-00003-of-00004.safetensors"));
  EXPECT_TRUE(CheckTensors(*CheckpointFolder::Open(folder.path()), kTensors));
}

TEST(WriteSafetensors, WritesOneFileWithoutIndex) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteSafetensors(folder.path(), kTensors, 0, kCount));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  EXPECT_TRUE(CheckTensors(*CheckpointFolder::Open(folder.path()), kTensors));
  EXPECT_THAT(Read(folder.path() / "model.safetensors").substr(8), HasSubstr(R"("__metadata__":{"format":"pt"})"));
  const Status shards = WriteSafetensors(folder.path(), kTensors, 14, kCount);
  ASSERT_FALSE(shards);
  EXPECT_EQ(shards.error().code, Code::kInvalidRequest);
}

TEST(WriteSafetensors, AFailureLeavesNoFolderThatLooksComplete) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteSafetensors(folder.path(), kTensors, 14, kCount));
  const auto fail = [](size_t index, PieceSink sink) -> Status {
    if (index == 2) return Fail(Code::kNumeric, "enough");
    return kCount(index, sink);
  };
  const Status status = WriteSafetensors(folder.path(), kTensors, 14, fail);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "enough");
  EXPECT_EQ(CheckpointFolder::Open(folder.path()).error().code, Code::kNotFound);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_THAT(entry.path().extension().string(), Not("tmp"));
  }
}

TEST(WriteSafetensors, SaysWhereItCouldNotWrite) {
  const TemporaryFolder folder;
  const Status status = WriteSafetensors(folder.path() / "missing", kTensors, 0, kCount);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("missing"));
}

}  // namespace
}  // namespace sightline
