#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/support/temporary_folder.h"
#include "weights/weights.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PackedEntrySpec Entry(const std::string& name, size_t bytes, int value) {
  const auto fill = [bytes, value](std::span<std::byte> out) -> Status {
    EXPECT_EQ(out.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(out.data()) % 64, 0u);
    // Leaves every second byte as it is: zero.
    for (size_t i = 0; i < out.size(); i += 2) out[i] = static_cast<std::byte>(value);
    return {};
  };
  return {name, "panels-64", {static_cast<int64_t>(bytes), 1}, bytes, fill};
}

std::vector<PackedEntrySpec> Entries() {
  return {Entry("a", 10, 1), Entry("b", 4096, 2), Entry("empty", 0, 3), Entry("c", 5000, 4)};
}

void ExpectEntries(const PackedFile& file) {
  ASSERT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.Find("d"), nullptr);
  for (const PackedEntrySpec& spec : Entries()) {
    const PackedFile::Entry* entry = file.Find(spec.name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->layout, "panels-64");
    EXPECT_EQ(entry->shape, spec.shape);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(entry->bytes.data()) % 4096, 0u);
    const std::byte value{static_cast<unsigned char>(spec.name == "a" ? 1 : spec.name == "b" ? 2 : 4)};
    ASSERT_EQ(entry->bytes.size(), spec.bytes);
    for (size_t i = 0; i < spec.bytes; ++i) ASSERT_EQ(entry->bytes[i], i % 2 == 0 ? value : std::byte{0}) << i;
  }
}

class Packed : public ::testing::Test {
 protected:
  Status Write(std::string_view key = "key 1") { return WritePackedFile(path_, key, Entries()); }
  std::vector<std::byte> Content() { return *ReadFile(path_, 1 << 20); }
  size_t CountFiles() { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {})); }

  const TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "weights.packed";
};

TEST_F(Packed, IsReadBack) {
  ASSERT_TRUE(Write());
  const auto file = PackedFile::Open(path_, "key 1");
  ASSERT_TRUE(file) << file.error().message;
  ExpectEntries(*file);
  EXPECT_EQ(file->path(), path_);
  EXPECT_EQ(file->key(), "key 1");
  EXPECT_TRUE(file->Verify());
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(Packed, TheSameEntriesGiveTheSameBytes) {
  ASSERT_TRUE(Write());
  const auto first = Content();
  ASSERT_TRUE(Write());
  EXPECT_EQ(Content(), first);
}

TEST_F(Packed, AnotherKeyIsNotFound) {
  ASSERT_TRUE(Write());
  const auto file = PackedFile::Open(path_, "key 2");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr("was packed for key 1, expected key 2"));
  EXPECT_EQ(PackedFile::Open(folder_.path() / "none.packed", "key 1").error().code, Code::kNotFound);
}

TEST_F(Packed, OpenSeesEveryChangedByteOfTheHeader) {
  ASSERT_TRUE(Write());
  std::vector<std::byte> bytes = Content();
  for (size_t i = 0; i < 4096; ++i) {
    for (const int flip : {0x01, 0x80}) {
      bytes[i] ^= static_cast<std::byte>(flip);
      ASSERT_FALSE(PackedFile::FromBytes(bytes, nullptr, "x")) << i;
      bytes[i] ^= static_cast<std::byte>(flip);
    }
  }
  EXPECT_TRUE(PackedFile::FromBytes(bytes, nullptr, "x"));
}

TEST_F(Packed, OpenSeesEveryTruncation) {
  ASSERT_TRUE(Write());
  const std::vector<std::byte> bytes = Content();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(PackedFile::FromBytes(std::span(bytes).first(size), nullptr, "x")) << size;
  }
  fs::resize_file(path_, bytes.size() - 1);
  const auto file = PackedFile::Open(path_, "key 1");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kCorruptWeights);
  EXPECT_THAT(file.error().message, HasSubstr("cut short"));
}

TEST_F(Packed, VerifySeesChangedPayload) {
  ASSERT_TRUE(Write());
  const std::vector<std::byte> good = Content();
  for (const size_t at : {size_t{4096}, size_t{4110}, size_t{8192}, good.size() - 1}) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= std::byte{0x10};
    const auto file = PackedFile::FromBytes(bytes, nullptr, "x.packed");
    ASSERT_TRUE(file);
    const Status status = file->Verify();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kCorruptWeights);
    EXPECT_THAT(status.error().message, HasSubstr("x.packed"));
  }
}

TEST_F(Packed, FilesOfOtherKindsAreDamaged) {
  for (const std::string_view text : {"", "x", "SLPACK01", "PK\x03\x04"}) {
    ASSERT_TRUE(WriteFileAtomically(path_, AsBytes(text)));
    EXPECT_EQ(PackedFile::Open(path_, "key 1").error().code, Code::kCorruptWeights) << text;
  }
  ASSERT_TRUE(WriteFileAtomically(path_, AsBytes("SLPACK99 of the future")));
  EXPECT_EQ(PackedFile::Open(path_, "key 1").error().code, Code::kNotFound);
}

TEST_F(Packed, AFailedFillLeavesNothing) {
  std::vector<PackedEntrySpec> entries = Entries();
  entries[1].fill = [](std::span<std::byte>) -> Status { return Fail(Code::kNumeric, "no numbers"); };
  EXPECT_EQ(WritePackedFile(path_, "key 1", entries).error().message, "no numbers");
  EXPECT_EQ(OpenOrWritePackedFile(path_, "key 1", entries).error().message, "no numbers");
  EXPECT_EQ(CountFiles(), 0u);
}

// --- OpenOrWritePackedFile

TEST_F(Packed, IsMadeOnceAndMappedEverAfter) {
  int calls = 0;
  std::vector<PackedEntrySpec> entries = Entries();
  for (PackedEntrySpec& entry : entries) {
    entry.fill = [&calls, fill = entry.fill](std::span<std::byte> out) {
      ++calls;
      return fill(out);
    };
  }
  const fs::path path = folder_.path() / "deeper" / "still" / "weights.packed";
  for (int i = 0; i < 3; ++i) {
    const auto file = OpenOrWritePackedFile(path, "key 1", entries);
    ASSERT_TRUE(file) << file.error().message;
    ExpectEntries(*file);
    EXPECT_EQ(calls, 4);
  }
}

TEST_F(Packed, TellsHowFarItIs) {
  for (const fs::path& path : {path_, fs::path()}) {  // a file, and memory
    std::vector<size_t> done;
    size_t all = 0;
    const auto progress = [&](size_t bytes, size_t total) {
      done.push_back(bytes);
      all = total;
    };
    ASSERT_TRUE(OpenOrWritePackedFile(path, "key 1", Entries(), progress));
    EXPECT_EQ(done.size(), Entries().size());
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_GT(done.front(), 0u);
    EXPECT_EQ(done.back(), all);
  }
  ASSERT_TRUE(OpenOrWritePackedFile(path_, "key 1", Entries(), [](size_t, size_t) { ADD_FAILURE() << "is there"; }));
}

TEST_F(Packed, IsMadeAgainWhenItDoesNotFit) {
  ASSERT_TRUE(Write("another key"));
  ExpectEntries(*OpenOrWritePackedFile(path_, "key 1", Entries()));

  fs::resize_file(path_, 5000);
  ExpectEntries(*OpenOrWritePackedFile(path_, "key 1", Entries()));

  ASSERT_TRUE(WritePackedFile(path_, "key 1", std::vector{Entry("a", 10, 1)}));
  ExpectEntries(*OpenOrWritePackedFile(path_, "key 1", Entries()));
  EXPECT_TRUE(PackedFile::Open(path_, "key 1")->Verify());
}

TEST_F(Packed, MayBeRemovedWhileInUse) {
  const auto file = OpenOrWritePackedFile(path_, "key 1", Entries());
  ASSERT_TRUE(file);
  fs::remove(path_);
  ExpectEntries(*file);
  ExpectEntries(*OpenOrWritePackedFile(path_, "key 1", Entries()));
}

TEST_F(Packed, OwnerKeepsTheBytes) {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  {
    const auto file = OpenOrWritePackedFile(path_, "key 1", Entries());
    owner = file->owner();
    bytes = file->Find("b")->bytes;
  }
  EXPECT_EQ(bytes[0], std::byte{2});
}

// The super-user may write anywhere, so the folder is one that no user can write.
TEST_F(Packed, WhereTheFolderCannotBeWrittenMemoryHoldsIt) {
  const auto file = OpenOrWritePackedFile("/proc/self/weights.packed", "key 1", Entries());
  ASSERT_TRUE(file) << file.error().message;
  ExpectEntries(*file);
  EXPECT_TRUE(file->Verify());
}

TEST_F(Packed, WhereAFolderIsAFileMemoryHoldsIt) {
  ASSERT_TRUE(WriteFileAtomically(folder_.path() / "file", AsBytes("x")));
  const auto file = OpenOrWritePackedFile(folder_.path() / "file" / "weights.packed", "key 1", Entries());
  ASSERT_TRUE(file) << file.error().message;
  ExpectEntries(*file);
}

// A limit on file sizes stands for a disk that fills up half-way.
TEST_F(Packed, WhereTheDiskIsFullMemoryHoldsIt) {
  rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{6000, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = OpenOrWritePackedFile(path_, "key 1", Entries());
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(file) << file.error().message;
  ExpectEntries(*file);
  EXPECT_EQ(CountFiles(), 0u);
}

// --- several writers, and writers that die

TEST_F(Packed, WritersAtTheSameTimeDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        const auto file = OpenOrWritePackedFile(path_, "key 1", Entries());
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_TRUE(file->Verify());
        std::error_code ignored;
        if (round % 3 == 0) fs::remove(path_, ignored);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Runs `body` in a process of its own that ends without any clean-up.
template <typename Body>
void InDyingProcess(Body body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

// Dies in the fill of each entry in turn, and after the last: the file is the old one or none, and the next writer
// clears what is left.
TEST_F(Packed, AKilledWriterLeavesTheOldFileOrNone) {
  for (const bool with_old : {false, true}) {
    for (size_t victim = 0; victim < 4; ++victim) {
      fs::remove(path_);
      ASSERT_TRUE(!with_old || Write("old"));
      InDyingProcess([&] {
        std::vector<PackedEntrySpec> entries = Entries();
        entries[victim].fill = [](std::span<std::byte>) -> Status {
          ::kill(::getpid(), SIGKILL);
          return {};
        };
        static_cast<void>(OpenOrWritePackedFile(path_, "new", entries));
      });
      EXPECT_EQ(PackedFile::Open(path_, "new").error().code, Code::kNotFound);
      EXPECT_EQ(PackedFile::Open(path_, "old").has_value(), with_old);
      EXPECT_LE(CountFiles(), with_old ? 2u : 1u) << "a temporary file where there are no nameless ones";
      ASSERT_TRUE(OpenOrWritePackedFile(path_, "new", Entries()));
      EXPECT_EQ(CountFiles(), 1u);
    }
  }
}

// Dies at moments that no code chooses.
TEST_F(Packed, AWriterKilledAtAnyMomentLeavesNothingHalfDone) {
  for (int i = 0; i < 40; ++i) {
    fs::remove(path_);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::vector<PackedEntrySpec> entries;
      for (int entry = 0; entry < 50; ++entry) entries.push_back(Entry("e" + std::to_string(entry), 20000, entry));
      while (true) static_cast<void>(WritePackedFile(path_, "key 1", entries));
    }
    ::usleep(static_cast<useconds_t>(200 * i));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (const auto file = PackedFile::Open(path_, "key 1")) {
      EXPECT_TRUE(file->Verify());
    } else {
      EXPECT_EQ(file.error().code, Code::kNotFound) << file.error().message;
    }
  }
  ASSERT_TRUE(OpenOrWritePackedFile(path_, "key 2", Entries()));
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(Packed, LeavesTheTemporaryFilesOfLivingWriters) {
  const fs::path living = folder_.path() / (".sightline-" + std::to_string(::getpid()) + "-99.tmp");
  const fs::path other = folder_.path() / "notes.tmp";
  ASSERT_TRUE(WriteFileAtomically(living, AsBytes("x")));
  ASSERT_TRUE(WriteFileAtomically(other, AsBytes("x")));
  ASSERT_TRUE(OpenOrWritePackedFile(path_, "key 1", Entries()));
  EXPECT_TRUE(fs::exists(living));
  // After an hour the number must belong to somebody else by now.
  fs::last_write_time(living, fs::file_time_type::clock::now() - std::chrono::minutes(61));
  ASSERT_TRUE(OpenOrWritePackedFile(path_, "key 2", Entries()));
  EXPECT_FALSE(fs::exists(living));
  EXPECT_TRUE(fs::exists(other));
}

// --- VerifyPackedFiles

TEST_F(Packed, VerifyReportsEveryFileUnderAFolder) {
  ASSERT_TRUE(Write());
  fs::create_directory(folder_.path() / "more");
  const fs::path damaged = folder_.path() / "more" / "damaged.packed";
  std::vector<std::byte> bytes = Content();
  bytes.back() ^= std::byte{1};
  ASSERT_TRUE(WriteFileAtomically(damaged, bytes));
  ASSERT_TRUE(WriteFileAtomically(folder_.path() / "other.pt", bytes));

  std::vector<std::pair<fs::path, bool>> seen;
  ASSERT_TRUE(VerifyPackedFiles(folder_.path(), [&](const fs::path& path, const Status& status) {
    seen.emplace_back(path, status.has_value());
  }));
  EXPECT_THAT(seen, ElementsAre(std::pair(damaged, false), std::pair(path_, true)));
  EXPECT_TRUE(VerifyPackedFiles(folder_.path() / "none", [](const fs::path&, const Status&) { FAIL(); }));
}

}  // namespace
}  // namespace sightline
