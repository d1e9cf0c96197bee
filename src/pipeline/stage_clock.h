// Times what a backend does during forward passes, operation by operation.
//
// The best time of a stage is the sum of the best times of its operations, each the best over all passes. Limits of the
// machine are measured as the best of short moments, so a stage of seconds, which something always disturbs, would
// be compared with what it never got. The fastest whole pass and the median say what a user waits.
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

// Times of one thing over all passes.
struct StageTimes {
  double best_ms = 0;           // sum of the best times of its operations
  std::vector<double> pass_ms;  // of each pass
  double gflop = 0;             // of a pass
  double gbyte = 0;             // of weights that come from memory in a pass
  // What memory gave beside each pass; empty: it does not limit.
  std::vector<double> pass_gbytes_per_second = {};

  // `peak_gflops`: what the machine can compute at most, measured in the same run.
  // The share is that of the best time; where memory limits, the median over all passes of each one's share of what was
  // possible beside it: on a shared machine memory is twice as fast in one second as in the next.
  BenchStage Summarize(std::string name, double peak_gflops) const;
};

// One thing after the other. Both were run equally often.
StageTimes operator+(const StageTimes& a, const StageTimes& b);

// Collects what the backend reports during passes that all do the same.
class StageClock {
 public:
  // `prefix` goes before the names of operations.
  StageClock(Backend& backend, std::string prefix) : backend_(backend), prefix_(std::move(prefix)) {}

  // A pass that fails counts for nothing.
  Status Run(FunctionRef<Status()> pass);

  // What passes do between operations (uploads, tables) counts as one more operation.
  StageTimes total() const;
  // Adds one stage for each kind of operation.
  void Append(double peak_gflops, std::vector<BenchStage>* stages) const;

 private:
  struct Best {
    std::vector<Operation> operations;  // in order
    double rest_ms = 0;
  };
  void Keep(std::vector<Operation> operations, double pass_ms);

  Backend& backend_;
  std::string prefix_;
  Best best_;
  std::vector<double> pass_ms_;
  std::map<std::string, std::vector<double>> kind_pass_ms_;
};

}  // namespace sightline
