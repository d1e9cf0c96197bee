// Times what a backend does during forward passes, operation by operation.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "pipeline/pipeline.h"

namespace sightline {

class Stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// What the machine can do at most, measured in the same run.
struct BenchLimits {
  double gflops = 0;
  double gbytes_per_second = 0;  // 0: memory does not limit
};

// Times of one thing over all passes.
struct StageTimes {
  std::vector<double> ms;
  double gflop = 0;
  double gbyte = 0;  // of weights that come from memory

  BenchStage Summarize(std::string name, const BenchLimits& limits) const;
};

// Adds up what the backend reports during a forward pass, by operation.
class StageClock {
 public:
  // `prefix` goes before the names of operations.
  StageClock(Backend& backend, std::string prefix) : backend_(backend), prefix_(std::move(prefix)) {}

  Status Run(FunctionRef<Status()> pass);

  const StageTimes& total() const { return total_; }
  void Append(const BenchLimits& limits, std::vector<BenchStage>* stages) const;

 private:
  Backend& backend_;
  std::string prefix_;
  std::map<std::string, StageTimes> stages_;
  std::vector<std::string> order_;
  StageTimes total_;
};

}  // namespace sightline
