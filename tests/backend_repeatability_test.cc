// A row's bits do not depend on how many rows, sequences or threads are computed with it, nor on its place among them.
#include "gtest/gtest.h"
#include "tests/backend_targets.h"

namespace sightline {
namespace {

class Repeatability : public testing::TestWithParam<Target> {
 protected:
  bool emulated() const { return GetParam().emulated(); }

  const Precision precision_ = GetParam().precision;
};
class RowRepeatability : public Repeatability {};
class SequenceRepeatability : public Repeatability {};

// Runs everything that works on rows: norms, SwiGLU, Linear to operand and added to a stream.
std::vector<float> RunRows(Backend& backend, Precision precision, const TestWeights& up, const TestWeights& down,
                           const std::vector<float>& x, int64_t rows) {
  const int64_t width = up.matrix.inputs;
  const std::vector<float> gain = Noise(width, 1, 11), bias = Noise(width, 1, 12);
  const std::vector<float> hidden_bias = Noise(up.matrix.outputs, 1, 13);
  const Rows stream = backend.Upload(x, rows, width, Storage::kStream);
  const Rows normed = backend.LayerNorm(stream, gain, bias, 1e-6f, backend.OperandStorage(precision));
  const Rows hidden = backend.Linear(normed, up.matrix, {.bias = hidden_bias, .activation = Activation::kGelu});
  backend.Linear(hidden, down.matrix, {.add_to = &stream});
  const Rows again = backend.RmsNorm(stream, gain, 1e-6f, backend.OperandStorage(precision));
  const Rows gates = backend.Linear(again, up.matrix, {.activation = Activation::kGeluTanh, .stream_output = true});
  return backend.Download(backend.SwiGlu(gates, Storage::kStream));
}

TEST_P(RowRepeatability, RowsDoNotKnowTheirNeighbours) {
  // 1700 hidden columns: more than one block of the depth.
  const int64_t width = 52, hidden = emulated() ? 130 : 1700, many = emulated() ? 50 : 1025;
  const std::unique_ptr<Backend> one = GetParam().Make(1);
  const TestWeights up(*one, precision_, Noise(hidden * width, 0.3f, 1), hidden, width);
  const TestWeights down(*one, precision_, Noise(hidden * width, 0.3f, 2), width, hidden);
  const int64_t outputs = hidden / 2;
  const std::vector<float> x = Noise(many * width, 1, 3);
  const std::vector<float> all = RunRows(*one, precision_, up, down, x, many);
  for (int threads = 1; threads <= 3; ++threads) {
    const std::unique_ptr<Backend> backend = GetParam().Make(threads);
    EXPECT_EQ(RunRows(*backend, precision_, up, down, x, many), all) << threads << " threads";
  }
  for (int64_t rows = 1; rows <= 40; rows += emulated() ? 5 : 1) {
    const int64_t first = (rows * 37) % (many - 40);
    ASSERT_EQ(RunRows(*one, precision_, up, down, RowsOf(x, width, first, rows), rows),
              RowsOf(all, outputs, first, rows))
        << rows << " rows";
  }
  for (int64_t row = 0; row < many; row += 41) {
    ASSERT_EQ(RunRows(*one, precision_, up, down, RowsOf(x, width, row, 1), 1), RowsOf(all, outputs, row, 1))
        << "row " << row;
  }
}

TEST_P(RowRepeatability, RowsOfADeepProductDoNotKnowTheirNeighbours) {
  if (emulated()) GTEST_SKIP() << "takes long";
  // More than a cache keeps in tiles at once.
  const int64_t many = 300, inputs = 3000, outputs = 70;
  const std::unique_ptr<Backend> backend = GetParam().Make(2);
  const TestWeights w(*backend, precision_, Noise(outputs * inputs, 0.3f, 1), outputs, inputs);
  const std::vector<float> x = Noise(many * inputs, 1, 2);
  const auto multiply = [&](int64_t first, int64_t rows) {
    const Rows operand =
        backend->Upload(RowsOf(x, inputs, first, rows), rows, inputs, backend->OperandStorage(precision_));
    return backend->Download(backend->Linear(operand, w.matrix, {.stream_output = true}));
  };
  const std::vector<float> all = multiply(0, many);
  for (const int64_t rows : {1, 6, 7, 12, 33, 128}) {
    ASSERT_EQ(multiply(60, rows), RowsOf(all, outputs, 60, rows)) << rows << " rows";
  }
}

std::vector<float> RunAttention(Backend& backend, const TestWeights& w, const std::vector<float>& x,
                                const AttentionShape& shape) {
  const Rows rows =
      backend.Upload(x, shape.sequences * shape.length, w.matrix.inputs, backend.OperandStorage(w.matrix.precision));
  return backend.Download(backend.Attention(backend.Qkv(rows, w.matrix, {}, shape)));
}

TEST_P(SequenceRepeatability, SequencesDoNotKnowTheirNeighbours) {
  const int64_t inputs = 20, sequences = 3, length = emulated() ? 77 : 1025;
  for (const int head_size : {32, 64}) {
    const int heads = 2;
    const int64_t width = heads * head_size;
    const std::unique_ptr<Backend> one = GetParam().Make(1);
    const TestWeights w(*one, precision_, Noise(3 * width * inputs, 0.5f, 1), 3 * width, inputs);
    const std::vector<float> x = Noise(sequences * length * inputs, 1, 2);
    const std::vector<float> all = RunAttention(*one, w, x, {sequences, length, heads, head_size});
    for (const int threads : {2, 3}) {
      const std::unique_ptr<Backend> backend = GetParam().Make(threads);
      EXPECT_EQ(RunAttention(*backend, w, x, {sequences, length, heads, head_size}), all) << threads << " threads";
    }
    for (int64_t i = 0; i < sequences; ++i) {
      EXPECT_EQ(RunAttention(*one, w, RowsOf(x, inputs, i * length, length), {1, length, heads, head_size}),
                RowsOf(all, width, i * length, length))
          << "sequence " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowRepeatability, testing::ValuesIn(AllTargets()), TargetName);
INSTANTIATE_TEST_SUITE_P(Integers, RowRepeatability, testing::ValuesIn(IntegerTargets()), TargetName);
INSTANTIATE_TEST_SUITE_P(Widened, RowRepeatability, testing::ValuesIn(TargetsFor({Precision::kInt8Weights})),
                         TargetName);
INSTANTIATE_TEST_SUITE_P(Targets, SequenceRepeatability, testing::ValuesIn(AllTargets()), TargetName);

}  // namespace
}  // namespace sightline
