#include "pipeline/stage_clock.h"

#include <algorithm>

namespace sightline {
namespace {

double SumOf(const std::vector<Operation>& operations) {
  double sum = 0;
  for (const Operation& operation : operations) sum += operation.ms;
  return sum;
}

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

BenchStage StageTimes::Summarize(std::string name, double peak_gflops) const {
  const double least_ms = 1000 * gflop / peak_gflops;
  double share = least_ms / best_ms;
  if (!pass_gbytes_per_second.empty()) {
    std::vector<double> shares;
    for (size_t i = 0; i < pass_ms.size(); ++i) {
      shares.push_back(std::max(least_ms, 1000 * gbyte / pass_gbytes_per_second[i]) / pass_ms[i]);
    }
    share = MedianOf(shares);
  }
  return {.name = std::move(name),
          .best_ms = best_ms,
          .fastest_ms = std::ranges::min(pass_ms),
          .median_ms = MedianOf(pass_ms),
          .gflop = gflop,
          .gbyte = gbyte,
          .share_of_limit = share};
}

StageTimes operator+(const StageTimes& a, const StageTimes& b) {
  StageTimes sum{a.best_ms + b.best_ms, a.pass_ms, a.gflop + b.gflop, a.gbyte + b.gbyte};
  std::ranges::transform(a.pass_ms, b.pass_ms, sum.pass_ms.begin(), std::plus<>());
  return sum;
}

Status StageClock::Run(FunctionRef<Status()> pass) {
  std::vector<Operation> operations;
  backend_.Observe([&](const Operation& operation) { operations.push_back(operation); });
  const Stopwatch stopwatch;
  Status status = pass();
  const double pass_ms = stopwatch.ms();
  backend_.Observe({});
  if (status) Keep(std::move(operations), pass_ms);
  return status;
}

void StageClock::Keep(std::vector<Operation> operations, double pass_ms) {
  std::map<std::string, double> kinds;
  for (const Operation& operation : operations) kinds[operation.name] += operation.ms;
  for (const auto& [name, ms] : kinds) kind_pass_ms_[name].push_back(ms);
  const double rest_ms = pass_ms - SumOf(operations);
  if (pass_ms_.empty()) {
    best_ = {std::move(operations), rest_ms};
  } else {
    SIGHTLINE_CHECK(std::ranges::equal(operations, best_.operations, {}, &Operation::name, &Operation::name));
    for (size_t i = 0; i < operations.size(); ++i) {
      best_.operations[i].ms = std::min(best_.operations[i].ms, operations[i].ms);
    }
    best_.rest_ms = std::min(best_.rest_ms, rest_ms);
  }
  pass_ms_.push_back(pass_ms);
}

StageTimes StageClock::total() const {
  StageTimes total{SumOf(best_.operations) + best_.rest_ms, pass_ms_};
  for (const Operation& operation : best_.operations) total.gflop += operation.gflop;
  return total;
}

void StageClock::Append(double peak_gflops, std::vector<BenchStage>* stages) const {
  std::vector<std::string> order;
  std::map<std::string, StageTimes> kinds;
  for (const Operation& operation : best_.operations) {
    StageTimes& kind = kinds[operation.name];
    if (kind.pass_ms.empty()) {
      kind.pass_ms = kind_pass_ms_.at(operation.name);
      order.push_back(operation.name);
    }
    kind.best_ms += operation.ms;
    kind.gflop += operation.gflop;
  }
  for (const std::string& name : order) stages->push_back(kinds.at(name).Summarize(prefix_ + name, peak_gflops));
}

}  // namespace sightline
