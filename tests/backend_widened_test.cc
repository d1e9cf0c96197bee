// 8-bit weights beside rows that are not quantised: how they are packed, and their products against double precision.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tests/backend_targets.h"

namespace sightline {
namespace {

constexpr int64_t kGroup = 64;
constexpr double kF32Rounding = 0x1p-24;

class WidenedWeights : public testing::TestWithParam<Target> {
 protected:
  const std::unique_ptr<Backend> backend_ = GetParam().Make(2);
  const Storage operand_ = backend_->OperandStorage(Precision::kInt8Weights);

  TestWeights Pack(std::vector<float> weight, int64_t outputs) const {
    const int64_t inputs = static_cast<int64_t>(weight.size()) / outputs;
    return TestWeights(*backend_, Precision::kInt8Weights, std::move(weight), outputs, inputs);
  }
  Rows Upload(const std::vector<float>& x, int64_t rows) const {
    return backend_->Upload(x, rows, static_cast<int64_t>(x.size()) / rows, operand_);
  }
  // What the packed numbers are to stand for.
  static std::vector<float> Quantised(const TestWeights& w) {
    std::vector<float> weights(w.values.size());
    for (int64_t first = 0; first < std::ssize(weights);) {
      const int64_t row_end = (first / w.matrix.inputs + 1) * w.matrix.inputs, end = std::min(first + kGroup, row_end);
      float largest = 0;
      for (int64_t i = first; i < end; ++i) largest = std::max(largest, std::abs(w.values[static_cast<size_t>(i)]));
      const float scale = largest / 127;
      for (; first < end; ++first) {
        weights[static_cast<size_t>(first)] = std::nearbyint(w.values[static_cast<size_t>(first)] / scale) * scale;
      }
    }
    return weights;
  }
};

TEST_P(WidenedWeights, RowsAreKeptAsBesideBFloat16) {
  EXPECT_EQ(operand_, backend_->OperandStorage(Precision::kBF16));
  EXPECT_EQ(backend_->AttentionStorage(Precision::kInt8Weights), backend_->AttentionStorage(Precision::kBF16));
}

TEST_P(WidenedWeights, TakeTheBytesOfInt8) {
  EXPECT_EQ(backend_->PackedBytes(Precision::kInt8Weights, 128, 256), 128u * 4 * (64 + 4));
  for (const Precision other : {Precision::kF32, Precision::kBF16, Precision::kInt8, Precision::kInt4}) {
    EXPECT_NE(backend_->PackedLayout(Precision::kInt8Weights), backend_->PackedLayout(other));
  }
}

// Row k of the identity picks column k of the weights.
TEST_P(WidenedWeights, ComeBackRoundedTo8Bits) {
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {17, 130}, {70, 64}, {200, 9}}) {
    SCOPED_TRACE(testing::Message() << outputs << "x" << inputs);
    const TestWeights w = Pack(Noise(outputs * inputs, 0.3f, 9), outputs);
    const std::vector<float> expected = Quantised(w);
    std::vector<float> identity(static_cast<size_t>(inputs * inputs));
    for (int64_t k = 0; k < inputs; ++k) identity[static_cast<size_t>(k * inputs + k)] = 1;
    const auto y = backend_->Download(backend_->Linear(Upload(identity, inputs), w.matrix, {.stream_output = true}));
    for (int64_t i = 0; i < outputs * inputs; ++i) {
      ASSERT_NEAR(y[static_cast<size_t>(i % inputs * outputs + i / inputs)], expected[static_cast<size_t>(i)], 1e-6);
    }
  }
}

struct LinearCase {
  int64_t rows, inputs, outputs;
};
// The last two reach over more than one block of the depth.
constexpr LinearCase kLinearCases[] = {
    {1, 1, 1},    {3, 64, 17},   {7, 63, 65},   {6, 128, 64}, {13, 129, 152},
    {2, 538, 24}, {12, 704, 40}, {5, 2048, 20}, {3, 3001, 9},
};

TEST_P(WidenedWeights, LinearMatchesDouble) {
  for (const LinearCase& shape : kLinearCases) {
    if (GetParam().emulated() && shape.inputs > 2048) continue;
    SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.inputs << "x" << shape.outputs);
    const TestWeights w = Pack(Noise(shape.outputs * shape.inputs, 1, 1), shape.outputs);
    const std::vector<float> weights = Quantised(w), bias = Noise(shape.outputs, 1, 2);
    const std::vector<float> start = Noise(shape.rows * shape.outputs, 2, 3);
    const Rows operand = Upload(Noise(shape.rows * shape.inputs, 1, 4), shape.rows);
    const std::vector<float> x = backend_->Download(operand);
    const auto check = [&](const Rows& result, bool added) {
      const std::vector<float> y = backend_->Download(result);
      for (int64_t i = 0; i < shape.rows * shape.outputs; ++i) {
        const int64_t row = i / shape.outputs, column = i % shape.outputs;
        double sum = bias[static_cast<size_t>(column)], size = std::abs(sum);
        for (int64_t k = 0; k < shape.inputs; ++k) {
          const double product = 1.0 * x[static_cast<size_t>(row * shape.inputs + k)] *
                                 weights[static_cast<size_t>(column * shape.inputs + k)];
          sum += product;
          size += std::abs(product);
        }
        const double expected = added ? sum + start[static_cast<size_t>(i)] : std::max(sum, 0.0);
        ASSERT_NEAR(y[static_cast<size_t>(i)], expected, 12 * kF32Rounding * (size + 2)) << "element " << i;
      }
    };
    const Rows stream = backend_->Upload(start, shape.rows, shape.outputs, Storage::kStream);
    check(backend_->Linear(operand, w.matrix, {.bias = bias, .activation = Activation::kRelu, .stream_output = true}),
          false);
    check(backend_->Linear(operand, w.matrix, {.bias = bias, .add_to = &stream}), true);
  }
}

TEST_P(WidenedWeights, NotANumberStaysInItsRow) {
  for (const int64_t inputs : {300, 301}) {
    const TestWeights w = Pack(Noise(3 * inputs, 1, 1), 3);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      std::vector<float> x = Noise(3 * inputs, 1, 2);
      x[static_cast<size_t>(inputs)] = bad;  // the first of row 1, which lies behind the last of row 0
      const auto y = backend_->Download(backend_->Linear(Upload(x, 3), w.matrix, {.stream_output = true}));
      for (size_t i = 0; i < 9; ++i) EXPECT_EQ(std::isfinite(y[i]), i / 3 != 1) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, WidenedWeights, testing::ValuesIn(TargetsFor({Precision::kInt8Weights})), TargetName);

}  // namespace
}  // namespace sightline
