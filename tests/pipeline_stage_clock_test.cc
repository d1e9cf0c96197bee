// What the table of `sightline bench` says of a stage.
#include <gtest/gtest.h>

#include "pipeline/stage_clock.h"

namespace sightline {
namespace {

TEST(StageTimes, ShareIsThatOfTheBestTime) {
  const StageTimes times{.best_ms = 10, .pass_ms = {12, 40, 11}, .gflop = 4};
  const BenchStage stage = times.Summarize("stage", 500);
  EXPECT_DOUBLE_EQ(stage.share_of_limit, 0.8);  // 4 GFLOP at 500 GFLOP/s take 8 ms
  EXPECT_EQ(stage.best_ms, 10);
  EXPECT_EQ(stage.fastest_ms, 11);
  EXPECT_EQ(stage.median_ms, 12);
}

TEST(StageTimes, WhereMemoryLimitsEachPassHasItsOwnLimit) {
  // 8 ms of arithmetic; of memory 20 ms, 10 ms and 5 ms.
  const StageTimes times{
      .best_ms = 9, .pass_ms = {25, 20, 10}, .gflop = 4, .gbyte = 0.5, .pass_gbytes_per_second = {25, 50, 100}};
  EXPECT_DOUBLE_EQ(times.Summarize("step", 500).share_of_limit, 0.8);  // the median of 20/25, 10/20, 8/10
}

}  // namespace
}  // namespace sightline
