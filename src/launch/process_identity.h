// Which process a number meant. A number alone is given again after a process has ended: together with the time at
// which the process started, and the boot of the machine that this time counts from, it is not.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sightline {

struct ProcessIdentity {
  pid_t pid = -1;
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  std::string boot{};        // /proc/sys/kernel/random/boot_id; empty where the kernel does not say

  bool operator==(const ProcessIdentity&) const = default;
};

// Nothing when there is no such process, or when it has ended and only waits to be reaped.
std::optional<ProcessIdentity> IdentifyProcess(pid_t pid);

// Whether this very process still runs.
bool IsAlive(const ProcessIdentity& process);

}  // namespace sightline
