#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

namespace sightline {
namespace {

using std::filesystem::path;

// A control group as /proc/self/cgroup names it.
struct Group {
  bool v2;
  path name;  // from the mount point, "/a/b"
};

// Lines are "number:controllers:path"; number 0 without controllers is v2, for v1 the "cpu" controller matters.
std::vector<Group> ReadGroups(const path& root) {
  std::vector<Group> groups;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const path name = path(line.substr(second + 1)).lexically_normal();
    if (controllers.empty()) groups.push_back({true, name});
    if (("," + controllers + ",").find(",cpu,") != std::string::npos) groups.push_back({false, name});
  }
  return groups;
}

std::string ReadText(const path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Whole CPUs that cover quota / period (both in microseconds); none where there is no limit or no sense in it.
std::optional<int> RoundUp(const std::string& quota_and_period) {
  std::istringstream text(quota_and_period);
  int64_t quota = 0;
  int64_t period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // v2 says "max", v1 says -1
  const int64_t cpus = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<int>(std::min<int64_t>(cpus, 1 << 20));
}

std::optional<int> QuotaOfFolder(const path& folder, bool v2) {
  if (v2) return RoundUp(ReadText(folder / "cpu.max"));
  return RoundUp(ReadText(folder / "cpu.cfs_quota_us") + " " + ReadText(folder / "cpu.cfs_period_us"));
}

std::optional<int> Smaller(std::optional<int> a, std::optional<int> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// Every group from ours up to the root may limit us. Inside a container the names may be those of the host, whose
// folders do not exist here; the mount point is then the container's own group.
std::optional<int> QuotaOfGroup(const path& mount, const Group& group) {
  std::optional<int> quota;
  path name = group.name.relative_path();
  while (true) {
    quota = Smaller(quota, QuotaOfFolder(mount / name, group.v2));
    if (name.empty()) return quota;
    name = name.parent_path();
  }
}

std::optional<int> ReadQuota(const path& root) {
  const path cgroup = root / "sys/fs/cgroup";
  std::optional<int> quota;
  for (const Group& group : ReadGroups(root)) {
    const std::vector<path> mounts = group.v2 ? std::vector<path>{cgroup, cgroup / "unified"}
                                              : std::vector<path>{cgroup / "cpu", cgroup / "cpu,cpuacct"};
    for (const path& mount : mounts) quota = Smaller(quota, QuotaOfGroup(mount, group));
  }
  return quota;
}

// Distinct (package, core) pairs; a CPU that does not tell counts as a core of its own.
int CountPhysicalCores(const path& root, const std::vector<int>& allowed_cpus) {
  std::set<std::pair<int, int>> cores;
  int untold = 0;
  for (const int cpu : allowed_cpus) {
    const path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    std::istringstream text(ReadText(topology / "physical_package_id") + " " + ReadText(topology / "core_id"));
    int package = 0;
    int core = 0;
    if (text >> package >> core) {
      cores.emplace(package, core);
    } else {
      ++untold;
    }
  }
  return std::max(1, static_cast<int>(cores.size()) + untold);
}

}  // namespace

int ProcessorLimits::threads() const {
  return std::max(1, std::min({affinity, quota.value_or(affinity), physical_cores}));
}

std::string ProcessorLimits::sentence() const {
  return std::to_string(threads()) + (threads() == 1 ? " thread" : " threads") + ": affinity " +
         std::to_string(affinity) + ", cgroup quota " + (quota ? std::to_string(*quota) : "none") +
         ", physical cores " + std::to_string(physical_cores);
}

ProcessorLimits ReadProcessorLimits(const path& root, const std::vector<int>& allowed_cpus) {
  ProcessorLimits limits;
  limits.affinity = std::max(1, static_cast<int>(allowed_cpus.size()));
  limits.quota = ReadQuota(root);
  limits.physical_cores = CountPhysicalCores(root, allowed_cpus);
  return limits;
}

std::vector<int> AllowedCpus() {
  // The kernel refuses a set smaller than its own, whose size it does not tell.
  for (size_t capacity = 1024; capacity <= (size_t{1} << 20); capacity *= 2) {
    std::vector<cpu_set_t> set(capacity / (8 * sizeof(cpu_set_t)));
    const size_t bytes = set.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, set.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (size_t cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.data())) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  std::vector<int> all(std::max(1u, std::thread::hardware_concurrency()));
  for (size_t cpu = 0; cpu < all.size(); ++cpu) all[cpu] = static_cast<int>(cpu);
  return all;
}

int DefaultThreadCount(std::string* why) {
  const ProcessorLimits limits = ReadProcessorLimits("/", AllowedCpus());
  if (why != nullptr) *why = limits.sentence();
  return limits.threads();
}

}  // namespace sightline
