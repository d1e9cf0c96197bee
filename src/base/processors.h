// What the operating system lets this process use of the machine's processors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/base.h"

namespace sightline {

struct ProcessorLimits {
  int affinity = 1;          // logical CPUs we may run on
  std::optional<int> quota;  // CPUs' worth of time by cgroup, rounded up; none without a limit
  int physical_cores = 1;    // cores behind the logical CPUs

  int threads() const;           // the smallest of the three, at least 1
  std::string sentence() const;  // "2 threads: affinity 2, cgroup quota none, physical cores 2"
};

// Reads cgroup and topology files below `root` ("/" but for tests). What cannot be read limits nothing.
ProcessorLimits ReadProcessorLimits(const std::filesystem::path& root, const std::vector<int>& allowed_cpus);

// Numbers of the logical CPUs this process may run on.
std::vector<int> AllowedCpus();

}  // namespace sightline
