// What `sightline bench` prints.
#pragma once

#include <string>

#include "pipeline/pipeline.h"

namespace sightline {

// What the run took and where it ran, beside the bench itself.
struct BenchMachine {
  std::string processor;    // "AMD EPYC 9554 64-Core Processor", as the kernel names it
  double rss_mib = 0;       // after the last pass
  double peak_rss_mib = 0;  // of the whole run, packing included
};

std::string BenchTable(const GazeBench& bench, const BenchMachine& machine);
std::string BenchJson(const GazeBench& bench, const BenchMachine& machine);
std::string BenchTable(const LocateBench& bench, const BenchMachine& machine);
std::string BenchJson(const LocateBench& bench, const BenchMachine& machine);
std::string DriftTable(const LocateDrift& drift, LocatePrecision precision, bool synthetic);
std::string DriftJson(const LocateDrift& drift, LocatePrecision precision, bool synthetic);

}  // namespace sightline
