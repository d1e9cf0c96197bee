// What a container needs of the machine.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "containers/engine_calls.h"

namespace sightline {
namespace {

constexpr int kOldestDocker = 25;
constexpr int kOldestPodman = 4;
constexpr std::string_view kHugepages = "/dev/hugepages-1G";

struct EngineFound {
  PreflightRow row;
  bool rootless = false;
};

PreflightRow Failed(Code code, std::string name, std::string detail, std::string remedy) {
  return {std::move(name), false, std::move(detail), std::move(remedy), code};
}

int MajorOf(const std::string& version) {
  int major = -1;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

EngineFound LookAtEngine(const EngineOptions& options) {
  const auto engine = ContainerEngine::Find(options);
  if (!engine) {
    return {Failed(engine.error().code, "docker", engine.error().message,
                   "install Docker 25 or newer and join its group: sudo usermod -aG docker $USER, then log in again")};
  }
  const bool docker = engine->kind() == EngineKind::kDocker;
  const std::string name = docker ? "docker" : "podman";
  const auto version = engine->ServerVersion();
  if (!version) {
    return {Failed(version.error().code, name, version.error().message,
                   docker ? "start the daemon, or join its group: sudo usermod -aG docker $USER, then log in again"
                          : "run podman info and follow what it says")};
  }
  const int oldest = docker ? kOldestDocker : kOldestPodman;
  if (MajorOf(*version) < oldest) {
    return {Failed(Code::kUnsupported, name, fmt::format("version {}, expected {} or newer", *version, oldest),
                   fmt::format("update {} to version {} or newer", name, oldest))};
  }
  const bool rootless = engine->IsRootless().value_or(false);
  return {{name, true, *version + (rootless ? " (rootless)" : ""), {}, {}}, rootless};
}

bool HugepagesAreMounted(const std::filesystem::path& root) {
  std::ifstream mounts(root / "proc/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, folder, type;
    if (fields >> device >> folder >> type && folder == kHugepages && type == "hugetlbfs") return true;
  }
  return false;
}

// Judged by the owner, group and other bits alone: inside a rootless container that is all that counts, whoever we are.
bool MayUse(const std::filesystem::path& path, mode_t wanted) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  mode_t bits = status.st_mode;
  if (status.st_uid == ::geteuid()) {
    bits >>= 6;
  } else if (status.st_gid == ::getegid()) {
    bits >>= 3;
  }
  return (bits & wanted) == wanted;
}

constexpr mode_t kReadWrite = 06, kWriteSearch = 03;

PreflightRow LookAtDevices(const std::filesystem::path& root, bool rootless) {
  const std::string name = "tt devices";
  std::error_code ignored;
  if (!std::filesystem::exists(root / "dev/tenstorrent", ignored)) {
    return Failed(Code::kDeviceLost, name, "/dev/tenstorrent is not there",
                  "install the driver tt-kmd and check the card (lspci)");
  }
  const std::vector<int> chips = ChipInventory(root);
  std::vector<int> closed;
  for (const int chip : chips) {
    const bool usable = !rootless || MayUse(root / "dev/tenstorrent" / std::to_string(chip), kReadWrite);
    if (!usable) closed.push_back(chip);
  }
  if (closed.empty()) return {name, true, fmt::format("{} chip(s)", chips.size()), {}, {}};
  return Failed(Code::kNoPermission, name,
                fmt::format("a rootless engine may not read and write /dev/tenstorrent/{}", fmt::join(closed, ", ")),
                "sudo chmod 666 /dev/tenstorrent/* (a udev rule keeps it), or use the rootful engine");
}

PreflightRow LookAtHugepages(const std::filesystem::path& root, bool rootless) {
  if (!HugepagesAreMounted(root)) {
    return Failed(Code::kUnsupported, "hugepages", fmt::format("no hugetlbfs is mounted at {}", kHugepages),
                  "run Tenstorrent's tt-system-tools (hugepages-setup), then look at /proc/mounts");
  }
  if (rootless && !MayUse(root / kHugepages.substr(1), kWriteSearch)) {
    return Failed(Code::kNoPermission, "hugepages", fmt::format("a rootless engine may not write to {}", kHugepages),
                  fmt::format("sudo chmod 1777 {}, or use the rootful engine", kHugepages));
  }
  return {"hugepages", true, std::string(kHugepages), {}, {}};
}

}  // namespace

std::vector<PreflightRow> HostPreflight(const EngineOptions& options, bool need_devices,
                                        const std::filesystem::path& root) {
  const EngineFound engine = LookAtEngine(options);
  std::vector<PreflightRow> rows{engine.row};
  if (!need_devices) return rows;
  rows.push_back(LookAtDevices(root, engine.rootless));
  rows.push_back(LookAtHugepages(root, engine.rootless));
  return rows;
}

}  // namespace sightline
