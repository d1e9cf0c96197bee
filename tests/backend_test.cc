#include <cmath>
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/backend_targets.h"

namespace sightline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ScopedIsa {
 public:
  explicit ScopedIsa(const char* value) {
    if (const char* old = std::getenv("SIGHTLINE_ISA")) old_ = old;
    setenv("SIGHTLINE_ISA", value, 1);
  }
  ~ScopedIsa() {
    if (old_.empty()) {
      unsetenv("SIGHTLINE_ISA");
    } else {
      setenv("SIGHTLINE_ISA", old_.c_str(), 1);
    }
  }

 private:
  std::string old_;
};

TEST(Isa, NamesRoundTrip) {
  for (const Isa isa : kAllIsas) {
    EXPECT_EQ(ParseIsa(NameOf(isa)).value(), isa);
  }
  EXPECT_THAT(ParseIsa("sse9").error().message, HasSubstr("'sse9', expected generic"));
}

TEST(Isa, EnvironmentLowersIt) {
  const ScopedIsa forced("generic");
  EXPECT_EQ(DetectIsa().value(), Isa::kGeneric);
}

TEST(Isa, EnvironmentCannotRaiseIt) {
  if (cpu::IsAvailable(Isa::kAmx)) GTEST_SKIP() << "this processor has every instruction set";
  const ScopedIsa forced("amx");
  const auto isa = DetectIsa();
  ASSERT_FALSE(isa);
  EXPECT_EQ(isa.error().code, Code::kUnsupported);
}

TEST(Isa, UnknownNameIsRefused) {
  const ScopedIsa forced("fastest");
  EXPECT_EQ(DetectIsa().error().code, Code::kUsage);
}

TEST(Precision, NamesRoundTrip) {
  for (const Precision precision :
       {Precision::kF32, Precision::kBF16, Precision::kInt8, Precision::kInt8Weights, Precision::kInt4}) {
    EXPECT_EQ(ParsePrecision(NameOf(precision)).value(), precision);
  }
  EXPECT_THAT(ParsePrecision("int3").error().message, HasSubstr("'int3', expected f32, bf16, int8, int8w or int4"));
}

TEST(QueryScale, IsLog2OfEOverRootOfHeadSize) {
  EXPECT_FLOAT_EQ(QueryScale(64), 1.44269504f / 8);
  EXPECT_FLOAT_EQ(QueryScale(32), 1.44269504f / std::sqrt(32.0f));
}

TEST(Peak, IsMeasured) {
  EXPECT_GT(MeasurePeakFlops(Isa::kGeneric, Precision::kF32, 1), 1e8);
  for (const Precision precision : {Precision::kBF16, Precision::kInt8, Precision::kInt8Weights, Precision::kInt4}) {
    EXPECT_GT(MeasurePeakFlops(DetectIsa().value(), precision, 2), 1e8) << NameOf(precision);
  }
}

TEST(ReadRate, IsMeasured) {
  const std::vector<std::byte> large(8 << 20), small(1000);
  const std::span<const std::byte> memories[] = {large, small};
  EXPECT_GT(MeasureReadRate(DetectIsa().value(), 2, memories), 1e8);
}

class CpuBackendTest : public testing::TestWithParam<Target> {
 protected:
  const Precision precision_ = GetParam().precision;
  const std::unique_ptr<Backend> backend_ = GetParam().Make(2);
  const Storage operand_ = backend_->OperandStorage(precision_);
};

TEST_P(CpuBackendTest, UploadRoundsToStorage) {
  const std::vector<float> values = Noise(6, 1, 1);
  EXPECT_EQ(backend_->Download(backend_->Upload(values, 2, 3, Storage::kStream)), values);
  std::vector<float> rounded = values;
  for (float& value : rounded) value = FloatFromBF16(BF16FromFloat(value));
  EXPECT_EQ(backend_->Download(backend_->Upload(values, 2, 3, Storage::kOperandBF16)), rounded);
}

TEST_P(CpuBackendTest, SlicesShareMemory) {
  const Rows all = backend_->Upload(std::vector<float>{1, 2, 3, 4, 5, 6}, 3, 2, operand_);
  backend_->CopyRows(backend_->Upload(std::vector<float>{7, 8}, 1, 2, operand_), Backend::Slice(all, 1, 1));
  EXPECT_THAT(backend_->Download(all), ElementsAre(1, 2, 7, 8, 5, 6));
  EXPECT_THAT(backend_->Download(Backend::Slice(all, 2, 1)), ElementsAre(5, 6));
}

TEST_P(CpuBackendTest, PackedWeightsComeBack) {
  // Row k of the identity picks column k of the weights.
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {77, 21}, {128, 64}, {200, 9}}) {
    const TestWeights w(*backend_, precision_, Noise(outputs * inputs, 1, 1), outputs, inputs);
    std::vector<float> identity(static_cast<size_t>(inputs * inputs));
    for (int64_t k = 0; k < inputs; ++k) identity[static_cast<size_t>(k * inputs + k)] = 1;
    const std::vector<float> y = backend_->Download(
        backend_->Linear(backend_->Upload(identity, inputs, inputs, operand_), w.matrix, {.stream_output = true}));
    for (int64_t i = 0; i < outputs * inputs; ++i) {
      const float value = w.values[static_cast<size_t>(i)];
      const float expected = precision_ == Precision::kF32 ? value : FloatFromBF16(BF16FromFloat(value));
      ASSERT_EQ(y[static_cast<size_t>(i % inputs * outputs + i / inputs)], expected) << outputs << "x" << inputs;
    }
  }
}

TEST_P(CpuBackendTest, LayoutNamesTellPackedBytesApart) {
  EXPECT_NE(backend_->PackedLayout(Precision::kF32), backend_->PackedLayout(Precision::kBF16));
  EXPECT_EQ(backend_->PackedBytes(Precision::kF32, 128, 64), 128u * 64 * 4);
  EXPECT_EQ(backend_->PackedBytes(Precision::kBF16, 128, 64), 128u * 64 * 2);
}

TEST_P(CpuBackendTest, SecondRequestTakesNoMemory) {
  const TestWeights qkv(*backend_, precision_, Noise(96 * 32, 1, 1), 96, 32);
  const TestWeights fc(*backend_, precision_, Noise(700 * 32, 1, 2), 700, 32);
  const std::vector<float> x = Noise(90 * 32, 1, 3), ones(32, 1.0f);
  const auto request = [&] {
    const Rows stream = backend_->Upload(x, 90, 32, Storage::kStream);
    const Rows normed = backend_->LayerNorm(stream, ones, ones, 1e-6f, operand_);
    const Rows attended = backend_->Attention(backend_->Qkv(normed, qkv.matrix, {}, {3, 30, 2, 16}));
    return backend_->Download(backend_->Linear(attended, fc.matrix, {}));
  };
  const std::vector<float> first = request();
  const size_t taken = backend_->allocated_bytes();
  EXPECT_GT(taken, 0u);
  EXPECT_EQ(request(), first);
  EXPECT_EQ(backend_->allocated_bytes(), taken);
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuBackendTest, testing::ValuesIn(AllTargets()), TargetName);

TEST(CpuBackend, NamesItself) {
  const auto backend = MakeCpuBackend({.threads = 1, .isa = Isa::kGeneric});
  EXPECT_EQ(backend->name(), "CPU generic, 1 thread");
  EXPECT_EQ(backend->isa(), "generic");
  EXPECT_EQ(backend->preferred_precision(), Precision::kF32);
}

TEST(MemoryPool, ReusesBlocksOfASize) {
  cpu::MemoryPool pool;
  std::byte* first = nullptr;
  {
    const auto block = pool.Take(5'000'000);
    first = block->data;
    EXPECT_GE(block->bytes, 5'000'000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (size_t{2} << 20), 0u);
  }
  const size_t taken = pool.allocated_bytes();
  const auto again = pool.Take(4'900'000);
  EXPECT_EQ(again->data, first);
  EXPECT_EQ(pool.allocated_bytes(), taken);
  const auto another = pool.Take(4'900'000);
  EXPECT_NE(another->data, first);
  EXPECT_GT(pool.allocated_bytes(), taken);
}

TEST(MemoryPool, BlocksOutliveIt) {
  std::shared_ptr<DeviceBlock> block;
  {
    cpu::MemoryPool pool;
    block = pool.Take(10);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data) % 64, 0u);
  }
  block->data[block->bytes - 1] = std::byte{1};
}

TEST(Recorder, WritesOneLinePerOperation) {
  std::vector<std::string> lines;
  const auto backend = MakeRecordingBackend(&lines);
  const TestWeights w(*backend, Precision::kF32, std::vector<float>(96 * 32), 96, 32);
  const TestWeights narrow(*backend, Precision::kF32, std::vector<float>(32 * 96), 32, 96);
  const std::vector<float> bias(96), ones(32);
  const Rows x = backend->Upload(std::vector<float>(20 * 32), 20, 32, Storage::kStream);
  const Rows normed = backend->LayerNorm(x, ones, ones, 1e-6f, backend->OperandStorage(Precision::kF32));
  backend->Attention(backend->Qkv(normed, w.matrix, bias, {2, 10, 2, 16}));
  const Rows hidden = backend->Linear(normed, w.matrix, {.bias = bias, .activation = Activation::kGelu});
  backend->Linear(hidden, narrow.matrix, {.add_to = &x});
  EXPECT_EQ(backend->Download(Backend::Slice(x, 3, 1)), std::vector<float>(32));
  EXPECT_THAT(lines, ElementsAre("upload x[20,32] -> stream", "layer_norm x[20,32] -> operand",
                                 "qkv x[20,32] w[96,32] bias -> sequences 2 length 10 heads 2 head_size 16",
                                 "attention sequences 2 length 10 heads 2 head_size 16 -> operand",
                                 "linear x[20,32] w[96,32] bias gelu -> operand", "linear x[20,96] w[32,96] += stream",
                                 "download x[1,32]"));
}

TEST(Recorder, WritesTheOperationsOfADecoder) {
  std::vector<std::string> lines;
  const auto backend = MakeRecordingBackend(&lines);
  const std::vector<float> gain(64), angles(12 * 8);
  const KeyValues cache = backend->EmptyKeyValues(40, 1, 16, Storage::kOperandF32);
  const Rows x = backend->Empty(12, 64, Storage::kStream);
  backend->RmsNorm(x, gain, 1e-6f, Storage::kOperandInt8);
  const Queries queries = backend->SplitHeads(x, 2, {RopePairs::kHalves, angles, angles}, 9, cache);
  backend->Attention(queries, cache, {.keys = 21, .causal_rows = 6, .first_key = 9, .hidden_key = 14},
                     Storage::kStream);
  backend->Attention(queries, cache, {.keys = 21}, Storage::kOperandF32);
  backend->SwiGlu(x, Storage::kOperandInt8);
  backend->Convert(Backend::Reshape(x, 6, 128), Storage::kOperandF32);
  backend->CopyKeyValues(cache, 21, backend->EmptyKeyValues(80, 1, 16, Storage::kOperandF32));
  EXPECT_THAT(lines,
              ElementsAre("rms_norm x[12,64] -> operand",
                          "split_heads x[12,64] heads 2/1 head_size 16 rope halves -> positions from 9",
                          "attention q[12] heads 2/1 head_size 16 keys 21 causal 6 from 9 hidden 14 -> stream",
                          "attention q[12] heads 2/1 head_size 16 keys 21 -> operand", "swiglu x[12,64] -> operand",
                          "convert x[6,128] -> operand", "copy key_values[21] heads 1/1 head_size 16"));
}

// Every backend checks in the same place; the recorder has no threads, which such tests do not like.
class ShapeChecks : public testing::Test {
 protected:
  std::vector<std::string> lines_;
  const std::unique_ptr<Backend> backend_ = MakeRecordingBackend(&lines_);
  const std::vector<float> gain_ = std::vector<float>(63);
  const Rows x_ = backend_->Empty(12, 64, Storage::kStream);
  const KeyValues cache_ = backend_->EmptyKeyValues(40, 1, 16, Storage::kOperandF32);
  const Queries queries_ = backend_->SplitHeads(x_, 2, {}, 0, cache_);
};
using ShapeChecksDeathTest = ShapeChecks;

TEST_F(ShapeChecksDeathTest, RowsMustFit) {
  EXPECT_DEATH(backend_->RmsNorm(x_, gain_, 1e-6f, Storage::kStream), "gain.size");
  EXPECT_DEATH(backend_->SwiGlu(backend_->Empty(2, 3, Storage::kStream), Storage::kStream), "columns % 2");
  EXPECT_DEATH(backend_->Convert(backend_->Empty(2, 4, Storage::kOperandInt8), Storage::kStream), "kStream");
  EXPECT_DEATH(Backend::Reshape(x_, 5, 100), "new_rows");
}

TEST_F(ShapeChecksDeathTest, HeadsMustFit) {
  EXPECT_DEATH(backend_->EmptyKeyValues(10, 1, 12, Storage::kOperandF32), "head_size");
  EXPECT_DEATH(backend_->SplitHeads(x_, 3, {}, 0, cache_), "columns");
  EXPECT_DEATH(backend_->SplitHeads(x_, 2, {}, 29, cache_), "capacity");
  EXPECT_DEATH(backend_->SplitHeads(x_, 2, {RopePairs::kHalves, gain_, gain_}, 0, cache_), "vector");
}

TEST_F(ShapeChecksDeathTest, EveryRowMustSeeAKey) {
  const auto attend = [&](const Mask& mask) { backend_->Attention(queries_, cache_, mask, Storage::kStream); };
  EXPECT_DEATH(attend({.keys = 0}), "keys");
  EXPECT_DEATH(attend({.keys = 41}), "keys");
  EXPECT_DEATH(attend({.keys = 13, .causal_rows = 13}), "causal_rows");
  EXPECT_DEATH(attend({.keys = 13, .causal_rows = 12, .first_key = 2}), "first_key");
  EXPECT_DEATH(attend({.keys = 13, .hidden_key = 13}), "hidden_key");
  EXPECT_DEATH(attend({.keys = 1, .hidden_key = 0}), "keys");
}

}  // namespace
}  // namespace sightline
