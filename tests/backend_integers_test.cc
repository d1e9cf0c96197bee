// The integer formats: how rows and weights are quantised, and their products against double precision.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tests/backend_targets.h"

namespace sightline {
namespace {

constexpr int64_t kGroup = 128;
constexpr double kF32Rounding = 0x1p-24;

class Integers : public testing::TestWithParam<Target> {
 protected:
  const Precision precision_ = GetParam().precision;
  const std::unique_ptr<Backend> backend_ = GetParam().Make(2);
  static constexpr int64_t weight_group_ = 64;

  Rows Upload(const std::vector<float>& x, int64_t rows) const {
    return backend_->Upload(x, rows, static_cast<int64_t>(x.size()) / rows, Storage::kOperandInt8);
  }
  // The packed numbers, read by rows of an identity matrix.
  std::vector<float> Unpacked(const TestWeights& w) const {
    const int64_t inputs = w.matrix.inputs, outputs = w.matrix.outputs;
    std::vector<float> identity(static_cast<size_t>(inputs * inputs)), weights(w.values.size());
    for (int64_t k = 0; k < inputs; ++k) identity[static_cast<size_t>(k * inputs + k)] = 1;
    const std::vector<float> y =
        backend_->Download(backend_->Linear(Upload(identity, inputs), w.matrix, {.stream_output = true}));
    for (int64_t i = 0; i < inputs * outputs; ++i) {
      weights[static_cast<size_t>(i)] = y[static_cast<size_t>(i % inputs * outputs + i / inputs)];
    }
    return weights;
  }
};

float Largest(const std::vector<float>& x, int64_t first, int64_t end) {
  float largest = 0;
  for (int64_t i = first; i < end; ++i) largest = std::max(largest, std::abs(x[static_cast<size_t>(i)]));
  return largest;
}

TEST_P(Integers, EveryPrecisionReadsInt8Rows) {
  EXPECT_EQ(backend_->OperandStorage(precision_), Storage::kOperandInt8);
  EXPECT_NE(backend_->AttentionStorage(precision_), Storage::kOperandInt8);
}

TEST_P(Integers, RowsHaveOneScaleForEvery128Values) {
  for (const int64_t columns : {1, 100, 127, 128, 129, 300, 538}) {
    SCOPED_TRACE(columns);
    const std::vector<float> x = Noise(5 * columns, 3, 7);
    const std::vector<float> y = backend_->Download(Upload(x, 5));
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t first = 0; first < columns; first += kGroup) {
        const int64_t begin = row * columns + first, end = row * columns + std::min(first + kGroup, columns);
        const float scale = Largest(x, begin, end) / 127;
        for (int64_t i = begin; i < end; ++i) {
          const double integer = std::nearbyint(x[static_cast<size_t>(i)] / scale);
          ASSERT_NEAR(y[static_cast<size_t>(i)], integer * scale, 2e-7 * std::abs(integer) * scale) << "element " << i;
        }
      }
    }
  }
}

TEST_P(Integers, HalvesRoundToEven) {
  // The largest is 127, so the scale is 1.
  const std::vector<float> x = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49f};
  EXPECT_EQ(backend_->Download(Upload(x, 1)), (std::vector<float>{127, 0, 2, 2, 0, -2, -2, 0}));
}

TEST_P(Integers, TinyRowsAreZero) {
  const std::vector<float> x = {1e-38f, 0, -1e-39f, 0};
  for (const float value : backend_->Download(Upload(x, 1))) EXPECT_EQ(value, 0);
}

TEST_P(Integers, EveryWayToQuantiseIsTheSame) {
  const int64_t rows = 7, columns = 300;
  const std::vector<float> x = Noise(rows * columns, 2, 3), gain = Noise(columns, 1, 4), bias = Noise(columns, 1, 5);
  const Rows stream = backend_->Upload(x, rows, columns, Storage::kStream);
  const auto same = [&](const Rows& quantised, const Rows& exact) {
    ASSERT_EQ(quantised.storage, Storage::kOperandInt8);
    EXPECT_EQ(backend_->Download(quantised), backend_->Download(backend_->Convert(exact, Storage::kOperandInt8)));
  };
  same(Upload(x, rows), stream);
  same(backend_->LayerNorm(stream, gain, bias, 1e-6f, Storage::kOperandInt8),
       backend_->LayerNorm(stream, gain, bias, 1e-6f, Storage::kStream));
  same(backend_->RmsNorm(stream, gain, 1e-6f, Storage::kOperandInt8),
       backend_->RmsNorm(stream, gain, 1e-6f, Storage::kStream));
  same(backend_->SwiGlu(stream, Storage::kOperandInt8), backend_->SwiGlu(stream, Storage::kStream));
  const TestWeights w(*backend_, precision_, Noise(50 * columns, 1, 6), 50, columns);
  same(backend_->Linear(Upload(x, rows), w.matrix, {}),
       backend_->Linear(Upload(x, rows), w.matrix, {.stream_output = true}));
}

TEST_P(Integers, SlicesAndCopiesKeepRows) {
  const std::vector<float> x = Noise(5 * 200, 1, 8);
  const Rows rows = Upload(x, 5), other = backend_->Empty(2, 200, Storage::kOperandInt8);
  const std::vector<float> all = backend_->Download(rows);
  EXPECT_EQ(backend_->Download(Backend::Slice(rows, 3, 2)), RowsOf(all, 200, 3, 2));
  backend_->CopyRows(Backend::Slice(rows, 1, 2), other);
  EXPECT_EQ(backend_->Download(other), RowsOf(all, 200, 1, 2));
}

TEST_P(Integers, WeightsComeBackAsWellAsCanBe) {
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {17, 130}, {70, 64}}) {
    SCOPED_TRACE(testing::Message() << outputs << "x" << inputs);
    const TestWeights w(*backend_, precision_, Noise(outputs * inputs, 0.3f, 9), outputs, inputs);
    const std::vector<float> unpacked = Unpacked(w);
    double error = 0, plain_error = 0;
    for (int64_t i = 0; i < outputs * inputs; ++i) {
      const int64_t first = i / inputs * inputs + i % inputs / weight_group_ * weight_group_;
      const float largest = Largest(w.values, first, std::min(first + weight_group_, (i / inputs + 1) * inputs));
      const double weight = w.values[static_cast<size_t>(i)],
                   scale = largest / (precision_ == Precision::kInt8 ? 127 : 7);
      const double plain = std::nearbyint(weight / scale) * scale;
      if (precision_ == Precision::kInt8) {
        ASSERT_NEAR(unpacked[static_cast<size_t>(i)], plain, 1e-6 * largest);
      } else {
        // The largest weights may be clipped where that makes the sum of squares smaller.
        ASSERT_NEAR(unpacked[static_cast<size_t>(i)], weight, 1.6 * scale);
      }
      error += std::pow(unpacked[static_cast<size_t>(i)] - weight, 2);
      plain_error += std::pow(plain - weight, 2);
    }
    if (precision_ == Precision::kInt4) {
      EXPECT_LE(error, plain_error * 1.000001 + 1e-12);
    }
  }
}

double Activate(double v, Activation activation) { return activation == Activation::kRelu ? std::max(v, 0.0) : v; }

struct LinearCase {
  int64_t rows, inputs, outputs;
};
constexpr LinearCase kLinearCases[] = {
    {1, 1, 1}, {3, 64, 17}, {7, 127, 65}, {6, 128, 64}, {13, 129, 152}, {2, 538, 24}, {12, 704, 40}, {5, 2048, 20},
};

TEST_P(Integers, LinearMatchesDouble) {
  for (const LinearCase& shape : kLinearCases) {
    if (GetParam().emulated() && shape.inputs > 1000) continue;
    SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.inputs << "x" << shape.outputs);
    const TestWeights w(*backend_, precision_, Noise(shape.outputs * shape.inputs, 1, 1), shape.outputs, shape.inputs);
    const std::vector<float> start = Noise(shape.rows * shape.outputs, 2, 3), bias = Noise(shape.outputs, 1, 2);
    const std::vector<float> weights = Unpacked(w);
    const Rows operand = Upload(Noise(shape.rows * shape.inputs, 1, 4), shape.rows);
    const std::vector<float> x = backend_->Download(operand);
    const auto check = [&](const Rows& result, bool with_bias, Activation activation, bool added) {
      const std::vector<float> y = backend_->Download(result);
      for (int64_t i = 0; i < shape.rows * shape.outputs; ++i) {
        const int64_t row = i / shape.outputs, column = i % shape.outputs;
        double sum = with_bias ? bias[static_cast<size_t>(column)] : 0, size = std::abs(sum);
        for (int64_t k = 0; k < shape.inputs; ++k) {
          const double product = 1.0 * x[static_cast<size_t>(row * shape.inputs + k)] *
                                 weights[static_cast<size_t>(column * shape.inputs + k)];
          sum += product;
          size += std::abs(product);
        }
        const double expected = Activate(sum, activation) + (added ? start[static_cast<size_t>(i)] : 0);
        ASSERT_NEAR(y[static_cast<size_t>(i)], expected, 10 * kF32Rounding * (size + 2)) << "element " << i;
      }
    };
    const Rows stream = backend_->Upload(start, shape.rows, shape.outputs, Storage::kStream);
    check(backend_->Linear(operand, w.matrix, {.stream_output = true}), false, Activation::kNone, false);
    check(backend_->Linear(operand, w.matrix, {.bias = bias, .activation = Activation::kRelu, .stream_output = true}),
          true, Activation::kRelu, false);
    check(backend_->Linear(operand, w.matrix, {.bias = bias, .add_to = &stream}), true, Activation::kNone, true);
  }
}

TEST_P(Integers, LargestIntegersDoNotOverflow) {
  // Every product has the largest size and the same sign, once plus and once minus.
  constexpr int64_t kInputs = 256;
  for (const float sign : {1.0f, -1.0f}) {
    const TestWeights w(*backend_, precision_, std::vector<float>(kInputs * 3, sign), 3, kInputs);
    const std::vector<float> y = backend_->Download(
        backend_->Linear(Upload(std::vector<float>(kInputs, 1), 1), w.matrix, {.stream_output = true}));
    for (const float value : y) EXPECT_NEAR(value, sign * kInputs, 1e-3);
  }
}

TEST_P(Integers, NotANumberStaysOne) {
  const TestWeights w(*backend_, precision_, Noise(3 * 300, 1, 1), 3, 300);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> x = Noise(2 * 300, 1, 2);
    x[200] = bad;
    const std::vector<float> y = backend_->Download(backend_->Linear(Upload(x, 2), w.matrix, {.stream_output = true}));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(std::isfinite(y[static_cast<size_t>(i)]));
    for (int i = 3; i < 6; ++i) EXPECT_TRUE(std::isfinite(y[static_cast<size_t>(i)]));
  }
}

TEST_P(Integers, InstructionSetsAgree) {
  const Target generic{"generic", &cpu::KernelsFor(Isa::kGeneric), precision_};
  const std::unique_ptr<Backend> other = generic.Make();
  const int64_t inputs = 700, outputs = 70, rows = 8;
  const std::vector<float> weight = Noise(outputs * inputs, 1, 1), x = Noise(rows * inputs, 1, 2);
  const auto run = [&](Backend& backend) {
    const TestWeights w(backend, precision_, weight, outputs, inputs);
    const Rows operand = backend.Upload(x, rows, inputs, Storage::kOperandInt8);
    return backend.Download(backend.Linear(operand, w.matrix, {.stream_output = true}));
  };
  const std::vector<float> here = run(*backend_), there = run(*other);
  // Only the float32 sums over the 6 or 11 groups may round differently.
  for (size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(here[i], there[i], 3e-5);
}

TEST_P(Integers, LayoutsTellPackedBytesApart) {
  EXPECT_NE(backend_->PackedLayout(precision_), backend_->PackedLayout(Precision::kF32));
  EXPECT_NE(backend_->PackedLayout(Precision::kInt8), backend_->PackedLayout(Precision::kInt4));
  EXPECT_EQ(backend_->PackedBytes(Precision::kInt8, 128, 256), 128u * 4 * (64 + 4));
  EXPECT_EQ(backend_->PackedBytes(Precision::kInt4, 128, 256), 128u * 4 * (32 + 4));
}

INSTANTIATE_TEST_SUITE_P(Targets, Integers, testing::ValuesIn(IntegerTargets()), TargetName);

}  // namespace
}  // namespace sightline
