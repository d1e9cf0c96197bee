// What a container needs of the machine, on machines of our own making.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "containers/containers.h"
#include "tests/support/fake_program.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGoodMounts = "nodev /dev/hugepages-1G hugetlbfs rw,relatime,pagesize=1024M 0 0\n";

// A root folder with two chips and huge pages, and a docker that answers.
class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    std::filesystem::create_directories(root() / "dev/tenstorrent");
    std::filesystem::create_directories(root() / "dev/hugepages-1G");
    std::filesystem::create_directories(root() / "proc");
    for (const char* name : {"0", "1", "by-id"}) std::ofstream(root() / "dev/tenstorrent" / name) << "";
    Mounts(kGoodMounts);
    Version("25.0.0");
  }

  const std::filesystem::path& root() const { return root_.path(); }
  void Mounts(const std::string& text) { std::ofstream(root() / "proc/mounts") << "proc /proc proc rw 0 0\n" << text; }
  void Version(const std::string& version, const std::string& security = "[name=seccomp,profile=builtin]") {
    fake_.Answer("case \"$1\" in version) echo " + version + ";; info) echo '" + security + "';; esac");
  }
  // Owner and mode of a chip's node, or of the huge pages' folder.
  void Grant(const std::string& path, uid_t owner, gid_t group, mode_t mode) {
    ASSERT_EQ(::chown((root() / path).c_str(), owner, group), 0);
    ASSERT_EQ(::chmod((root() / path).c_str(), mode), 0);
  }
  std::vector<PreflightRow> Rows(bool need_devices = true) { return HostPreflight({}, need_devices, root()); }
  PreflightRow Row(const std::string& name) {
    for (PreflightRow& row : Rows()) {
      if (row.name == name) return row;
    }
    ADD_FAILURE() << "there is no row " << name;
    return {};
  }

  TemporaryFolder root_;
  FakeProgram fake_{"docker"};
};

TEST_F(HostTest, EverythingIsThere) {
  const auto rows = Rows();
  ASSERT_EQ(rows.size(), 3u);
  for (const PreflightRow& row : rows) {
    EXPECT_TRUE(row.passed) << row.name << ": " << row.detail;
    EXPECT_THAT(row.remedy, IsEmpty());
  }
  EXPECT_EQ(rows[0].name, "docker");
  EXPECT_EQ(rows[0].detail, "25.0.0");
  EXPECT_EQ(rows[1].name, "tt devices");
  EXPECT_EQ(rows[1].detail, "2 chip(s)");
  EXPECT_EQ(rows[2].name, "hugepages");
}

// Case 42.
TEST_F(HostTest, DockerMustBeNewEnough) {
  Version("24.0.7");
  PreflightRow row = Row("docker");
  EXPECT_FALSE(row.passed);
  EXPECT_EQ(row.detail, "version 24.0.7, expected 25 or newer");
  EXPECT_THAT(row.remedy, HasSubstr("update docker"));
  Version("28.2.2");
  EXPECT_TRUE(Row("docker").passed);
  fake_.Answer("echo 'Cannot connect to the Docker daemon' >&2; exit 1");
  row = Row("docker");
  EXPECT_FALSE(row.passed);
  EXPECT_THAT(row.detail, HasSubstr("its daemon does not answer"));
}

TEST(HostWithoutDockerTest, TellsOfItsGroup) {
  const FakeProgram fake("something");
  const auto rows = HostPreflight({}, false);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "docker");
  EXPECT_FALSE(rows[0].passed);
  EXPECT_THAT(rows[0].remedy, HasSubstr("usermod -aG docker"));
}

TEST(HostWithPodmanTest, PodmanCountsItsOwnVersions) {
  FakeProgram fake("podman");
  fake.Answer("case \"$1\" in version) echo 4.3.1;; info) echo true;; esac");
  const auto rows = HostPreflight({}, false);
  EXPECT_EQ(rows[0].name, "podman");
  EXPECT_TRUE(rows[0].passed);
  EXPECT_EQ(rows[0].detail, "4.3.1 (rootless)");
  fake.Answer("echo 3.0.1");
  EXPECT_FALSE(HostPreflight({}, false)[0].passed);
}

// Case 43.
TEST_F(HostTest, HugepagesAreWantedExactlyThere) {
  for (const char* mounts :
       {"", "nodev /dev/hugepages hugetlbfs rw 0 0\n", "nodev /dev/hugepages-1G/sub hugetlbfs rw 0 0\n",
        "tmpfs /dev/hugepages-1G tmpfs rw 0 0\n", "nodev /dev/hugepages-1GB hugetlbfs rw 0 0\n"}) {
    Mounts(mounts);
    EXPECT_FALSE(Row("hugepages").passed) << mounts;
  }
}

// Case 44.
TEST_F(HostTest, WithoutDevicesOnlyTheEngineCounts) {
  Mounts("");
  const auto rows = Rows(/*need_devices=*/false);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "docker");
}

TEST_F(HostTest, MissingDevicesAreNamed) {
  std::filesystem::remove_all(root() / "dev/tenstorrent");
  EXPECT_EQ(Row("tt devices").detail, "/dev/tenstorrent is not there");
}

// Case 45. Judged by the bits alone, even for root.
TEST_F(HostTest, RootlessEnginesNeedOpenNodes) {
  if (::geteuid() != 0) GTEST_SKIP() << "giving files to another user needs root";
  const uid_t other = 12345;
  for (const char* node : {"dev/tenstorrent/0", "dev/tenstorrent/1"}) Grant(node, other, other, 0660);
  Grant("dev/hugepages-1G", other, other, 01777);
  EXPECT_TRUE(Row("tt devices").passed);  // rootful
  Version("25.0.0", "[name=seccomp name=rootless]");
  EXPECT_EQ(Row("docker").detail, "25.0.0 (rootless)");
  EXPECT_FALSE(Row("tt devices").passed);
  EXPECT_THAT(Row("tt devices").detail, HasSubstr("/dev/tenstorrent/0, 1"));
  Grant("dev/tenstorrent/0", other, other, 0666);
  EXPECT_THAT(Row("tt devices").detail, HasSubstr("/dev/tenstorrent/1"));
  Grant("dev/tenstorrent/1", ::geteuid(), other, 0660);  // ours
  EXPECT_TRUE(Row("tt devices").passed);
  Grant("dev/tenstorrent/1", other, ::getegid(), 0660);  // our group's
  EXPECT_TRUE(Row("tt devices").passed);
  Grant("dev/tenstorrent/1", ::geteuid(), other, 0066);  // everybody's but ours
  EXPECT_FALSE(Row("tt devices").passed);
  EXPECT_TRUE(Row("hugepages").passed);
  Grant("dev/hugepages-1G", other, other, 0755);
  EXPECT_FALSE(Row("hugepages").passed);
}

// ---------------------------------------------------------------------------------------------------------------------
// Chips

TEST_F(HostTest, InventoryIsTheNumbers) {
  for (const char* name : {"10", "2", "-1", "+3", "4x", ""}) {
    if (*name != 0) std::ofstream(root() / "dev/tenstorrent" / name) << "";
  }
  EXPECT_THAT(ChipInventory(root()), ElementsAre(0, 1, 2, 10));
  EXPECT_THAT(ChipInventory(root() / "nowhere"), IsEmpty());
}

ContainerState Labelled(const std::string& chips) {
  ContainerState state;
  state.labels = {{std::string(kDevicesLabel), chips}};
  state.ipc_mode = "private";
  return state;
}

ContainerState Sharing(std::vector<std::string> devices, std::vector<std::string> mounts = {}) {
  ContainerState state;
  state.ipc_mode = "host";
  state.device_paths = std::move(devices);
  state.mount_sources = std::move(mounts);
  return state;
}

const std::vector<int> kFour{0, 1, 2, 3};

TEST(ChipsTest, LabelsClaim) {
  EXPECT_THAT(ClaimedChips({Labelled("0,2")}, kFour), ElementsAre(0, 2));
  EXPECT_THAT(ClaimedChips({Labelled("garbage,1,-2,")}, kFour), ElementsAre(1));
  EXPECT_THAT(ClaimedChips({}, kFour), IsEmpty());
}

TEST(ChipsTest, DevicesAndMountsClaimOnlyWithTheHostsIpc) {
  EXPECT_THAT(ClaimedChips({Sharing({"/dev/tenstorrent/1"}, {"/dev/tenstorrent/3"})}, kFour), ElementsAre(1, 3));
  ContainerState apart = Sharing({"/dev/tenstorrent/1"});
  apart.ipc_mode = "private";
  apart.privileged = true;
  EXPECT_THAT(ClaimedChips({apart}, kFour), IsEmpty());
}

TEST(ChipsTest, FoldersAndPrivilegeClaimAll) {
  for (const char* path : {"/dev/tenstorrent", "/dev/tenstorrent/", "/dev", "/", "/dev/./tenstorrent"}) {
    EXPECT_THAT(ClaimedChips({Sharing({}, {path})}, kFour), ElementsAre(0, 1, 2, 3)) << path;
  }
  for (const char* path : {"/dev/tenstorrent2", "/dev/tenst", "/dev/hugepages-1G", "/home", "/dev/tenstorrent/x"}) {
    EXPECT_THAT(ClaimedChips({Sharing({}, {path})}, kFour), IsEmpty()) << path;
  }
  ContainerState privileged = Sharing({});
  privileged.privileged = true;
  EXPECT_THAT(ClaimedChips({privileged}, kFour), ElementsAre(0, 1, 2, 3));
}

TEST(ChipsTest, IpcChainsAreFollowed) {
  ContainerState host = Sharing({});
  host.id = "aaaa1111";
  ContainerState joined = Sharing({"/dev/tenstorrent/0"});
  joined.id = "bbbb2222";
  joined.ipc_mode = "container:aaaa1111";
  EXPECT_THAT(ClaimedChips({host, joined}, kFour), ElementsAre(0));
  host.ipc_mode = "shareable";
  EXPECT_THAT(ClaimedChips({host, joined}, kFour), IsEmpty());
  EXPECT_THAT(ClaimedChips({joined}, kFour), ElementsAre(0));  // leads nowhere
  host.ipc_mode = "container:bbbb2222";
  EXPECT_THAT(ClaimedChips({host, joined}, kFour), ElementsAre(0));  // leads in a circle
}

TEST(ChipsTest, LowestFreeOnesArePicked) {
  EXPECT_THAT(*PickChips(2, kFour, {0, 2}), ElementsAre(1, 3));
  const auto busy = PickChips(3, kFour, {0, 2});
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Code::kBusy);
  EXPECT_THAT(busy.error().message, HasSubstr("in use by other containers: 0, 2"));
  EXPECT_EQ(PickChips(5, kFour, {}).error().code, Code::kDeviceLost);
}

TEST(ChipsTest, AskedForChipsAreChecked) {
  EXPECT_THAT(*ParseChips("2,0", 2, kFour, {1}), ElementsAre(2, 0));
  const std::pair<const char*, const char*> wrong[] = {{"", "not a whole number"},
                                                       {"a", "not a whole number"},
                                                       {"-1", "not a whole number"},
                                                       {"1,1", "names 1 twice"},
                                                       {"1", "names 1 chip(s), the profile needs 2"},
                                                       {"0,9", "/dev/tenstorrent/9 is not there"},
                                                       {"0,1", "chip 1 is in use"},
                                                       {"99999999999,1", "not a whole number"},
                                                       {"0,", "not a whole number"}};
  for (const auto& [text, reason] : wrong) {
    const auto chips = ParseChips(text, 2, kFour, {1});
    ASSERT_FALSE(chips) << text;
    EXPECT_THAT(chips.error().message, HasSubstr(reason)) << text;
  }
}

}  // namespace
}  // namespace sightline
