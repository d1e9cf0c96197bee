// Checkpoint over tests/data/reader (its README tells what the verdicts mean) and what those files leave open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/support/torch_archive.h"
#include "weights/weights.h"

namespace sightline {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::filesystem::path kReaderData = std::filesystem::path(SIGHTLINE_TEST_DATA) / "reader";

const json& Expected() {
  static const json expected = json::parse(std::ifstream(kReaderData / "expected.json"))["files"];
  return expected;
}

std::vector<std::string> FileNames() {
  std::vector<std::string> names;
  for (const auto& [name, row] : Expected().items()) names.push_back(name);
  return names;
}

std::vector<std::byte> Read(const std::string& name) { return *ReadFile(kReaderData / name, 1 << 20); }

std::string ErrorOf(std::span<const std::byte> bytes) {
  const auto checkpoint = Checkpoint::FromBytes(bytes, "x.pt");
  if (checkpoint) return "no error";
  EXPECT_EQ(checkpoint.error().code, Code::kCorruptWeights);
  return checkpoint.error().message;
}
std::string ErrorOf(std::string_view text) { return ErrorOf(AsBytes(text)); }

void ExpectTensors(const Checkpoint& checkpoint, const json& tensors) {
  if (!tensors.empty()) {
    EXPECT_EQ(checkpoint.names().size(), tensors.size());
  }
  for (const auto& [name, row] : tensors.items()) {
    const TensorView* view = checkpoint.Find(name);
    ASSERT_NE(view, nullptr) << name;
    EXPECT_EQ(NameOf(view->dtype), row["dtype"].get<std::string>()) << name;
    EXPECT_EQ(view->shape, row["shape"].get<Shape>()) << name;
    EXPECT_EQ(Sha256Hex(CopyAsStored(*view)), row["sha256_contiguous_le"].get<std::string>()) << name;
  }
}

class ReaderGoldens : public ::testing::TestWithParam<std::string> {};

TEST_P(ReaderGoldens, GivesItsVerdict) {
  const json& row = Expected()[GetParam()];
  const auto checkpoint = Checkpoint::Open(kReaderData / GetParam());
  const std::string message = checkpoint ? "" : checkpoint.error().message;
  ASSERT_TRUE(checkpoint || row["verdict"] != "accept") << message;
  ASSERT_TRUE(!checkpoint || row["verdict"] != "refuse") << row["why"];
  if (checkpoint) return ExpectTensors(*checkpoint, row.value("tensors", json::object()));
  EXPECT_EQ(checkpoint.error().code, Code::kCorruptWeights);
  EXPECT_THAT(message, HasSubstr(GetParam() + ": "));
}

INSTANTIATE_TEST_SUITE_P(, ReaderGoldens, ::testing::ValuesIn(FileNames()),
                         [](const auto& test) { return test.param.substr(0, test.param.find('.')); });

// ---------------------------------------------------------------------------------------------------------------------
// Damage

class ReaderDamage : public ::testing::TestWithParam<std::string> {};

TEST_P(ReaderDamage, RefusesEveryTruncation) {
  const std::vector<std::byte> file = Read(GetParam());
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_FALSE(Checkpoint::FromBytes(std::span(file).first(size), "x.pt")) << size << " bytes of " << file.size();
  }
}

TEST_P(ReaderDamage, RefusesTrailingBytes) {
  for (const size_t count : {1u, 22u, 70000u}) {
    std::vector<std::byte> file = Read(GetParam());
    file.resize(file.size() + count);
    EXPECT_FALSE(Checkpoint::FromBytes(file, "x.pt")) << count;
  }
}

// Whatever a byte is changed to, the answer is an error or tensors inside the file: reading them all shows it (under
// the address sanitizer above all).
TEST_P(ReaderDamage, SurvivesEveryChangedByte) {
  std::vector<std::byte> file = Read(GetParam());
  for (std::byte& byte : file) {
    for (const int flip : {0x01, 0x20, 0x80, 0xff}) {
      byte ^= static_cast<std::byte>(flip);
      if (const auto checkpoint = Checkpoint::FromBytes(file, "x.pt")) {
        for (const std::string& name : checkpoint->names()) CopyAsStored(*checkpoint->Find(name));
      }
      byte ^= static_cast<std::byte>(flip);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ReaderDamage,
                         ::testing::Values("good_handmade.pt", "good_dict.pt", "good_protocol4.pt", "good_legacy.pt",
                                           "good_plain_zip.pt", "good_wrapped.pt"),
                         [](const auto& test) { return test.param.substr(0, test.param.find('.')); });

TEST(Reader, VerifyFindsAWrongCrc) {
  const auto good = Checkpoint::Open(kReaderData / "good_dict.pt");
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->Verify());
  const auto bad = Checkpoint::Open(kReaderData / "either_bad_crc.pt");
  ASSERT_TRUE(bad);
  ASSERT_FALSE(bad->Verify());
  EXPECT_THAT(bad->Verify().error().message, AllOf(HasSubstr("either_bad_crc.pt: m/data/0"), HasSubstr("CRC-32")));
}

TEST(Reader, RefusesAPickleWithAWrongCrc) {
  std::vector<std::byte> file = Read("good_handmade.pt");
  const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
  file[text.find("cpu")] = std::byte{'q'};
  EXPECT_THAT(ErrorOf(file), HasSubstr("m/data.pkl does not have the CRC-32"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Hostile pickles

TEST(ReaderPickle, NamesTheSymbolItRefuses) {
  const std::string call = PickledString("w") + "cposix\nsystem\n" + PickledString("true") + "\x85R";
  EXPECT_EQ(ErrorOf(ArchiveOfPickle(PickledDictionary(call))),
            "x.pt: the pickle asks for posix.system; only tensors are read");
  const std::string stacked = PickledString("w") + PickledString("os") + PickledString("system") + "\x93";
  EXPECT_EQ(ErrorOf(ArchiveOfPickle(PickledDictionary(stacked))),
            "x.pt: the pickle asks for os.system; only tensors are read");
}

TEST(ReaderPickle, ShowsNoControlCharactersOfTheFile) {
  const std::string symbol = "\x1b[31m" + std::string(200, 'a');
  const std::string message =
      ErrorOf(ArchiveOfPickle("\x80\x02"
                              "c" +
                              symbol + "\nb\n."));
  EXPECT_THAT(message, AllOf(HasSubstr("?[31maaa"), HasSubstr("aaa....b"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(message.size(), 200u);
}

TEST(ReaderPickle, RefusesMarkersUsedAsValuesOfAnotherKind) {
  const std::string storage_call = PickledString("w") + "ctorch\nFloatStorage\n)R";
  EXPECT_THAT(ErrorOf(ArchiveOfPickle(PickledDictionary(storage_call))), HasSubstr("calls torch.FloatStorage"));
  const std::string filled = PickledString("w") + "ccollections\nOrderedDict\n(" + PickledString("a") + "K\x01tR";
  EXPECT_THAT(ErrorOf(ArchiveOfPickle(PickledDictionary(filled))), HasSubstr("collections.OrderedDict"));
}

TEST(ReaderPickle, RefusesMetadataThatChangesWhatTheElementsMean) {
  PickledTensor tensor;
  tensor.more_arguments = "}(" + PickledString("neg") + "\x88u";
  EXPECT_THAT(ErrorOf(ArchiveOf(tensor)), HasSubstr("metadata"));
  tensor.more_arguments = "}";
  EXPECT_EQ(ErrorOf(ArchiveOf(tensor)), "no error");
}

TEST(ReaderPickle, BoundsDictionariesThatMultiply) {
  // Seven levels, each holding the one below 40 times under different names.
  std::string value = "}";
  for (int level = 0; level < 7; ++level) {
    std::string next = "}q" + std::string(1, static_cast<char>(level)) + "(";
    for (int i = 0; i < 40; ++i) {
      next += PickledString(std::to_string(i)) + (i == 0 ? value : "h" + std::string(1, static_cast<char>(level + 10)));
      if (i == 0) next += "q" + std::string(1, static_cast<char>(level + 10));
    }
    value = next + "u";
  }
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("\x80\x02" + value + ".")), HasSubstr("more than 1048576 entries"));
}

TEST(ReaderPickle, BoundsItsLength) {
  const std::string half = std::string(3 << 20, 'N');
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("\x80\x02" + half)), HasSubstr("more than 65536 values"));
  std::string pairs = "\x80\x02]";
  for (int i = 0; i < (5 << 20) / 2; ++i) pairs += "Na";
  EXPECT_THAT(ErrorOf(ArchiveOfPickle(pairs)), HasSubstr("more than 1048576 opcodes"));
  std::string strings = "\x80\x02]";
  for (int i = 0; i < 100; ++i) strings += PickledString(std::string(65000, 's')) + "a";
  EXPECT_THAT(ErrorOf(ArchiveOfPickle(strings + ".")), HasSubstr("longer than 4194304 bytes"));
}

TEST(ReaderPickle, RefusesOtherProtocolsAndWhatFollowsStop) {
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("\x80\x01}.")), HasSubstr("has protocol 1, expected 2 to 5"));
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("\x80\x06}.")), HasSubstr("has protocol 6, expected 2 to 5"));
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("}.")), HasSubstr("does not begin with a protocol"));
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("\x80\x02}.}.")), HasSubstr("ends 2 bytes before data.pkl does"));
  EXPECT_THAT(ErrorOf(ArchiveOfPickle("\x80\x02}}.")), HasSubstr("leaves 2 values"));
}

TEST(ReaderPickle, NamesInsideDictionariesAreJoinedByDots) {
  const std::string tensor = PickledString("w") + PickledTensor().Record();
  const std::string optimizer = PickledString("optimizer") + "}(K\x07}(" + tensor + "uu";
  const std::string model = PickledString("model") + "}(" + tensor + "u";
  const std::string file = ArchiveOfPickle(PickledDictionary(PickledString("epoch") + "K\x05" + model + optimizer));
  const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.pt");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("model.w", "optimizer.7.w"));
  const std::string twice = PickledString("model.w") + PickledTensor().Record() + model;
  EXPECT_THAT(ErrorOf(ArchiveOfPickle(PickledDictionary(twice))), HasSubstr("has model.w twice"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

TEST(ReaderTensor, ChecksOffsetsSizesAndStridesAgainstTheStorage) {
  struct Row {
    int64_t offset;
    std::vector<int64_t> shape, strides;
    bool accepted;
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  const Row rows[] = {
      {0, {2, 3}, {3, 1}, true},
      {0, {3, 2}, {1, 3}, true},
      {5, {}, {}, true},
      {6, {}, {}, false},
      {6, {0}, {1}, true},
      {7, {0}, {1}, true},  // torch writes any offset for no elements
      {-7, {0}, {1}, false},
      {0, {1, 6}, {kHuge, 1}, true},  // a stride that is never taken
      {0, {2, 3}, {kHuge, 1}, false},
      {0, {3, 3}, {kHuge, kHuge}, false},
      {0, {0, kHuge, kHuge}, {1, 1, 1}, false},
      {0, {kHuge, 0}, {1, 1}, false},
      {0, {4, 1000}, {0, 0}, true},            // repeated elements, 16 kB
      {0, {1 << 14, 1 << 14}, {0, 0}, false},  // 1 GB
      {1, {2, 3}, {3, 1}, false},
      {0, {-1}, {1}, false},
      {0, {2}, {-1}, false},
      {-1, {1}, {1}, false},
  };
  for (const Row& row : rows) {
    PickledTensor tensor;
    tensor.offset = row.offset, tensor.shape = row.shape, tensor.strides = row.strides;
    const std::string message = ErrorOf(ArchiveOf(tensor));
    EXPECT_EQ(message == "no error", row.accepted) << ToString(row.shape) << ToString(row.strides) << message;
  }
}

TEST(ReaderTensor, EveryElementTypeNeedsItsSize) {
  const std::map<std::string, std::pair<DType, size_t>> classes = {
      {"DoubleStorage", {DType::kF64, 8}},    {"FloatStorage", {DType::kF32, 4}}, {"HalfStorage", {DType::kF16, 2}},
      {"BFloat16Storage", {DType::kBF16, 2}}, {"LongStorage", {DType::kI64, 8}},  {"IntStorage", {DType::kI32, 4}},
      {"ShortStorage", {DType::kI16, 2}},     {"CharStorage", {DType::kI8, 1}},   {"ByteStorage", {DType::kU8, 1}},
      {"BoolStorage", {DType::kBool, 1}},
  };
  for (const auto& [name, type] : classes) {
    PickledTensor tensor;
    tensor.storage_class = name;
    const std::string file = ArchiveOf(tensor, std::string(6 * type.second, '\1'));
    const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.pt");
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->Find("w")->dtype, type.first) << name;
    EXPECT_THAT(ErrorOf(ArchiveOf(tensor, std::string(6 * type.second + 1, '\1'))), HasSubstr("expected 6 elements"));
  }
}

TEST(ReaderTensor, UnalignedElementsAreReadRightly) {
  for (size_t shift = 0; shift < 8; ++shift) {
    ArchiveBuilder builder;
    builder.extra = "FB" + LittleEndian(static_cast<uint16_t>(shift)) + std::string(shift, 'Z');
    const std::string pickle = PickledDictionary(PickledString("w") + PickledTensor().Record());
    std::string storage;
    for (const float value : {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}) storage += LittleEndian(value);
    const std::string file = builder.Build({{"m/data.pkl", pickle}, {"m/data/0", storage}});
    const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.pt");
    ASSERT_TRUE(checkpoint);
    std::vector<float> values(6);
    ASSERT_TRUE(CopyAsFloat(*checkpoint->Find("w"), values));
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Archives

class ReaderArchive : public ::testing::Test {
 protected:
  const std::vector<ArchiveEntry> entries_ = {
      {"m/data.pkl", PickledDictionary(PickledString("w") + PickledTensor().Record())},
      {"m/data/0", std::string(24, 'A')},
      {"m/version", "3\n"}};
};

TEST_F(ReaderArchive, AcceptsCommentsAnd64BitRecords) {
  ArchiveBuilder builder;
  for (const size_t comment : {0u, 1u, 100u, 65535u}) {
    for (const bool zip64 : {false, true}) {
      builder.comment = std::string(comment, 'c');
      builder.zip64 = zip64;
      EXPECT_EQ(ErrorOf(builder.Build(entries_)), "no error") << comment << zip64;
    }
  }
}

TEST_F(ReaderArchive, ReadsSizesAndOffsetsOf64Bits) {
  ArchiveBuilder builder;
  builder.zip64_sizes = true;
  std::string file = builder.Build(entries_);
  EXPECT_EQ(ErrorOf(file), "no error");
  file[file.rfind(LittleEndian(uint64_t{24})) + 7] = '\x40';  // the packed size of the storage
  EXPECT_THAT(ErrorOf(file), HasSubstr("m/data/0 has"));
}

TEST_F(ReaderArchive, AcceptsFoldersOfAnyNameAndFolderEntries) {
  std::vector<ArchiveEntry> entries = entries_;
  for (const std::string folder : {"a b", "x.y", "\xc3\xa9", "deep/er", "data", "data.pkl"}) {
    entries[0].name = folder + "/data.pkl", entries[1].name = folder + "/data/0", entries[2].name = folder + "/version";
    EXPECT_EQ(ErrorOf(ArchiveBuilder().Build(entries)), "no error") << folder;
  }
  entries.push_back({"m/", ""});
  EXPECT_EQ(ErrorOf(ArchiveBuilder().Build(entries)), "no error");
}

TEST_F(ReaderArchive, RefusesTwoEntriesOfOneName) {
  std::vector<ArchiveEntry> entries = entries_;
  entries.push_back(entries[1]);
  EXPECT_THAT(ErrorOf(ArchiveBuilder().Build(entries)), HasSubstr("two entries m/data/0"));
}

TEST_F(ReaderArchive, RefusesEncryptedEntries) {
  ArchiveBuilder builder;
  builder.flags = 1;
  EXPECT_THAT(ErrorOf(builder.Build(entries_)), HasSubstr("encrypted"));
}

TEST_F(ReaderArchive, RefusesEntriesThatOverlap) {
  std::string file = ArchiveBuilder().Build(entries_);
  // Points the directory's row of m/version at a second header inside the storage.
  const std::string header = file.substr(file.rfind("PK\x03\x04"), 30 + 9 + 7 + 2);
  std::vector<ArchiveEntry> entries = entries_;
  entries[1].content = header + std::string(100, 'A');
  file = ArchiveBuilder().Build(entries);
  const size_t inner = file.find(header), row = file.find("m/version", file.find("PK\x01\x02")) - 4;
  file.replace(row, 4, LittleEndian(static_cast<uint32_t>(inner)));
  EXPECT_THAT(ErrorOf(file), HasSubstr("m/version overlaps another"));
}

TEST_F(ReaderArchive, RefusesADirectoryNameThatIsNotTheEntrys) {
  std::string file = ArchiveBuilder().Build(entries_);
  file[file.find("m/version", file.find("PK\x01\x02"))] = 'n';
  EXPECT_THAT(ErrorOf(file), HasSubstr("n/version is named m/version in its own header"));
}

TEST_F(ReaderArchive, RefusesEndRecordsThatDisagree) {
  ArchiveBuilder builder;
  builder.zip64 = true;
  std::string file = builder.Build(entries_);
  file.replace(file.size() - 12, 2, LittleEndian(uint16_t{2}));
  EXPECT_THAT(ErrorOf(file), HasSubstr("contradict"));
}

// ---------------------------------------------------------------------------------------------------------------------
// The layout before torch 1.6

class ReaderLegacy : public ::testing::Test {
 protected:
  // {"w": tensor of 2 x 3 floats} over a storage under key 5 of `elements`, of which `window` (a pickled value) is
  // seen.
  std::string File(int64_t elements, const std::string& window, const std::string& keys, bool little = true) const {
    PickledTensor tensor;
    tensor.key = "5";
    tensor.elements = elements;
    std::string record = tensor.Record();
    record.insert(record.find("tQ"), window);
    std::string file = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    file += "\x80\x02M\xe9\x03.\x80\x02}(" + PickledString("little_endian") + (little ? "\x88u." : "\x89u.");
    file += PickledDictionary(PickledString("w") + record) + "\x80\x02](" + keys + "e.";
    file += LittleEndian<int64_t>(8);
    for (int i = 0; i < 8; ++i) file += LittleEndian(static_cast<float>(i));
    return file;
  }
};

TEST_F(ReaderLegacy, ReadsAWindowOfAnotherStorage) {
  const std::string window = "(" + PickledString("6") + "K\x02K\x06t";
  const std::string file = File(8, window, PickledString("5"));
  const auto checkpoint = Checkpoint::FromBytes(AsBytes(file), "x.pt");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  std::vector<float> values(6);
  ASSERT_TRUE(CopyAsFloat(*checkpoint->Find("w"), values));
  EXPECT_THAT(values, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_EQ(ErrorOf(File(8, "N", PickledString("5"))), "no error");
}

TEST_F(ReaderLegacy, RefusesWindowsBeyondTheStorage) {
  EXPECT_THAT(ErrorOf(File(8, "(" + PickledString("6") + "K\x03K\x06t", PickledString("5"))),
              HasSubstr("a window of 6"));
  EXPECT_THAT(ErrorOf(File(8, "(" + PickledString("6") + "K\x02K\x05t", PickledString("5"))),
              HasSubstr("w reaches to element 5 of a storage of 5"));
}

TEST_F(ReaderLegacy, RefusesStoragesThatDoNotMatch) {
  EXPECT_THAT(ErrorOf(File(8, "N", "")), HasSubstr("follow the last storage"));
  EXPECT_THAT(ErrorOf(File(8, "N", PickledString("7"))), HasSubstr("no tensor uses storage 7"));
  EXPECT_THAT(ErrorOf(File(7, "N", PickledString("5"))), HasSubstr("storage 5 has 32 bytes, expected 7 elements"));
  EXPECT_THAT(ErrorOf(File(8, "N", PickledString("5"), false)), HasSubstr("byte order is big"));
}

// ---------------------------------------------------------------------------------------------------------------------
// Other formats, and the file itself

TEST(Reader, SaysWhatAnotherFormatLooksLike) {
  EXPECT_THAT(ErrorOf("version https://git-lfs.github.com/spec/v1\noid sha256:0"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(ErrorOf("<!DOCTYPE html><html>"), HasSubstr("web page"));
  EXPECT_THAT(ErrorOf(R"({"abcd":{"a":1}})"), HasSubstr("JSON"));
  EXPECT_THAT(ErrorOf("GGUF\x03"), HasSubstr("GGUF"));
  EXPECT_THAT(ErrorOf("\x1f\x8b\x08"), HasSubstr("gzip"));
  EXPECT_THAT(ErrorOf(std::string(257, '\0') + "ustar"), HasSubstr("tar archive"));
  EXPECT_THAT(ErrorOf(Read("bad_tar.pt")), HasSubstr("tar archive of a very old torch"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("x.pt: is empty"));
  EXPECT_THAT(ErrorOf("hello"), HasSubstr("no known format"));
}

TEST(Reader, TellsAMissingFileFromADamagedOne) {
  const auto missing = Checkpoint::Open("/nonexistent/x.pt");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
}

TEST(Reader, IdentityFollowsTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.pt";
  std::filesystem::copy_file(kReaderData / "good_dict.pt", path);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type{} + std::chrono::seconds(1));
  const std::string first = Checkpoint::Open(path)->identity();
  EXPECT_EQ(Checkpoint::Open(path)->identity(), first);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type{} + std::chrono::seconds(2));
  EXPECT_NE(Checkpoint::Open(path)->identity(), first);
  const std::vector<std::byte> bytes = Read("good_dict.pt");
  EXPECT_EQ(Checkpoint::FromBytes(bytes, "a")->identity(), "sha256:" + Sha256Hex(bytes));
}

TEST(Reader, ViewsOutliveEveryCopyButTheLast) {
  std::optional<Checkpoint> copy;
  {
    const auto checkpoint = Checkpoint::Open(kReaderData / "good_dict.pt");
    ASSERT_TRUE(checkpoint);
    copy = *checkpoint;
  }
  EXPECT_EQ(copy->names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(CopyAsStored(*copy->Find("a")).size(), 48u);
  EXPECT_EQ(copy->Find("e"), nullptr);
}

}  // namespace
}  // namespace sightline
