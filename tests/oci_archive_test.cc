// Archives from strangers: what is unpacked, and all that is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "oci/oci.h"
#include "tests/support/fake_program.h"
#include "tests/support/tar_archive.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;
using testing::Member;
using testing::Padded;
using testing::Tar;
using testing::TarHeader;
using testing::TarMember;

std::string ReadText(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Gives the bytes in pieces of odd sizes.
class Pieces {
 public:
  explicit Pieces(const std::string& bytes) : bytes_(bytes) {}
  Result<size_t> operator()(std::span<std::byte> to) {
    const size_t count = std::min({to.size(), bytes_.size() - at_, size_t{977}});
    std::copy_n(AsBytes(bytes_).begin() + static_cast<std::ptrdiff_t>(at_), count, to.begin());
    at_ += count;
    return count;
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

class ArchiveTest : public ::testing::Test {
 protected:
  // A folder inside another, so that what escapes is seen.
  std::filesystem::path folder() const { return outer_.path() / "inner"; }

  Result<UnpackReport> Unpack(const std::string& archive, const UnpackLimits& limits = {}) {
    Pieces pieces(archive);
    return UnpackArchive(pieces, folder(), limits);
  }
  std::string Refusal(const std::string& archive, const UnpackLimits& limits = {}) {
    std::filesystem::remove_all(folder());
    const auto report = Unpack(archive, limits);
    EXPECT_FALSE(report);
    if (report) return "";
    EXPECT_EQ(report.error().code, Code::kInvalidRequest) << report.error().message;
    return report.error().message;
  }
  // Only the inner folder is there.
  void ExpectNothingEscaped() {
    for (const auto& entry : std::filesystem::directory_iterator(outer_.path())) {
      EXPECT_EQ(entry.path().filename(), "inner");
    }
  }

  TemporaryFolder outer_;
};

const TarMember kFolder{.name = "d/", .type = '5', .mode = 0755};

TEST_F(ArchiveTest, FilesFoldersAndLinksComeOut) {
  const auto report =
      Unpack(Tar(kFolder, TarMember{"d/a", "hello"}, TarMember{.name = "./d/run", .content = "x", .mode = 04755},
                 TarMember{.name = "d/link", .type = '2', .target = "../d/a"},
                 TarMember{.name = "hard", .type = '1', .target = "d/a"}, TarMember{"deep/er/b", "y"},
                 TarMember{std::string(150, 'n'), "long"}, TarMember{"s\\x2d\xC3\xBC", "odd"}));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->entries, 8u);
  EXPECT_EQ(report->bytes, 14u);
  EXPECT_EQ(ReadText(folder() / "d/a"), "hello");
  EXPECT_EQ(ReadText(folder() / "d/link"), "hello");
  EXPECT_EQ(std::filesystem::hard_link_count(folder() / "hard"), 2u);
  EXPECT_EQ(ReadText(folder() / "deep/er/b"), "y");
  EXPECT_EQ(ReadText(folder() / std::string(150, 'n')), "long");
  EXPECT_EQ(ReadText(folder() / "s\\x2d\xC3\xBC"), "odd");
  struct stat status {};
  ::stat((folder() / "d/run").c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777u, 0755u);  // without the set-uid bit
}

TEST_F(ArchiveTest, DigestsAreOfAllBytes) {
  const std::string archive = Tar(TarMember{"a", "b"}) + std::string(10'000, '\0');
  const auto report = Unpack(archive);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->digest, "sha256:" + Sha256Hex(AsBytes(archive)));
  EXPECT_EQ(report->plain_digest, report->digest);
}

TEST_F(ArchiveTest, CompressedOnesToo) {
  std::ofstream(outer_.path() / "inner.tar") << Tar(TarMember{"a", "content"});
  for (const char* program : {"gzip", "zstd", "xz", "bzip2"}) {
    const std::string script = std::string(program) + " -c < inner.tar > inner.packed 2>/dev/null";
    if (std::system(("cd " + outer_.path().string() + " && " + script).c_str()) != 0) continue;  // is not installed
    std::filesystem::remove_all(folder());
    const auto report = UnpackArchiveFile(outer_.path() / "inner.packed", folder());
    ASSERT_TRUE(report) << program << ": " << report.error().message;
    EXPECT_EQ(ReadText(folder() / "a"), "content");
    EXPECT_EQ(report->plain_digest, "sha256:" + Sha256Hex(AsBytes(ReadText(outer_.path() / "inner.tar"))));
    EXPECT_NE(report->digest, report->plain_digest);
  }
}

// Case 59, and all its relatives.
TEST_F(ArchiveTest, WhatLeadsOutIsRefused) {
  const std::pair<TarMember, const char*> members[] = {
      {{"../x", "y"}, "leads out of its folder (..)"},
      {{"/x", "y"}, "has an absolute name"},
      {{"//x", "y"}, "has an absolute name"},
      {{"a/../../x", "y"}, "leads out of its folder (..)"},
      {{"a/..", "y"}, "leads out of its folder (..)"},
      {{"..", "y"}, "leads out of its folder (..)"},
      {{"", "y"}, "has no name"},
      {{".", "y"}, "without a name"},
      {{"a\nb", "y"}, "control bytes"},
      {{std::string(300, 'x'), "y"}, "name that is too long"},
      {{.name = "l", .type = '2', .target = "/etc/passwd"}, "is a link to the absolute name /etc/passwd"},
      {{.name = "l", .type = '2', .target = ".."}, "is a link that leads out of its folder"},
      {{.name = "l", .type = '2', .target = "../x"}, "is a link that leads out of its folder"},
      {{.name = "a/b/l", .type = '2', .target = "../../../x"}, "is a link that leads out of its folder"},
      {{.name = "l", .type = '2', .target = "a/../../x"}, "goes up behind another name"},
      {{.name = "l", .type = '2', .target = "a/.."}, "goes up behind another name"},
      {{.name = "l", .type = '2'}, "is a link to nothing"},
      {{.name = "h", .type = '1', .target = "../x"}, "is a hard link that leads out"},
      {{.name = "h", .type = '1', .target = "/etc/passwd"}, "is a hard link that leads out"},
      {{.name = "h", .type = '1', .target = "nowhere"}, "is no file of this archive"},
      {{.name = "c", .type = '3'}, "is a device, a pipe or a socket"},
      {{.name = "b", .type = '4'}, "is a device, a pipe or a socket"},
      {{.name = "p", .type = '6'}, "is a device, a pipe or a socket"},
  };
  for (const auto& [member, reason] : members) {
    EXPECT_THAT(Refusal(Tar(member)), HasSubstr(reason)) << member.name << " " << member.target;
    ExpectNothingEscaped();
  }
}

TEST_F(ArchiveTest, NothingIsWrittenThroughALink) {
  const TarMember here{.name = "l", .type = '2', .target = "."};
  EXPECT_THAT(Refusal(Tar(here, TarMember{"l/x", "y"})), HasSubstr("would be written through l"));
  EXPECT_THAT(Refusal(Tar(here, TarMember{"l", "y"})), HasSubstr("comes twice"));
  EXPECT_THAT(Refusal(Tar(here, TarMember{.name = "l/", .type = '5'})), HasSubstr("is a file here and a folder there"));
  EXPECT_THAT(Refusal(Tar(here, TarMember{.name = "h", .type = '1', .target = "l"})),
              HasSubstr("is no file of this archive"));
  EXPECT_THAT(Refusal(Tar(here, TarMember{.name = "h", .type = '1', .target = "l/l"})), HasSubstr("through l"));
  EXPECT_THAT(Refusal(Tar(here, TarMember{.name = "l/m", .type = '2', .target = "x"})), HasSubstr("through l"));
}

TEST_F(ArchiveTest, NamesComeOnce) {
  EXPECT_THAT(Refusal(Tar(TarMember{"a", "1"}, TarMember{"a", "2"})), HasSubstr("archive member a: comes twice"));
  EXPECT_EQ(ReadText(folder() / "a"), "1");
  EXPECT_THAT(Refusal(Tar(TarMember{"a", "1"}, TarMember{"./a", "2"})), HasSubstr("comes twice"));
  EXPECT_THAT(Refusal(Tar(TarMember{"a", "1"}, TarMember{"a/b", "2"})), HasSubstr("through a"));
  EXPECT_THAT(Refusal(Tar(kFolder, TarMember{"d", "2"})), HasSubstr("is a file here and a folder there"));
  EXPECT_TRUE(
      Unpack(Tar(TarMember{"x/a", "1"}, TarMember{.name = "x/", .type = '5'}, TarMember{.name = "x", .type = '5'})));
}

TEST_F(ArchiveTest, BombsAreRefused) {
  UnpackLimits limits;
  limits.max_entries = 3;
  EXPECT_THAT(Refusal(Tar(TarMember{"a"}, TarMember{"b"}, TarMember{"c"}, TarMember{"d"}), limits),
              HasSubstr("has more than 3 members"));
  limits = {};
  limits.max_bytes = 10;
  EXPECT_THAT(Refusal(Tar(TarMember{"a", "12345"}, TarMember{"b", "678901"}), limits),
              HasSubstr("holds more than 10 bytes"));
  limits = {};
  limits.max_depth = 2;
  EXPECT_THAT(Refusal(Tar(TarMember{"a/b/c"}), limits), HasSubstr("more than 2 folders deep"));
  // 80 MB of zeros in 80 KB, and the same twice compressed.
  const std::string script = "cd " + outer_.path().string() +
                             " && truncate -s 80M zeros && tar cf - zeros | gzip -9 > bomb.gz && gzip -9 < bomb.gz > "
                             "bomb2.gz && rm zeros";
  ASSERT_EQ(std::system(script.c_str()), 0);
  limits = {};
  limits.max_ratio = 100;
  auto report = UnpackArchiveFile(outer_.path() / "bomb.gz", folder(), limits);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("unpacks to more than 100 times its size"));
  std::filesystem::remove_all(folder());
  report = UnpackArchiveFile(outer_.path() / "bomb2.gz", folder());
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("unpacks to more than 1000 times its size"));
}

TEST_F(ArchiveTest, DamageIsAnError) {
  const std::string good = Tar(TarMember{"a", std::string(3000, 'x')}, TarMember{"b", "y"});
  for (size_t length = 0; length < good.size(); length += 61) {
    std::filesystem::remove_all(folder());
    const auto report = Unpack(good.substr(0, length));
    EXPECT_FALSE(report && std::filesystem::exists(folder() / "a") && length < 3512) << length;
  }
  std::string broken = good;
  broken[0] = 'Z';
  EXPECT_THAT(Refusal(broken), HasSubstr("no tar archive, or damaged"));
  EXPECT_THAT(Refusal("PK\3\4 this is no tar archive at all, but it has some bytes in it"),
              HasSubstr("no tar archive"));
}

TEST_F(ArchiveTest, SparseFilesAreRefused) {
  TarMember sparse{.name = "s", .content = "x", .type = 'S'};
  sparse.magic = "ustar  ";
  std::string bytes = Member(sparse);
  bytes.replace(386, 24,
                "00001000000\0"
                "00000000001\0",
                24);  // one byte at 256 KiB
  bytes.replace(483, 12, "00077777777\0", 12);
  unsigned sum = 0;
  bytes.replace(148, 8, "        ");
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[i]);
  bytes.replace(148, 8, testing::Octal(sum, 6) + std::string("\0 ", 2));
  EXPECT_THAT(Refusal(bytes + std::string(1024, '\0')),
              ::testing::AnyOf(HasSubstr("is a sparse file"), HasSubstr("damaged")));
}

TEST_F(ArchiveTest, SourceErrorsComeThrough) {
  int calls = 0;
  const auto source = [&calls](std::span<std::byte> bytes) -> Result<size_t> {
    if (++calls > 1) return Fail(Code::kUnreachable, "the line broke");
    const std::string archive = Tar(TarMember{"a", std::string(100'000, 'x')});
    std::copy_n(AsBytes(archive).begin(), 5000, bytes.begin());
    return size_t{5000};
  };
  const auto report = UnpackArchive(source, folder());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "the line broke");
}

TEST_F(ArchiveTest, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  TransferOptions options;
  options.stop = stop.get_token();
  const std::string archive = Tar(TarMember{"a", "b"});
  Pieces pieces(archive);
  EXPECT_EQ(UnpackArchive(pieces, folder(), {}, options).error().code, Code::kCancelled);
}

// ---------------------------------------------------------------------------------------------------------------------
// Exports

class ExportTest : public ArchiveTest {
 protected:
  ExportTest() {
    std::filesystem::create_directories(from() / "code/empty");
    std::ofstream(from() / "README.md") << "# read me";
    std::ofstream(from() / "code/run.sh") << "#!/bin/sh\n";
    std::filesystem::permissions(from() / "code/run.sh", std::filesystem::perms(0755));
    std::ofstream(from() / "blob") << "shared";
    std::filesystem::create_symlink("../blob", from() / "code/link");
    std::ofstream(from() / std::string(200, 'n')) << "long name";
  }
  std::filesystem::path from() const { return outer_.path() / "from"; }
  std::filesystem::path file() const { return outer_.path() / "package.sightline"; }
};

TEST_F(ExportTest, ComesBackAsItWas) {
  ASSERT_TRUE(ExportFolder(from(), file(), {{"id", "me/gaze"}, {"revision", "ü"}}));
  const auto notes = ReadExportNotes(file());
  ASSERT_TRUE(notes) << notes.error().message;
  EXPECT_EQ(notes->at("id"), "me/gaze");
  const auto imported = ImportFolder(file(), folder());
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(*imported, *notes);
  EXPECT_EQ(ReadText(folder() / "README.md"), "# read me");
  EXPECT_EQ(ReadText(folder() / "code/link"), "shared");
  EXPECT_FALSE(std::filesystem::is_symlink(folder() / "code/link"));
  EXPECT_EQ(ReadText(folder() / std::string(200, 'n')), "long name");
  EXPECT_TRUE(std::filesystem::is_directory(folder() / "code/empty"));
  EXPECT_FALSE(std::filesystem::exists(folder() / "sightline-export.json"));
  const auto mode = std::filesystem::status(folder() / "code/run.sh").permissions();
  EXPECT_NE(mode & std::filesystem::perms::owner_exec, std::filesystem::perms::none);
}

TEST_F(ExportTest, SameFolderSameBytes) {
  ASSERT_TRUE(ExportFolder(from(), file(), {}));
  const std::string first = ReadText(file());
  std::filesystem::last_write_time(from() / "README.md", std::filesystem::file_time_type::clock::now());
  ASSERT_TRUE(ExportFolder(from(), file(), {}));
  EXPECT_EQ(ReadText(file()), first);
}

TEST_F(ExportTest, EveryFlippedByteIsFound) {
  ASSERT_TRUE(ExportFolder(from(), file(), {}));
  const std::string good = ReadText(file());
  int accepted = 0;
  for (size_t at = 0; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(file(), std::ios::binary) << bad;
    std::filesystem::remove_all(folder());
    const auto imported = ImportFolder(file(), folder());
    EXPECT_EQ(imported.has_value(), std::filesystem::exists(folder()));
    if (!imported) continue;
    ++accepted;  // padding
    EXPECT_EQ(ReadText(folder() / "README.md"), "# read me");
  }
  EXPECT_LT(accepted, static_cast<int>(good.size() / 97));
}

TEST_F(ExportTest, WhatIsNoExportIsRefused) {
  std::ofstream(file()) << Tar(TarMember{"a", "b"});
  EXPECT_THAT(ImportFolder(file(), folder()).error().message,
              HasSubstr("sightline-export.json is not its first member"));
  EXPECT_FALSE(std::filesystem::exists(folder()));
  const std::string list = R"({"format":1,"notes":{},"files":[]})";
  std::ofstream(file()) << Tar(TarMember{"sightline-export.json", list}, TarMember{"extra", "x"});
  EXPECT_THAT(ImportFolder(file(), folder()).error().message, HasSubstr("extra is not in its list"));
  std::ofstream(file()) << Tar(TarMember{"sightline-export.json", R"({"format":2})"});
  EXPECT_EQ(ImportFolder(file(), folder()).error().code, Code::kUnsupported);
  std::ofstream(file()) << "nothing";
  EXPECT_THAT(ReadExportNotes(file()).error().message, HasSubstr("is no export of sightline"));
  EXPECT_EQ(ReadExportNotes(outer_.path() / "none").error().code, Code::kNotFound);
}

TEST_F(ExportTest, FullFoldersAreNotTouched) {
  ASSERT_TRUE(ExportFolder(from(), file(), {}));
  std::filesystem::create_directories(folder());
  std::ofstream(folder() / "mine") << "x";
  EXPECT_THAT(ImportFolder(file(), folder()).error().message, HasSubstr("is not empty"));
  EXPECT_TRUE(std::filesystem::exists(folder() / "mine"));
}

}  // namespace
}  // namespace sightline
