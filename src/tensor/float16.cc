#include "tensor/tensor.h"

namespace sightline {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr uint16_t kHalfInfinity = 0x7c00u;

// value / 2^shift, to nearest, ties to even.
constexpr uint32_t ShiftToNearest(uint32_t value, int shift) {
  const uint32_t odd = (value >> shift) & 1u;
  return (value + (1u << (shift - 1)) - 1u + odd) >> shift;
}

// Bits of the binary16 nearest to a float without its sign.
constexpr uint32_t HalfMagnitude(uint32_t bits) {
  constexpr uint32_t kTooLarge = 0x477ff000u;        // 65520, half way from the largest number to 2^16
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  constexpr uint32_t kHalfSmallest = 0x33000000u;    // 2^-25, half the smallest denormal number: a tie, so zero
  if (bits > kFloatInfinity) return kHalfInfinity | 0x200u | ((bits >> 13) & 0x3ffu);  // NaN, made quiet
  if (bits >= kTooLarge) return kHalfInfinity;
  if (bits >= kSmallestNormal) return ShiftToNearest(bits - ((127u - 15u) << 23), 13);
  if (bits <= kHalfSmallest) return 0;
  // Denormal: the float is significand * 2^(exponent - 150), the half counts units of 2^-24.
  const uint32_t significand = (bits & 0x7fffffu) | 0x800000u;
  const int exponent = static_cast<int>(bits >> 23);
  return ShiftToNearest(significand, 126 - exponent);
}

}  // namespace

uint16_t F16FromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | HalfMagnitude(bits & 0x7fffffffu));
}

float FloatFromF16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= kHalfInfinity) return std::bit_cast<float>(sign | kFloatInfinity | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  // Denormal. The product is a normal float or zero, so flush-to-zero does not touch it.
  const float absolute = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(absolute));
}

}  // namespace sightline
