// tensor: types, shapes and views of numbers in host memory, and the exact conversions between number formats.
// Everything here is a value or a view; views own nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

size_t SizeOf(DType dtype);            // bytes of one element
std::string_view NameOf(DType dtype);  // "float32", "bfloat16", "int64", "uint8", "bool"

using Shape = std::vector<int64_t>;  // outermost dimension first; empty for a scalar
inline constexpr int kMaxRank = 8;
std::string ToString(const Shape& shape);  // "[768, 3, 14, 14]"
int64_t ElementCount(const Shape& shape);  // product; the shape must have been checked against overflow

// Read-only view of a tensor in memory that somebody else owns. Element (i0, i1, ...) is
// data[i0 * strides[0] + i1 * strides[1] + ...]; strides count elements. Whoever makes a view has checked that every
// element lies inside the memory.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<int64_t> strides;

  bool contiguous() const;  // row-major without gaps
};

// Row-major copy as float32. The view must be kF32, kF16, kBF16 or kF64 (rounded to nearest), else kCorruptWeights.
Status CopyAsFloat(const TensorView& view, std::span<float> out);
// Row-major copy of the elements as stored.
std::vector<std::byte> CopyAsStored(const TensorView& view);

// Round to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
constexpr uint16_t BF16FromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
constexpr float FloatFromBF16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE 754 binary16, round to nearest even.
uint16_t F16FromFloat(float value);
float FloatFromF16(uint16_t bits);

}  // namespace sightline
