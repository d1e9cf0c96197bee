// Heads of a projection, the cache of keys and values, and attention over it.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tests/backend_targets.h"

namespace sightline {
namespace {

struct HeadShape {
  int heads, key_heads, size;
  int64_t columns() const { return int64_t{size} * (heads + 2 * key_heads); }
  int64_t width() const { return int64_t{size} * heads; }
};

// One step of attention: rows of a projection that go to positions from `position` on, and what they see.
struct Step {
  int64_t rows = 0;
  int64_t position = 0;
  Mask mask;
};

struct Angles {
  RopePairs pairs = RopePairs::kHalves;
  std::vector<float> cosine, sine;

  // Of positions [first, first + rows); none for size 0.
  Rope Of(int64_t first, int64_t rows, int size) const {
    if (cosine.empty()) return {};
    const auto at = static_cast<size_t>(first * size / 2), count = static_cast<size_t>(rows * size / 2);
    return {pairs, std::span(cosine).subspan(at, count), std::span(sine).subspan(at, count)};
  }
};

Angles MakeAngles(RopePairs pairs, int64_t positions, int size) {
  Angles angles{pairs, {}, {}};
  for (const float angle : Noise(positions * size / 2, 3, 77)) {
    angles.cosine.push_back(std::cos(angle));
    angles.sine.push_back(std::sin(angle));
  }
  return angles;
}

bool Sees(const Mask& mask, int64_t row, int64_t key) {
  if (row < mask.causal_rows) return key <= mask.first_key + row;
  return key < mask.keys && key != mask.hidden_key.value_or(-1);
}

class Heads : public testing::TestWithParam<Target> {
 protected:
  const Precision precision_ = GetParam().precision;
  const std::unique_ptr<Backend> backend_ = GetParam().Make(2);
  const Storage storage_ = backend_->AttentionStorage(precision_);
  const bool bf16_ = storage_ == Storage::kOperandBF16;
  // Rounding of queries, keys, weights and the result moves a mean of values of size 1 by a few roundings.
  const double tolerance_ = bf16_ ? 8 * 0x1p-8 : 5e-6;

  double Stored(double value) const {
    const auto rounded = static_cast<float>(value);
    return bf16_ ? FloatFromBF16(BF16FromFloat(rounded)) : rounded;
  }

  std::vector<float> Run(const std::vector<float>& projected, const HeadShape& shape, const Step& step,
                         const Angles& angles, const KeyValues& cache, Storage output = Storage::kStream) {
    const Rows rows = backend_->Upload(projected, step.rows, shape.columns(), Storage::kStream);
    const Queries queries =
        backend_->SplitHeads(rows, shape.heads, angles.Of(step.position, step.rows, shape.size), step.position, cache);
    return backend_->Download(backend_->Attention(queries, cache, step.mask, output));
  }

  KeyValues Cache(int64_t capacity, const HeadShape& shape) {
    return backend_->EmptyKeyValues(capacity, shape.key_heads, shape.size, storage_);
  }
};

// Head `head` of one row, turned.
std::vector<double> Turned(const std::vector<float>& projected, const HeadShape& shape, int64_t row, int head,
                           const Rope& rope) {
  const float* x = &projected[static_cast<size_t>(row * shape.columns() + int64_t{head} * shape.size)];
  std::vector<double> y(x, x + shape.size);
  for (int p = 0; !rope.cosine.empty() && p < shape.size / 2; ++p) {
    const bool neighbours = rope.pairs == RopePairs::kNeighbours;
    const int a = neighbours ? 2 * p : p, b = neighbours ? 2 * p + 1 : p + shape.size / 2;
    const auto angle = static_cast<size_t>(row * shape.size / 2 + p);
    const double cosine = rope.cosine[angle], sine = rope.sine[angle];
    y[static_cast<size_t>(a)] = x[a] * cosine - x[b] * sine;
    y[static_cast<size_t>(b)] = x[a] * sine + x[b] * cosine;
  }
  return y;
}

struct AttentionCase {
  HeadShape shape;
  int64_t rows;
  Mask mask;  // position 0
};

const AttentionCase kCases[] = {
    {{1, 1, 8}, 1, {.keys = 1}},
    {{2, 1, 16}, 5, {.keys = 5}},
    {{4, 2, 24}, 7, {.keys = 7, .causal_rows = 7}},
    {{2, 2, 72}, 33, {.keys = 33}},
    {{8, 1, 128}, 13, {.keys = 13, .causal_rows = 13}},
    {{16, 2, 32}, 70, {.keys = 70, .causal_rows = 64, .hidden_key = 63}},
    {{2, 1, 40}, 66, {.keys = 65, .causal_rows = 1, .first_key = 3, .hidden_key = 0}},
    {{6, 3, 8}, 12, {.keys = 12, .causal_rows = 6, .hidden_key = 5}},
    {{1, 1, 56}, 131, {.keys = 131, .causal_rows = 131}},
};

TEST_P(Heads, AttentionMatchesDouble) {
  for (const AttentionCase& test : kCases) {
    const HeadShape& shape = test.shape;
    if (GetParam().emulated() && test.rows * shape.heads > 200) continue;
    SCOPED_TRACE(testing::Message() << shape.heads << "/" << shape.key_heads << "x" << shape.size << ", " << test.rows);
    const std::vector<float> projected = Noise(test.rows * shape.columns(), 2, 5);
    for (const bool turns : {false, true}) {
      for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kNeighbours}) {
        const Angles angles = turns ? MakeAngles(pairs, test.rows, shape.size) : Angles();
        const Rope rope = angles.Of(0, test.rows, shape.size);
        const std::vector<float> y =
            Run(projected, shape, {test.rows, 0, test.mask}, angles, Cache(test.rows + 3, shape));
        for (int64_t row = 0; row < test.rows; ++row) {
          for (int head = 0; head < shape.heads; ++head) {
            const int key_head = head / (shape.heads / shape.key_heads);
            const std::vector<double> query = Turned(projected, shape, row, head, rope);
            std::vector<double> expected(static_cast<size_t>(shape.size));
            double sum = 0;
            for (int64_t key = 0; key < test.mask.keys; ++key) {
              if (!Sees(test.mask, row, key)) continue;
              const std::vector<double> k = Turned(projected, shape, key, shape.heads + key_head, rope);
              double score = 0;
              for (size_t c = 0; c < k.size(); ++c) {
                score += Stored(query[c] * QueryScale(shape.size)) * Stored(k[c]);
              }
              sum += std::exp2(score);
              const std::vector<double> v = Turned(projected, shape, key, shape.heads + shape.key_heads + key_head, {});
              for (size_t c = 0; c < v.size(); ++c) expected[c] += std::exp2(score) * Stored(v[c]);
            }
            for (int c = 0; c < shape.size; ++c) {
              ASSERT_NEAR(y[static_cast<size_t>(row * shape.width() + int64_t{head} * shape.size + c)],
                          expected[static_cast<size_t>(c)] / sum, tolerance_ * 2)
                  << "row " << row << " head " << head << " channel " << c << (turns ? " turned" : "");
            }
          }
        }
        if (!turns) break;
      }
    }
  }
}

TEST_P(Heads, AttentionStoresWhatFollows) {
  const HeadShape shape{4, 2, 72};
  const std::vector<float> projected = Noise(20 * shape.columns(), 1, 5);
  const Step step{20, 0, {.keys = 20}};
  const std::vector<float> exact = Run(projected, shape, step, {}, Cache(20, shape));
  const Rows stream = backend_->Upload(exact, 20, shape.width(), Storage::kStream);
  for (const Storage output : {storage_, Storage::kOperandInt8}) {
    EXPECT_EQ(Run(projected, shape, step, {}, Cache(20, shape), output),
              backend_->Download(backend_->Convert(stream, output)));
  }
}

TEST_P(Heads, StepByStepEqualsAllAtOnce) {
  const int64_t rows = GetParam().emulated() ? 21 : 70;
  for (const HeadShape& shape : {HeadShape{4, 2, 128}, HeadShape{2, 2, 72}}) {
    const std::vector<float> projected = Noise(rows * shape.columns(), 2, 5);
    const Angles angles = MakeAngles(RopePairs::kHalves, rows, shape.size);
    const std::vector<float> all =
        Run(projected, shape, {rows, 0, {.keys = rows, .causal_rows = rows}}, angles, Cache(rows, shape));
    for (const int64_t step : {1, 5, 6, 12}) {
      const KeyValues cache = Cache(rows + step * 40, shape);
      for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = std::min(step, rows - first);
        ASSERT_EQ(Run(RowsOf(projected, shape.columns(), first, count), shape,
                      {count, first, {.keys = first + count, .causal_rows = count, .first_key = first}}, angles, cache),
                  RowsOf(all, shape.width(), first, count))
            << "steps of " << step << " at " << first;
      }
    }
  }
}

TEST_P(Heads, WindowRowsDoNotKnowTheRowsBefore) {
  // Six free rows behind 0 to 6 causal ones give the same, whatever was computed with them.
  const HeadShape shape{8, 2, 32};
  const int64_t real = 29, window = 6;
  std::vector<float> projected = Noise((real + window) * shape.columns(), 2, 5);
  std::vector<float> expected;
  for (const int64_t rerun : {1, 3, 6, 29}) {
    const KeyValues cache = Cache(100, shape);
    const int64_t before = real - rerun;
    if (before > 0) {
      Run(RowsOf(projected, shape.columns(), 0, before), shape, {before, 0, {.keys = before, .causal_rows = before}},
          {}, cache);
    }
    const Mask mask{.keys = real + window, .causal_rows = rerun, .first_key = before, .hidden_key = real - 1};
    const std::vector<float> y = Run(RowsOf(projected, shape.columns(), before, rerun + window), shape,
                                     {rerun + window, before, mask}, {}, cache);
    const std::vector<float> free = RowsOf(y, shape.width(), rerun, window);
    if (expected.empty()) expected = free;
    EXPECT_EQ(free, expected) << rerun << " rows run again";
  }
}

TEST_P(Heads, WhatLiesBehindTheKeysDoesNotMatter) {
  const HeadShape shape{2, 1, 48};
  const int64_t rows = 11;
  const std::vector<float> projected = Noise(rows * shape.columns(), 2, 5);
  const Step step{rows, 0, {.keys = rows, .causal_rows = rows}};
  const std::vector<float> expected = Run(projected, shape, step, {}, Cache(rows, shape));
  const KeyValues cache = Cache(200, shape);
  const int64_t junk = 150;
  Run(std::vector<float>(static_cast<size_t>(junk * shape.columns()), std::nanf("")), shape,
      {junk, rows, {.keys = rows + junk}}, {}, cache);
  EXPECT_EQ(Run(projected, shape, step, {}, cache), expected);
}

TEST_P(Heads, HiddenKeyHasNoWeight) {
  // A key that would win and whose value is huge.
  const HeadShape shape{1, 1, 16};
  const int64_t rows = 20, hidden = 7;
  std::vector<float> projected = Noise(rows * shape.columns(), 1, 5);
  const Step step{rows, 0, {.keys = rows, .hidden_key = hidden}};
  const std::vector<float> expected = Run(projected, shape, step, {}, Cache(rows, shape));
  for (int c = 16; c < 48; ++c) projected[static_cast<size_t>(hidden * 48 + c)] = 1e4f;
  std::vector<float> y = Run(projected, shape, step, {}, Cache(rows, shape));
  EXPECT_EQ(y, expected);
}

TEST_P(Heads, ManyKeysAreSummedInBlocks) {
  // Blocks of 2048 keys: below, at and behind their ends, the largest score first, last or in the middle.
  if (GetParam().emulated()) GTEST_SKIP() << "takes long";
  const HeadShape shape{1, 1, 8};
  for (const int64_t keys : {2047, 2048, 2049, 4097, 5000}) {
    for (const double slope : {-0.02, 0.0, 0.02}) {
      SCOPED_TRACE(testing::Message() << keys << " keys, slope " << slope);
      std::vector<float> projected = Noise(keys * shape.columns(), 1, 6);
      for (int64_t key = 0; key < keys; ++key) {
        projected[static_cast<size_t>(key * 24)] = 1;
        projected[static_cast<size_t>(key * 24 + 8)] = static_cast<float>(slope * static_cast<double>(key));
      }
      const KeyValues cache = Cache(keys, shape);
      Run(projected, shape, {keys, 0, {.keys = keys}}, {}, cache);
      const std::vector<float> last = RowsOf(projected, 24, keys - 1, 1);
      const int64_t hidden = std::min<int64_t>(2048, keys - 2);
      const Mask mask{.keys = keys, .hidden_key = hidden};
      const std::vector<float> y = Run(last, shape, {1, keys - 1, mask}, {}, cache);
      std::vector<double> expected(8), scores;
      double largest = -1e30, sum = 0;
      for (int64_t key = 0; key < keys; ++key) {
        double score = 0;
        for (size_t c = 0; c < 8; ++c) {
          score += Stored(last[c] * QueryScale(8)) * Stored(projected[static_cast<size_t>(key * 24 + 8) + c]);
        }
        scores.push_back(score);
        if (Sees(mask, 0, key)) largest = std::max(largest, score);
      }
      for (int64_t key = 0; key < keys; ++key) {
        if (!Sees(mask, 0, key)) continue;
        const double weight = std::exp2(scores[static_cast<size_t>(key)] - largest);
        sum += weight;
        for (size_t c = 0; c < 8; ++c)
          expected[c] += weight * Stored(projected[static_cast<size_t>(key * 24 + 16) + c]);
      }
      for (size_t c = 0; c < 8; ++c) ASSERT_NEAR(y[c], expected[c] / sum, tolerance_) << "channel " << c;
    }
  }
}

TEST_P(Heads, StepsAcrossABlockOfKeysEqualAllAtOnce) {
  if (GetParam().emulated()) GTEST_SKIP() << "takes long";
  const HeadShape shape{2, 1, 8};
  const int64_t rows = 2060, tail = 20;
  const std::vector<float> projected = Noise(rows * shape.columns(), 3, 5);
  const std::vector<float> all =
      Run(projected, shape, {rows, 0, {.keys = rows, .causal_rows = rows}}, {}, Cache(rows, shape));
  const KeyValues cache = Cache(2 * rows, shape);
  const int64_t before = rows - tail;
  ASSERT_EQ(Run(RowsOf(projected, shape.columns(), 0, before), shape,
                {before, 0, {.keys = before, .causal_rows = before}}, {}, cache),
            RowsOf(all, shape.width(), 0, before));
  for (int64_t row = before; row < rows; ++row) {
    ASSERT_EQ(Run(RowsOf(projected, shape.columns(), row, 1), shape,
                  {1, row, {.keys = row + 1, .causal_rows = 1, .first_key = row}}, {}, cache),
              RowsOf(all, shape.width(), row, 1))
        << "row " << row;
  }
}

TEST_P(Heads, FollowsOneLargeScoreAcrossBlocks) {
  // Scores of 5e4, 2e5 and 6e6, the last beyond what whole steps of float32 can tell apart; the winner in each block.
  if (GetParam().emulated()) GTEST_SKIP() << "takes long";
  const HeadShape shape{1, 1, 8};
  const int64_t keys = 4200;
  for (const float size : {100.0f, 200.0f, 1000.0f}) {
    for (const int64_t winner : {5, 2047, 2048, 4150}) {
      std::vector<float> projected(static_cast<size_t>(keys * 24));
      for (int64_t key = 0; key < keys; ++key) {
        for (int c = 0; c < 8; ++c) {
          projected[static_cast<size_t>(key * 24 + c)] = size;
          projected[static_cast<size_t>(key * 24 + 8 + c)] = key == winner ? size : size / 4;
          projected[static_cast<size_t>(key * 24 + 16 + c)] = static_cast<float>(key % 100);
        }
      }
      const KeyValues cache = Cache(keys, shape);
      Run(projected, shape, {keys, 0, {.keys = 1, .causal_rows = 0}}, {}, cache);
      const std::vector<float> y =
          Run(RowsOf(projected, 24, keys - 1, 1), shape, {1, keys - 1, {.keys = keys}}, {}, cache);
      for (const float value : y) EXPECT_FLOAT_EQ(value, static_cast<float>(winner % 100)) << size << " at " << winner;
    }
  }
}

TEST_P(Heads, CacheIsCopiedBetweenCapacities) {
  const HeadShape shape{4, 2, 40};
  for (const int64_t count : {1, 16, 37, 64}) {
    const std::vector<float> projected = Noise(count * shape.columns(), 2, 5), more = Noise(shape.columns(), 2, 6);
    const Step last{1, count, {.keys = count + 1, .causal_rows = 1, .first_key = count}};
    const KeyValues from = Cache(count + 1, shape), to = Cache(150, shape);
    Run(projected, shape, {count, 0, {.keys = count}}, {}, from);
    // Something that must stay.
    Run(more, shape, {1, count, {.keys = 1}}, {}, to);
    backend_->CopyKeyValues(from, count, to);
    const Queries queries = backend_->SplitHeads(backend_->Upload(more, 1, shape.columns(), Storage::kStream),
                                                 shape.heads, {}, count, from);
    EXPECT_EQ(backend_->Download(backend_->Attention(queries, to, last.mask, Storage::kStream)),
              backend_->Download(backend_->Attention(queries, from, last.mask, Storage::kStream)))
        << count << " positions";
  }
}

TEST_P(Heads, SecondRequestTakesNoMemory) {
  const HeadShape shape{4, 2, 32};
  const std::vector<float> projected = Noise(50 * shape.columns(), 1, 5);
  const auto request = [&] {
    return Run(projected, shape, {50, 0, {.keys = 50, .causal_rows = 44, .hidden_key = 43}}, {}, Cache(80, shape),
               Storage::kOperandInt8);
  };
  const std::vector<float> first = request();
  const size_t taken = backend_->allocated_bytes();
  EXPECT_EQ(request(), first);
  EXPECT_EQ(backend_->allocated_bytes(), taken);
}

INSTANTIATE_TEST_SUITE_P(Targets, Heads, testing::ValuesIn(AllTargets()), TargetName);

}  // namespace
}  // namespace sightline
