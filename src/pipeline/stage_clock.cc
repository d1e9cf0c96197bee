#include "pipeline/stage_clock.h"

#include <algorithm>

namespace sightline {

BenchStage StageTimes::Summarize(std::string name, const BenchLimits& limits) const {
  std::vector<double> sorted = ms;
  std::ranges::sort(sorted);
  const double best = sorted.front();
  double least_s = gflop / limits.gflops;
  if (limits.gbytes_per_second > 0) least_s = std::max(least_s, gbyte / limits.gbytes_per_second);
  return {std::move(name), best, sorted[sorted.size() / 2], gflop, gbyte, least_s / (best / 1000)};
}

Status StageClock::Run(FunctionRef<Status()> pass) {
  std::map<std::string, StageTimes> once;
  std::vector<std::string> order;
  backend_.Observe([&](const Operation& operation) {
    StageTimes& times = once[operation.name];
    if (times.ms.empty()) {
      times.ms.push_back(0);
      order.push_back(operation.name);
    }
    times.ms[0] += operation.ms;
    times.gflop += operation.gflop;
  });
  const Stopwatch stopwatch;
  Status status = pass();
  total_.ms.push_back(stopwatch.ms());
  backend_.Observe({});
  total_.gflop = 0;
  for (const std::string& name : order) {
    StageTimes& times = stages_[name];
    if (times.ms.empty()) order_.push_back(name);
    times.ms.push_back(once[name].ms[0]);
    times.gflop = once[name].gflop;
    total_.gflop += times.gflop;
  }
  return status;
}

void StageClock::Append(const BenchLimits& limits, std::vector<BenchStage>* stages) const {
  for (const std::string& name : order_) stages->push_back(stages_.at(name).Summarize(prefix_ + name, limits));
}

}  // namespace sightline
