#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <numeric>

#include "tests/support/temporary_folder.h"
#include "weights/weights.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<TensorSpec> kSpecs = {{"norm.weight", {5}},
                                        {"scalar", {}},
                                        {"t\u00eate", {2, 3, 4}},
                                        {"none", {0, 3}},
                                        {"blocks.0.qkv.weight", {40, 1000}}};

// Tensor i counts up from 1000 * i.
constexpr auto kCountUp = [](size_t index, std::span<float> values) -> Status {
  std::iota(values.begin(), values.end(), static_cast<float>(1000 * index));
  return {};
};

size_t CountFiles(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(WriteTorchCheckpoint, IsReadBack) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteTorchCheckpoint(folder.path() / "a.pt", kSpecs, kCountUp));
  const auto checkpoint = Checkpoint::Open(folder.path() / "a.pt");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("norm.weight", "scalar", "t\u00eate", "none", "blocks.0.qkv.weight"));
  EXPECT_TRUE(CheckTensors(*checkpoint, kSpecs));
  const Status verified = checkpoint->Verify();
  EXPECT_TRUE(verified) << verified.error().message;
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    std::vector<float> expected(static_cast<size_t>(ElementCount(kSpecs[i].shape))), actual(expected.size());
    ASSERT_TRUE(kCountUp(i, expected));
    ASSERT_TRUE(CopyAsFloat(*checkpoint->Find(kSpecs[i].name), actual));
    EXPECT_EQ(actual, expected) << kSpecs[i].name;
  }
}

TEST(WriteTorchCheckpoint, AlignsEveryTensor) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteTorchCheckpoint(folder.path() / "a.pt", kSpecs, kCountUp));
  const auto checkpoint = Checkpoint::Open(folder.path() / "a.pt");
  for (const std::string& name : checkpoint->names()) {
    EXPECT_EQ((checkpoint->Find(name)->data - checkpoint->bytes().data()) % 64, 0) << name;
  }
}

// Names and order of entries as torch.save writes them.
TEST(WriteTorchCheckpoint, NamesItsEntriesAsTorchDoes) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteTorchCheckpoint(folder.path() / "a.pt", kSpecs, kCountUp));
  const auto bytes = *ReadFile(folder.path() / "a.pt", 1 << 20);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t at = 0;
  for (const std::string name :
       {"archive/data.pkl", "archive/byteorder", "archive/data/0", "archive/data/4", "archive/version"}) {
    at = text.find("PK\x03\x04", at);
    at = text.find(name, at);
    ASSERT_NE(at, text.npos) << name;
  }
}

TEST(WriteTorchCheckpoint, AFailedFillLeavesNothing) {
  const TemporaryFolder folder;
  const Status status =
      WriteTorchCheckpoint(folder.path() / "a.pt", kSpecs, [](size_t index, std::span<float>) -> Status {
        if (index == 2) return Fail(Code::kNumeric, "no numbers");
        return {};
      });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "no numbers");
  EXPECT_EQ(CountFiles(folder.path()), 0u);
}

TEST(WriteTorchCheckpoint, ReportsFoldersThatAreNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(WriteTorchCheckpoint(folder.path() / "none" / "a.pt", kSpecs, kCountUp).error().code, Code::kNotFound);
}

TEST(WriteTorchCheckpoint, ReportsAFullDisk) {
  const TemporaryFolder folder;
  rlimit old;  // a limit on file sizes stands for the disk
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20000, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = WriteTorchCheckpoint(folder.path() / "a.pt", kSpecs, kCountUp);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kNoSpace);
  EXPECT_EQ(CountFiles(folder.path()), 0u);
}

TEST(WriteTorchCheckpoint, RefusesArchivesBeyond4GiB) {
  const TemporaryFolder folder;
  const Status status = WriteTorchCheckpoint(folder.path() / "a.pt", {{{"w", {1 << 20, 1 << 10}}}}, kCountUp);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("more than 4 GiB"));
}

}  // namespace
}  // namespace sightline
