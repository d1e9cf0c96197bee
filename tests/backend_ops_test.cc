// Every operation on every target against plain loops in double precision.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "gtest/gtest.h"
#include "tests/backend_targets.h"

namespace sightline {
namespace {

// Half a unit in the last place, relative.
constexpr double kF32Rounding = 0x1p-24;
constexpr double kBF16Rounding = 0x1p-8;
// Rounding errors of a sum of n products grow like sqrt(n) at random; 3072 products, with room.
constexpr double kSumRounding = 64 * kF32Rounding;
// Of the size of its argument: the formula gives erf to 1.5e-7 and float32 adds about as much; both count times x / 2.
constexpr double kGeluError = 2e-7;
constexpr double kGeluTanhError = 3e-7;

struct LinearCase {
  int64_t rows, inputs, outputs;
};

// x * w^T in double, and the sum of the products' sizes, which rounding errors are proportional to.
struct Products {
  std::vector<double> sums, sizes;
};

class Ops : public testing::TestWithParam<Target> {
 protected:
  const Precision precision_ = GetParam().precision;
  const std::unique_ptr<Backend> backend_ = GetParam().Make(2);
  const Storage operand_ = backend_->OperandStorage(precision_);
  const bool bf16_operands_ = operand_ == Storage::kOperandBF16;

  double AsOperand(float value) const { return bf16_operands_ ? FloatFromBF16(BF16FromFloat(value)) : value; }
  double AsWeight(float value) const {
    return precision_ == Precision::kBF16 ? FloatFromBF16(BF16FromFloat(value)) : value;
  }
  Products Multiply(const std::vector<float>& x, const std::vector<float>& w, const LinearCase& shape) const {
    Products products;
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t column = 0; column < shape.outputs; ++column) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < shape.inputs; ++k) {
          const double product = AsOperand(x[static_cast<size_t>(row * shape.inputs + k)]) *
                                 AsWeight(w[static_cast<size_t>(column * shape.inputs + k)]);
          sum += product;
          size += std::abs(product);
        }
        products.sums.push_back(sum);
        products.sizes.push_back(size);
      }
    }
    return products;
  }
  // Relative error of storing a result in `storage`.
  static double StorageRounding(Storage storage) {
    return storage == Storage::kOperandBF16 ? kBF16Rounding * 1.001 : kF32Rounding;
  }
};

double Activate(double v, Activation activation) {
  if (activation == Activation::kGeluTanh) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  }
  if (activation == Activation::kGelu) return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
  if (activation == Activation::kRelu) return std::max(v, 0.0);
  return v;
}

constexpr Activation kActivations[] = {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu};

constexpr LinearCase kLinearCases[] = {
    {1, 1, 1},   {3, 4, 1},     {7, 1, 17},    {6, 64, 64},   {13, 127, 65},   {5, 128, 128}, {12, 256, 4},
    {2, 300, 1}, {61, 588, 96}, {50, 64, 200}, {10, 128, 37}, {19, 1021, 144}, {8, 3072, 80},
};

TEST_P(Ops, LinearMatchesDouble) {
  for (const LinearCase& shape : kLinearCases) {
    SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.inputs << "x" << shape.outputs);
    const std::vector<float> x = Noise(shape.rows * shape.inputs, 1, 1), bias = Noise(shape.outputs, 1, 2);
    const std::vector<float> start = Noise(shape.rows * shape.outputs, 2, 3);
    const TestWeights w(*backend_, precision_, Noise(shape.outputs * shape.inputs, 1, 4), shape.outputs, shape.inputs);
    const Products products = Multiply(x, w.values, shape);
    const auto check = [&](const Rows& result, bool with_bias, Activation activation, bool added) {
      const std::vector<float> y = backend_->Download(result);
      for (size_t i = 0; i < y.size(); ++i) {
        const double offset = with_bias ? bias[i % bias.size()] : 0, sum = products.sums[i] + offset;
        const double expected = Activate(sum, activation) + (added ? start[i] : 0);
        const double tolerance = 1.2 * kSumRounding * (products.sizes[i] + std::abs(offset)) +
                                 StorageRounding(result.storage) * std::abs(expected) +
                                 (activation == Activation::kGelu ? kGeluError * std::abs(sum) : 0) +
                                 (activation == Activation::kGeluTanh ? kGeluTanhError * std::abs(sum) : 0) +
                                 (added ? 2 * kF32Rounding * (std::abs(expected) + 2) : 0);
        ASSERT_NEAR(y[i], expected, tolerance) << "element " << i;
      }
    };
    const Rows operand = backend_->Upload(x, shape.rows, shape.inputs, operand_);
    for (const Activation activation : kActivations) {
      check(backend_->Linear(operand, w.matrix, {.bias = bias, .activation = activation}), true, activation, false);
      check(backend_->Linear(operand, w.matrix, {.activation = activation, .stream_output = true}), false, activation,
            false);
      const Rows stream = backend_->Upload(start, shape.rows, shape.outputs, Storage::kStream);
      check(backend_->Linear(operand, w.matrix, {.bias = bias, .activation = activation, .add_to = &stream}), true,
            activation, true);
    }
    if (precision_ != Precision::kF32) continue;
    const Rows stream = backend_->Upload(x, shape.rows, shape.inputs, Storage::kStream);
    check(backend_->Linear(stream, w.matrix, {.bias = bias}), true, Activation::kNone, false);
  }
}

TEST_P(Ops, GeluMatchesItsFormula) {
  // One input, weight 1: the output is GELU of the row.
  constexpr int64_t kRows = 4001;
  std::vector<float> x(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>(AsOperand(static_cast<float>(i - 2000) * 0.005f));
  }
  const TestWeights w(*backend_, precision_, {1.0f}, 1, 1);
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
    const std::vector<float> y = backend_->Download(backend_->Linear(
        backend_->Upload(x, kRows, 1, operand_), w.matrix, {.activation = activation, .stream_output = true}));
    const double error = activation == Activation::kGelu ? kGeluError : kGeluTanhError;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], Activate(x[i], activation), error * std::abs(x[i])) << "at " << x[i];
    }
  }
}

TEST_P(Ops, GeluOfFarNumbersIsExact) {
  const TestWeights w(*backend_, precision_, {1.0f}, 1, 1);
  const std::vector<float> x = {-3e38f, -1e10f, -100, -11, 100, 1e10f};
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
    const Rows rows = backend_->Upload(x, 6, 1, operand_);
    const std::vector<float> y =
        backend_->Download(backend_->Linear(rows, w.matrix, {.activation = activation, .stream_output = true}));
    const std::vector<float> stored = backend_->Download(rows);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], std::max(stored[i], 0.0f), 1e-26 + kF32Rounding * stored[i] * (x[i] > 0)) << "at " << x[i];
    }
  }
}

TEST_P(Ops, NotANumberStaysOne) {
  const TestWeights w(*backend_, precision_, {1.0f, 0.0f}, 1, 2);
  for (const float bad : {std::nanf(""), INFINITY}) {
    for (const Activation activation : kActivations) {
      const std::vector<float> x = {bad, 1.0f, 2.0f, 1.0f};
      const std::vector<float> y = backend_->Download(backend_->Linear(
          backend_->Upload(x, 2, 2, operand_), w.matrix, {.activation = activation, .stream_output = true}));
      EXPECT_FALSE(std::isfinite(y[0]));
      EXPECT_TRUE(std::isfinite(y[1]));
    }
  }
}

TEST_P(Ops, OddDepthReadsNothingOfTheNextRow) {
  const TestWeights w(*backend_, precision_, {1.0f, 2.0f, 3.0f}, 1, 3);
  const std::vector<float> x = {1, 1, 1, INFINITY, 1, 1};
  const std::vector<float> y = backend_->Download(backend_->Linear(backend_->Upload(x, 2, 3, operand_), w.matrix, {}));
  EXPECT_EQ(y[0], 6.0f);
}

TEST_P(Ops, LayerNormMatchesDouble) {
  for (const int64_t columns : {1, 5, 16, 63, 256, 768}) {
    SCOPED_TRACE(columns);
    constexpr int64_t kRows = 19;
    std::vector<float> x = Noise(kRows * columns, 1, 1);
    // A mean far above the spread: squares of the raw numbers would lose the variance.
    for (float& value : x) value += 300;
    const std::vector<float> gain = Noise(columns, 1, 2), bias = Noise(columns, 1, 3);
    const Rows stream = backend_->Upload(x, kRows, columns, Storage::kStream);
    for (const Storage storage : {operand_, Storage::kStream}) {
      const std::vector<float> y = backend_->Download(backend_->LayerNorm(stream, gain, bias, 1e-6f, storage));
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const float* row = &x[static_cast<size_t>(i / columns * columns)];
        const auto c = static_cast<size_t>(i % columns);
        double mean = 0, variance = 0;
        for (int64_t j = 0; j < columns; ++j) mean += row[j];
        mean /= static_cast<double>(columns);
        for (int64_t j = 0; j < columns; ++j) variance += (row[j] - mean) * (row[j] - mean);
        variance /= static_cast<double>(columns);
        const double expected = (row[c] - mean) / std::sqrt(variance + 1e-6) * gain[c] + bias[c];
        // The mean of numbers around 300 is known to 300 * 2^-24 times a few.
        const double tolerance = 2e-4 * std::abs(gain[c]) + StorageRounding(storage) * std::abs(expected) + 1e-6;
        ASSERT_NEAR(y[static_cast<size_t>(i)], expected, tolerance) << "row " << i / columns << " column " << c;
      }
    }
  }
}

TEST_P(Ops, RmsNormMatchesDouble) {
  for (const int64_t columns : {1, 5, 16, 63, 256, 768}) {
    SCOPED_TRACE(columns);
    constexpr int64_t kRows = 19;
    const std::vector<float> x = Noise(kRows * columns, 3, 1), gain = Noise(columns, 1, 2);
    const Rows stream = backend_->Upload(x, kRows, columns, Storage::kStream);
    for (const Storage storage : {operand_, Storage::kStream}) {
      const std::vector<float> y = backend_->Download(backend_->RmsNorm(stream, gain, 1e-6f, storage));
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const float* row = &x[static_cast<size_t>(i / columns * columns)];
        double squares = 0;
        for (int64_t j = 0; j < columns; ++j) squares += 1.0 * row[j] * row[j];
        const double expected = row[i % columns] / std::sqrt(squares / static_cast<double>(columns) + 1e-6) *
                                gain[static_cast<size_t>(i % columns)];
        ASSERT_NEAR(y[static_cast<size_t>(i)], expected, (StorageRounding(storage) + 4e-7) * std::abs(expected));
      }
    }
  }
}

TEST_P(Ops, SwiGluMatchesDouble) {
  for (const int64_t columns : {1, 5, 16, 63, 1000}) {
    SCOPED_TRACE(columns);
    constexpr int64_t kRows = 7;
    const std::vector<float> x = Noise(kRows * 2 * columns, 20, 1);
    const Rows stream = backend_->Upload(x, kRows, 2 * columns, Storage::kStream);
    for (const Storage storage : {operand_, Storage::kStream}) {
      const std::vector<float> y = backend_->Download(backend_->SwiGlu(stream, storage));
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const auto at = static_cast<size_t>(i / columns * 2 * columns + i % columns);
        const double gate = x[at], expected = gate / (1 + std::exp(-gate)) * x[at + static_cast<size_t>(columns)];
        ASSERT_NEAR(y[static_cast<size_t>(i)], expected,
                    (StorageRounding(storage) + 4e-6) * std::abs(expected) + 1e-30);
      }
    }
  }
}

TEST_P(Ops, SwiGluOfFarNumbersIsExact) {
  const std::vector<float> x = {-3e38f, -200, 200, 3e38f, std::nanf(""), 1, 1, 1, 0.5f, 1};
  const std::vector<float> y =
      backend_->Download(backend_->SwiGlu(backend_->Upload(x, 1, 10, Storage::kStream), Storage::kStream));
  EXPECT_NEAR(y[0], 0, 1e-30);
  EXPECT_NEAR(y[1], 0, 1e-30);
  EXPECT_EQ(y[2], 200);
  EXPECT_EQ(y[3], 1.5e38f);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_P(Ops, ConvertRoundsAsUploadDoes) {
  const std::vector<float> x = Noise(13 * 77, 5, 1);
  const Rows stream = backend_->Upload(x, 13, 77, Storage::kStream);
  EXPECT_EQ(backend_->Download(backend_->Convert(stream, operand_)),
            backend_->Download(backend_->Upload(x, 13, 77, operand_)));
}

struct AttentionCase {
  int64_t sequences, length;
  int heads, head_size;
};

constexpr AttentionCase kAttentionCases[] = {
    {1, 1, 1, 16},  {2, 2, 2, 32},   {1, 7, 3, 64},   {3, 25, 2, 32},  {1, 64, 1, 64},
    {1, 65, 2, 48}, {2, 131, 1, 80}, {1, 128, 2, 16}, {1, 257, 1, 32}, {1, 193, 1, 64},
};

// Scores of one query over all keys, softmax in base 2, weighted sum of values.
std::vector<double> AttendInDouble(const std::vector<double>& projected, const AttentionCase& shape, int64_t sequence,
                                   int head, int64_t query) {
  const int64_t width = int64_t{1} * shape.heads * shape.head_size;
  const auto at = [&](int which, int64_t row, int channel) {
    return projected[static_cast<size_t>((sequence * shape.length + row) * 3 * width + which * width +
                                         head * shape.head_size + channel)];
  };
  std::vector<double> scores(static_cast<size_t>(shape.length));
  for (int64_t key = 0; key < shape.length; ++key) {
    for (int c = 0; c < shape.head_size; ++c) scores[static_cast<size_t>(key)] += at(0, query, c) * at(1, key, c);
  }
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp2(score - largest);
  std::vector<double> result(static_cast<size_t>(shape.head_size));
  for (int64_t key = 0; key < shape.length; ++key) {
    for (int c = 0; c < shape.head_size; ++c) {
      result[static_cast<size_t>(c)] += scores[static_cast<size_t>(key)] / sum * at(2, key, c);
    }
  }
  return result;
}

TEST_P(Ops, QkvAndAttentionMatchDouble) {
  constexpr int64_t kInputs = 24;
  for (const AttentionCase& shape : kAttentionCases) {
    SCOPED_TRACE(testing::Message() << shape.sequences << "x" << shape.length << ", " << shape.heads << "x"
                                    << shape.head_size);
    const int64_t width = int64_t{1} * shape.heads * shape.head_size, rows = shape.sequences * shape.length;
    const std::vector<float> x = Noise(rows * kInputs, 1, 1), bias = Noise(3 * width, 0.5f, 2);
    const TestWeights w(*backend_, precision_, Noise(3 * width * kInputs, 0.3f, 3), 3 * width, kInputs);
    for (const bool with_bias : {true, false}) {
      std::vector<double> projected(static_cast<size_t>(rows * 3 * width));
      for (int64_t i = 0; i < rows * 3 * width; ++i) {
        const int64_t row = i / (3 * width), column = i % (3 * width);
        double sum = with_bias ? bias[static_cast<size_t>(column)] : 0;
        for (int64_t k = 0; k < kInputs; ++k) {
          sum += AsOperand(x[static_cast<size_t>(row * kInputs + k)]) *
                 AsWeight(w.values[static_cast<size_t>(column * kInputs + k)]);
        }
        projected[static_cast<size_t>(i)] = AsOperand(static_cast<float>(sum));
      }
      const ProjectedHeads heads = backend_->Qkv(backend_->Upload(x, rows, kInputs, operand_), w.matrix,
                                                 with_bias ? WeightVector(bias) : WeightVector(),
                                                 {shape.sequences, shape.length, shape.heads, shape.head_size});
      const std::vector<float> y = backend_->Download(backend_->Attention(heads));
      // Rounding of queries, keys and weights moves the mean of values of size 1 by a few roundings; so does an
      // operand that falls on the other side of a rounding boundary.
      const double tolerance = bf16_operands_ ? 8 * kBF16Rounding : 4e-6;
      for (int64_t i = 0; i < rows * width; i += shape.head_size) {
        const int64_t row = i / width, head = i % width / shape.head_size;
        const std::vector<double> expected =
            AttendInDouble(projected, shape, row / shape.length, static_cast<int>(head), row % shape.length);
        for (int c = 0; c < shape.head_size; ++c) {
          ASSERT_NEAR(y[static_cast<size_t>(i + c)], expected[static_cast<size_t>(c)], tolerance)
              << "row " << row << " head " << head << " channel " << c;
        }
      }
    }
  }
}

TEST_P(Ops, AttentionFollowsOneLargeScore) {
  // Keys are far apart: the softmax is one-hot and far below every underflow elsewhere. Scores are about 5e4, 2e5 or
  // 6e6, the last beyond what whole steps of float32 can tell apart.
  for (const float size : {30.0f, 60.0f, 300.0f}) {
    constexpr int64_t kLength = 70;
    constexpr int kSize = 16;
    std::vector<float> weight(3 * kSize * 2);
    for (int c = 0; c < kSize; ++c) {
      weight[static_cast<size_t>(c * 2)] = size;                 // query: the first input
      weight[static_cast<size_t>((kSize + c) * 2)] = size;       // key: the first input
      weight[static_cast<size_t>((2 * kSize + c) * 2 + 1)] = 1;  // value: the second input
    }
    std::vector<float> x;
    for (int64_t i = 0; i < kLength; ++i) {
      x.push_back(i == 41 ? 4.0f : 1.0f);
      x.push_back(static_cast<float>(i));
    }
    const TestWeights w(*backend_, precision_, weight, 3 * kSize, 2);
    const ProjectedHeads heads =
        backend_->Qkv(backend_->Upload(x, kLength, 2, operand_), w.matrix, {}, {1, kLength, 1, kSize});
    for (const float y : backend_->Download(backend_->Attention(heads))) EXPECT_EQ(y, 41.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Ops, testing::ValuesIn(AllTargets()), TargetName);

}  // namespace
}  // namespace sightline
