#include "tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
TensorView ViewOf(const std::vector<T>& values, DType dtype, Shape shape, std::vector<int64_t> strides,
                  int64_t first = 0) {
  return {reinterpret_cast<const std::byte*>(values.data() + first), dtype, std::move(shape), std::move(strides)};
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> out(static_cast<size_t>(ElementCount(view.shape)), -1);
  const Status status = CopyAsFloat(view, out);
  EXPECT_TRUE(status) << status.error().message;
  return out;
}

std::vector<float> CountTo(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

TEST(DTypes, HaveNamesAndSizes) {
  EXPECT_EQ(NameOf(DType::kF32), "float32");
  EXPECT_EQ(NameOf(DType::kBF16), "bfloat16");
  EXPECT_EQ(NameOf(DType::kBool), "bool");
  EXPECT_EQ(SizeOf(DType::kF64), 8u);
  EXPECT_EQ(SizeOf(DType::kF16), 2u);
  EXPECT_EQ(SizeOf(DType::kI32), 4u);
  EXPECT_EQ(SizeOf(DType::kU8), 1u);
}

TEST(Shapes, PrintAndCount) {
  EXPECT_EQ(ToString({768, 3, 14, 14}), "[768, 3, 14, 14]");
  EXPECT_EQ(ToString({}), "[]");
  EXPECT_EQ(ElementCount({2, 3, 4}), 24);
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({5, 0}), 0);
}

// --- number formats

// The value of a binary16 by its definition.
double ValueOfHalf(uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31);
  const double fraction = static_cast<double>(bits & 0x3ff) / 1024;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  return sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
}

TEST(Float16, EveryPatternHasItsValueAndComesBack) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const float value = FloatFromF16(bits);
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << pattern;
    if ((bits & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(value)) << pattern;
      EXPECT_EQ(F16FromFloat(value), bits | 0x200) << pattern;  // NaN becomes quiet and keeps its payload
      continue;
    }
    if ((bits & 0x7fff) == 0x7c00) {
      EXPECT_TRUE(std::isinf(value)) << pattern;
    } else {
      EXPECT_EQ(value, ValueOfHalf(bits)) << pattern;
    }
    EXPECT_EQ(F16FromFloat(value), bits) << pattern;
  }
}

// Between every two neighbours: the middle goes to the even one, the floats beside it to the nearer one.
TEST(Float16, EveryGapRoundsToNearestEven) {
  for (uint32_t low = 0; low < 0x7c00; ++low) {
    const double above = low + 1 == 0x7c00 ? 65536.0 : ValueOfHalf(low + 1);
    const auto middle = static_cast<float>((ValueOfHalf(low) + above) / 2);
    const uint32_t even = low + (low & 1);
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float factor = sign == 0 ? 1.0f : -1.0f;
      EXPECT_EQ(F16FromFloat(factor * middle), sign | even) << low;
      EXPECT_EQ(F16FromFloat(factor * std::nextafter(middle, 0.0f)), sign | low) << low;
      EXPECT_EQ(F16FromFloat(factor * std::nextafter(middle, kInfinity)), sign | (low + 1)) << low;
    }
  }
}

TEST(Float16, Extremes) {
  EXPECT_EQ(F16FromFloat(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(F16FromFloat(-kInfinity), 0xfc00);
  EXPECT_EQ(F16FromFloat(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(F16FromFloat(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(FloatFromF16(F16FromFloat(kNan))));
}

TEST(BFloat16, EveryPatternComesBack) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const bool nan = (bits & 0x7fff) > 0x7f80;
    EXPECT_EQ(BF16FromFloat(FloatFromBF16(bits)), nan ? bits | 0x40 : bits) << pattern;
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  const auto rounded = [](uint32_t bits) { return BF16FromFloat(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3f808000), 0x3f80);  // tie, even below
  EXPECT_EQ(rounded(0x3f818000), 0x3f82);  // tie, even above
  EXPECT_EQ(rounded(0x3f807fff), 0x3f80);
  EXPECT_EQ(rounded(0x3f808001), 0x3f81);
  EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);  // overflow
  EXPECT_TRUE(std::isnan(FloatFromBF16(rounded(0x7f800001))));
}

// --- views

TEST(Views, KnowWhetherTheyAreContiguous) {
  const std::vector<float> values(24);
  EXPECT_TRUE(ViewOf(values, DType::kF32, {2, 3, 4}, {12, 4, 1}).contiguous());
  EXPECT_TRUE(ViewOf(values, DType::kF32, {}, {}).contiguous());
  EXPECT_TRUE(ViewOf(values, DType::kF32, {2, 1, 4}, {4, 99, 1}).contiguous());
  EXPECT_TRUE(ViewOf(values, DType::kF32, {2, 0}, {7, 7}).contiguous());
  EXPECT_FALSE(ViewOf(values, DType::kF32, {3, 2}, {1, 3}).contiguous());
  EXPECT_FALSE(ViewOf(values, DType::kF32, {2, 3}, {4, 1}).contiguous());
}

TEST(Views, CopyInRowMajorOrderWhateverTheStrides) {
  const std::vector<float> values = CountTo(24);
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {2, 3}, {3, 1})), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {3, 2}, {1, 3})), ElementsAre(0, 3, 1, 4, 2, 5));  // transposed
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {2, 2}, {0, 1})), ElementsAre(0, 1, 0, 1));        // expanded
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {3}, {-2}, 10)), ElementsAre(10, 8, 6));           // reversed
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {2, 2, 2}, {1, 12, 4})), ElementsAre(0, 4, 12, 16, 1, 5, 13, 17));
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {}, {}, 7)), ElementsAre(7));
  EXPECT_THAT(Floats(ViewOf(values, DType::kF32, {3, 0, 2}, {1, 1, 1})), ElementsAre());
}

TEST(Views, ConvertEveryFloatFormat) {
  const std::vector<double> doubles = {1.5, 1.0 + 0x1p-25, -1e300};
  EXPECT_THAT(Floats(ViewOf(doubles, DType::kF64, {3}, {1})), ElementsAre(1.5f, 1.0f, -kInfinity));
  const std::vector<uint16_t> halves = {0x3c00, 0x0001, 0xc000};
  EXPECT_THAT(Floats(ViewOf(halves, DType::kF16, {3}, {1})), ElementsAre(1.0f, 0x1p-24f, -2.0f));
  const std::vector<uint16_t> brains = {0x3f80, 0x4049};
  EXPECT_THAT(Floats(ViewOf(brains, DType::kBF16, {2}, {1})), ElementsAre(1.0f, 3.140625f));
}

TEST(Views, RefuseToReadIntegersAsNumbersOfANetwork) {
  const std::vector<int64_t> values = {1, 2};
  std::vector<float> out(2);
  const Status status = CopyAsFloat(ViewOf(values, DType::kI64, {2}, {1}), out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorruptWeights);
  EXPECT_EQ(status.error().message, "tensor has dtype int64, expected float16, bfloat16, float32 or float64");
}

TEST(Views, MayStartAtAnyAddress) {
  std::vector<std::byte> bytes(9);
  const float values[] = {2.5f, -3};
  std::memcpy(bytes.data() + 1, values, sizeof values);
  EXPECT_THAT(Floats({bytes.data() + 1, DType::kF32, {2}, {1}}), ElementsAre(2.5f, -3));
}

TEST(Views, CopyAsStoredKeepsTheBits) {
  const std::vector<uint16_t> values = {1, 2, 3, 4, 5, 6};
  const auto stored = [&](Shape shape, std::vector<int64_t> strides) {
    const auto bytes = CopyAsStored(ViewOf(values, DType::kI16, std::move(shape), std::move(strides)));
    std::vector<uint16_t> out(bytes.size() / 2);
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  };
  EXPECT_THAT(stored({6}, {1}), ElementsAreArray(values));
  EXPECT_THAT(stored({3, 2}, {1, 3}), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(stored({2, 2}, {3, 1}), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(stored({0}, {1}), ElementsAre());
}

}  // namespace
}  // namespace sightline
