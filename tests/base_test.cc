#include "base/base.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

namespace fs = std::filesystem;

std::vector<std::byte> Bytes(std::string_view text) {
  const auto bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A folder of its own for every test, removed afterwards.
class BaseFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sightline-base-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Content(const fs::path& path) {
    const auto bytes = ReadFile(path, 1 << 20);
    return bytes ? Text(*bytes) : "error: " + bytes.error().message;
  }
  size_t CountEntries() { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
};

// Sets an environment variable, or unsets it for null, until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_old_ = true;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~ScopedVariable() { had_old_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_old_ = false;
};

// --- errors

TEST(Codes, FollowTheHttpContract) {
  const auto expect = [](Code code, std::string_view name, int own, int seed, int exit_code) {
    const CodeDescription& row = Describe(code);
    EXPECT_EQ(row.name, name);
    EXPECT_EQ(row.http_status, own) << name;
    EXPECT_EQ(row.seed_http_status, seed) << name;
    EXPECT_EQ(row.exit_code, exit_code) << name;
  };
  expect(Code::kInvalidRequest, "invalid_request", 400, 400, 2);
  expect(Code::kMissingField, "missing_field", 400, 422, 2);
  expect(Code::kInvalidBase64, "invalid_base64", 400, 400, 4);
  expect(Code::kImageTruncated, "image_truncated", 400, 400, 4);
  expect(Code::kInvalidBox, "invalid_box", 422, 400, 4);
  expect(Code::kUnitsMismatch, "units_mismatch", 422, 400, 4);
  expect(Code::kUnsupportedMedia, "unsupported_media_type", 415, 400, 4);
  expect(Code::kBodyTooLarge, "body_too_large", 413, 413, 4);
  expect(Code::kHeaderTooLarge, "header_too_large", 431, 431, 4);
  expect(Code::kNotFound, "not_found", 404, 404, 3);
  expect(Code::kRequestTimeout, "request_timeout", 408, 408, 8);
  expect(Code::kBusy, "busy", 503, 503, 5);
  expect(Code::kDeadline, "deadline", 504, 504, 8);
  expect(Code::kCancelled, "cancelled", 499, 499, 130);
  expect(Code::kUnreachable, "unreachable", 502, 502, 5);
  expect(Code::kCorruptWeights, "corrupt_weights", 500, 500, 6);
  expect(Code::kNoSpace, "no_space", 507, 500, 7);
  expect(Code::kNoPermission, "no_permission", 500, 500, 7);
  expect(Code::kOutOfMemory, "out_of_memory", 503, 503, 9);
  expect(Code::kDeviceLost, "device_lost", 503, 503, 10);
  expect(Code::kUnsupported, "unsupported", 501, 501, 1);
  expect(Code::kInternal, "internal", 500, 500, 1);
}

TEST(Codes, HaveDistinctNames) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    EXPECT_TRUE(names.insert(Describe(static_cast<Code>(code)).name).second);
  }
}

TEST(Errors, ErrnoNamesActionPathAndReason) {
  const Error full = ErrnoError("write", "/x", ENOSPC);
  EXPECT_EQ(full.message, "cannot write /x: no space left on device");
  EXPECT_EQ(full.code, Code::kNoSpace);
  EXPECT_EQ(ErrnoError("write", "/x", EROFS).code, Code::kNoPermission);
  EXPECT_EQ(ErrnoError("write", "/x", EACCES).code, Code::kNoPermission);
  EXPECT_EQ(ErrnoError("read", "/x", ENOENT).code, Code::kNotFound);
  EXPECT_EQ(ErrnoError("map", "/x", ENOMEM).code, Code::kOutOfMemory);
  EXPECT_EQ(ErrnoError("read", "/x", 99999).message, "cannot read /x: error 99999");
}

TEST(Errors, MacrosPassTheErrorOn) {
  const auto half = [](int value) -> Result<int> {
    if (value % 2 != 0) return Fail(Code::kInvalidRequest, "value is odd", "value");
    return value / 2;
  };
  const auto quarter = [&](int value) -> Result<int> {
    SIGHTLINE_ASSIGN_OR_RETURN(const int first, half(value));
    SIGHTLINE_RETURN_IF_ERROR(half(first));
    return first / 2;
  };
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(7).error().param, "value");
  EXPECT_EQ(quarter(6).error().message, "value is odd");
}

TEST(ErrorsDeathTest, ABrokenInvariantAborts) {
  EXPECT_DEATH(SIGHTLINE_CHECK(1 + 1 == 3), "broken invariant: 1 \\+ 1 == 3");
}

// --- logging

TEST(Logging, OneLineWithTimeLevelAndNoControlCharacters) {
  SetUpLogging(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  LogInfo("text");
  LogWarning("two\nlines \x1b[31m {}");
  LogDebug("unseen");
  const std::string seen = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  const std::string time = "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9][0-9][0-9]Z ";
  EXPECT_THAT(seen, MatchesRegex(time + "info  text\n" + time + "warning two.x0alines .x1b.31m \\{\\}\n"));
}

TEST(Logging, RotationsMoveFilesOnAndLoseNone) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "log";
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
  };
  const auto read = [&](const std::string& name) {
    std::string text;
    std::ifstream(folder.path() / name) >> text;
    return text;
  };
  write("log", "new");
  write("log.1", "old");
  write("log.2", "oldest");
  ASSERT_TRUE(RotateFile(file, 2));
  EXPECT_EQ(read("log") + " " + read("log.1") + " " + read("log.2"), " new old");
  // Without a file, as after a rotation behind which no new file could be made, the others stay.
  ASSERT_TRUE(RotateFile(file, 2));
  EXPECT_EQ(read("log.1") + " " + read("log.2"), "new old");
  // Killed between two steps: a name is free, and nothing needs to go.
  std::filesystem::rename(folder.path() / "log.1", file);
  ASSERT_TRUE(RotateFile(file, 2));
  EXPECT_EQ(read("log.1") + " " + read("log.2"), "new old");
}

TEST(Logging, LevelsHideLines) {
  ::testing::internal::CaptureStderr();
  SetUpLogging(LogLevel::kQuiet);
  LogInfo("hidden");
  LogWarning("odd");
  LogError("shown");
  SetUpLogging(LogLevel::kDebug);
  LogDebug("detail");
  SetUpLogging(LogLevel::kInfo);
  const std::string seen = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(seen, ::testing::Not(HasSubstr("hidden")));
  EXPECT_THAT(seen, HasSubstr("sightline: warning: odd\nsightline: error: shown\n"));
  EXPECT_THAT(seen, HasSubstr("debug detail"));
}

TEST(Version, IsThatOfTheProject) { EXPECT_THAT(std::string(Version()), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+")); }

// --- reading

TEST_F(BaseFiles, MapsAFile) {
  const fs::path path = folder_ / "f";
  std::ofstream(path) << "hello";
  auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(Text(mapped->bytes()), "hello");
  EXPECT_EQ(mapped->path(), path);
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(mapped->modified_ns(), status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
  mapped->Populate();
}

TEST_F(BaseFiles, AMappingOutlivesFileAndObject) {
  std::ofstream(folder_ / "f") << "hello";
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  {
    const MappedFile mapped = MappedFile::Open(folder_ / "f").value();
    bytes = mapped.bytes();
    owner = mapped.owner();
  }
  fs::remove(folder_ / "f");
  EXPECT_EQ(Text(bytes), "hello");
}

TEST_F(BaseFiles, MapsAnEmptyFileToNothing) {
  std::ofstream(folder_ / "empty").flush();
  const MappedFile mapped = MappedFile::Open(folder_ / "empty").value();
  EXPECT_TRUE(mapped.bytes().empty());
  mapped.Populate();
}

TEST_F(BaseFiles, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::pair<fs::path, std::string> cases[] = {
      {folder_, "it is a folder, expected a file"},
      {folder_ / "pipe", "it is a pipe, expected a file"},
      {"/dev/zero", "it is a device, expected a file"},
  };
  for (const auto& [path, words] : cases) {
    const auto mapped = MappedFile::Open(path);
    ASSERT_FALSE(mapped) << path;
    EXPECT_EQ(mapped.error().message, "cannot read " + path.string() + ": " + words);
    EXPECT_EQ(mapped.error().code, Code::kInvalidRequest);
    const auto read = ReadFile(path, 100);
    ASSERT_FALSE(read) << path;
    EXPECT_EQ(read.error().message, mapped.error().message);
  }
}

TEST_F(BaseFiles, ReadsAPipeWhereThatIsAskedFor) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const size_t limit : {size_t{100}, size_t{3}}) {
    std::thread writer([&] { std::ofstream(pipe) << "hello"; });
    const auto read = ReadFile(pipe, limit, Pipes::kRead);
    writer.join();
    ASSERT_EQ(read.has_value(), limit == 100);
    if (read) {
      EXPECT_EQ(Text(*read), "hello");
    } else {
      EXPECT_EQ(read.error().code, Code::kBodyTooLarge);
    }
  }
  EXPECT_FALSE(ReadFile(folder_, 100, Pipes::kRead));
  EXPECT_FALSE(ReadFile("/dev/zero", 100, Pipes::kRead));
}

TEST_F(BaseFiles, NamesAMissingFile) {
  const auto mapped = MappedFile::Open(folder_ / "none");
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, Code::kNotFound);
  EXPECT_EQ(mapped.error().message, "cannot read " + (folder_ / "none").string() + ": no such file or directory");
}

TEST_F(BaseFiles, ReadsUpToTheLimit) {
  const fs::path path = folder_ / "f";
  std::ofstream(path) << "hello";
  EXPECT_EQ(Text(ReadFile(path, 5).value()), "hello");
  const auto refused = ReadFile(path, 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kBodyTooLarge);
  EXPECT_EQ(refused.error().message, path.string() + " holds more than the limit of 4 bytes");
}

TEST_F(BaseFiles, ReadsFilesWhoseSizeIsNotKnownBefore) {
  EXPECT_THAT(Content("/proc/self/status"), HasSubstr("Threads:"));
}

TEST_F(BaseFiles, ReadsALargeFileWhole) {
  std::string content;
  for (int i = 0; content.size() < 900'000; ++i) content += std::to_string(i);
  ASSERT_TRUE(WriteFileAtomically(folder_ / "f", AsBytes(content)));
  EXPECT_EQ(Content(folder_ / "f"), content);
}

TEST_F(BaseFiles, ADashIsStandardInput) {
  std::ofstream(folder_ / "f") << "from a pipe";
  const int saved = ::dup(STDIN_FILENO);
  const int file = ::open((folder_ / "f").c_str(), O_RDONLY);
  ASSERT_GE(::dup2(file, STDIN_FILENO), 0);
  EXPECT_EQ(Content("-"), "from a pipe");
  ASSERT_EQ(::lseek(STDIN_FILENO, 0, SEEK_SET), 0);
  EXPECT_EQ(ReadFile("-", 3).error().message, "standard input holds more than the limit of 3 bytes");
  ::dup2(saved, STDIN_FILENO);
  ::close(file);
  ::close(saved);
}

// --- writing

TEST_F(BaseFiles, WritesAtOnceOrNotAtAll) {
  const fs::path path = folder_ / "f";
  ASSERT_TRUE(WriteFileAtomically(path, Bytes("old")));
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->Write(Bytes("____ and more")));
    ASSERT_TRUE(file->WriteAt(0, Bytes("head")));
    EXPECT_EQ(file->size(), 13u);
    EXPECT_EQ(Content(path), "old");
    ASSERT_TRUE(file->Commit());
    EXPECT_EQ(Content(path), "head and more");
  }
  EXPECT_EQ(Content(path), "head and more");
  EXPECT_EQ(CountEntries(), 1u);
}

TEST_F(BaseFiles, LeavesNothingBehindWithoutCommit) {
  {
    AtomicFile file = AtomicFile::Create(folder_ / "f").value();
    ASSERT_TRUE(file.Write(Bytes("half")));
    AtomicFile moved = std::move(file);
    ASSERT_TRUE(moved.Write(Bytes(" of it")));
    EXPECT_LE(CountEntries(), 1u);  // file systems without nameless files have a temporary one
  }
  EXPECT_EQ(CountEntries(), 0u);
}

TEST_F(BaseFiles, LeavesNothingBehindWhenKilled) {
  if (const int probe = ::open(folder_.c_str(), O_TMPFILE | O_RDWR, 0600); probe >= 0) {
    ::close(probe);
  } else {
    GTEST_SKIP() << "this file system has no nameless files";
  }
  const pid_t writer = ::fork();
  if (writer == 0) {
    auto file = AtomicFile::Create(folder_ / "f");
    if (file && file->Write(Bytes("half"))) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(CountEntries(), 0u);
}

TEST_F(BaseFiles, TwoWritersOfOnePathDoNotMix) {
  const fs::path path = folder_ / "f";
  AtomicFile first = AtomicFile::Create(path).value();
  AtomicFile second = AtomicFile::Create(path).value();
  ASSERT_TRUE(first.Write(Bytes("first")));
  ASSERT_TRUE(second.Write(Bytes("second")));
  ASSERT_TRUE(second.Commit());
  ASSERT_TRUE(first.Commit());
  EXPECT_EQ(Content(path), "first");
  EXPECT_EQ(CountEntries(), 1u);
}

TEST_F(BaseFiles, WritesUnderTheLongestName) {
  const fs::path path = folder_ / std::string(255, 'n');
  ASSERT_TRUE(WriteFileAtomically(path, Bytes("x")));
  EXPECT_EQ(Content(path), "x");
}

TEST_F(BaseFiles, WritesThroughALink) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "target", Bytes("old")));
  fs::create_symlink(folder_ / "target", folder_ / "link");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "link", Bytes("new")));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Content(folder_ / "target"), "new");
}

TEST_F(BaseFiles, WritesIntoTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_TRUE(WriteFileAtomically("f", Bytes("x")));
  fs::current_path(before);
  EXPECT_EQ(Content(folder_ / "f"), "x");
}

TEST_F(BaseFiles, NeverReplacesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(AtomicFile::Create(folder_ / "pipe").error().message,
            "cannot write " + (folder_ / "pipe").string() + ": it is a pipe, expected a file");
  EXPECT_EQ(AtomicFile::Create(folder_).error().code, Code::kInvalidRequest);
  EXPECT_EQ(AtomicFile::Create(folder_.string() + "/new/").error().code, Code::kInvalidRequest);
  EXPECT_EQ(AtomicFile::Create("/dev/null").error().message, "cannot write /dev/null: it is a device, expected a file");
}

TEST_F(BaseFiles, NamesTheFolderThatIsMissing) {
  const auto file = AtomicFile::Create(folder_ / "none" / "f");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr((folder_ / "none" / "f").string()));
}

TEST_F(BaseFiles, SaysThatAFolderMayNotBeWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(AtomicFile::Create(folder_ / "f").error().code, Code::kNoPermission);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(BaseFiles, AFullDiskIsAnErrorAndKeepsTheOldFile) {
  const fs::path path = folder_ / "f";
  ASSERT_TRUE(WriteFileAtomically(path, Bytes("old")));
  // A size limit makes writing fail as a full disk does, and needs no privilege. It holds for a child only.
  const auto try_large = [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = WriteFileAtomically(path, std::vector<std::byte>(5000));
    ::_exit(!status && status.error().code == Code::kNoSpace ? 0 : 1);
  };
  EXPECT_EXIT(try_large(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(Content(path), "old");
  EXPECT_EQ(CountEntries(), 1u);
}

TEST(CacheFolder, FollowsTheVariables) {
  const ScopedVariable home("HOME", "/home/someone");
  const ScopedVariable own("SIGHTLINE_CACHE", "/own");
  const ScopedVariable xdg("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(CacheFolder().value(), "/own");
  const ScopedVariable no_own("SIGHTLINE_CACHE", "");
  EXPECT_EQ(CacheFolder().value(), "/xdg/sightline");
  const ScopedVariable relative("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(CacheFolder().value(), "/home/someone/.cache/sightline");
  const ScopedVariable no_home("HOME", nullptr);
  EXPECT_THAT(CacheFolder().error().message, HasSubstr("HOME"));
}

// --- digests

TEST(Digests, Sha1OfThePublishedExamples) {  // FIPS 180-4
  Sha1 nothing, abc;
  EXPECT_EQ(nothing.HexDigest(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  abc.Update(AsBytes("a"));
  abc.Update(AsBytes("bc"));
  EXPECT_EQ(abc.HexDigest(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(Digests, Sha256OfThePublishedExamples) {  // FIPS 180-4
  EXPECT_EQ(Sha256Hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(AsBytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 digest;
  digest.Update(AsBytes("a"));
  digest.Update({});
  digest.Update(AsBytes("bc"));
  EXPECT_EQ(digest.HexDigest(), Sha256Hex(AsBytes("abc")));
}

TEST(Digests, Fnv1aOfThePublishedExamples) {
  EXPECT_EQ(Fnv1a64({}), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv1a64(AsBytes("a")), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(Fnv1a64(AsBytes("foobar")), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace sightline
