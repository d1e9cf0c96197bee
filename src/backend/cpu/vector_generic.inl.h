// Private: four floats at a time in portable C++ (vector extensions of GCC and Clang). Multiply-add rounds twice here.
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

struct Generic {
  typedef float Vec __attribute__((vector_size(16)));
  typedef uint32_t Bits __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kPanelVectors = 2;

  static Vec Set(float value) { return Vec{value, value, value, value}; }
  static Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }
  // b where either is not a number.
  static Vec Max(Vec a, Vec b) { return a > b ? a : b; }
};

}  // namespace
}  // namespace sightline::cpu
