// Private: loads, reductions, exp2, GELU and SiLU for any vector of vector_<isa>.inl.h. `Isa` is one of those structs.
//
// Its integers, in vectors of 32-bit lanes (Ints):
//   SetInts    every lane the same
//   WidenBytes signed bytes from memory to 16-bit numbers, two in a lane
//   IntsOfBytes signed bytes from memory, one in a lane
//   MulWords   per lane: sum of the two products of 16-bit numbers
//   MulBytes   per half lane: sum of the two products of unsigned and signed bytes, as 16-bit number (saturating, on
//              numbers where it does not come to that)
//   AddWords   sums of 16-bit numbers, modulo 2^16
//   StoreWords, StoreBytes store numbers between -128 and 127 as 16-bit numbers or as bytes
//   DotBytes   a third argument plus, per lane, the four products of unsigned and signed bytes; where there is such an
//              instruction
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

template <class Isa>
inline constexpr bool kDotsBytes = requires(typename Isa::Ints v) {
  Isa::DotBytes(v, v, v);
};

// False where the intrinsics are emulated.
#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#else
constexpr int kRegisterBytes = 32;
#endif
template <class Isa>
inline constexpr bool kHasRegisters = sizeof(typename Isa::Vec) <= kRegisterBytes;

// A vector of as many elements as Isa has lanes.
template <class Isa>
using FloatsOf __attribute__((vector_size(4 * Isa::kLanes))) = float;

template <class Isa>
typename Isa::Vec Load(const float* from) {
  typename Isa::Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class Isa>
typename Isa::Ints LoadInts(const void* from) {
  typename Isa::Ints v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class Isa>
typename Isa::Vec ToFloat(typename Isa::Ints v) {
  return (typename Isa::Vec) __builtin_convertvector(v, FloatsOf<Isa>);
}

template <class Isa>
void Store(typename Isa::Vec v, float* to) {
  __builtin_memcpy(to, &v, sizeof v);
}

template <class Isa>
using PairsOf __attribute__((vector_size(4 * Isa::kLanes))) = uint64_t;

// Elements 2 i and 2 i + 1 change places.
template <class Isa>
typename Isa::Vec SwapNeighbours(typename Isa::Vec v) {
  const auto pairs = (PairsOf<Isa>)v;
  return (typename Isa::Vec)(pairs << 32 | pairs >> 32);
}

// The first `count` < kLanes elements; the others are zero.
template <class Isa>
typename Isa::Vec LoadFirst(const float* from, int64_t count) {
  float lanes[Isa::kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return Load<Isa>(lanes);
}

template <class Isa>
void StoreFirst(typename Isa::Vec v, float* to, int64_t count) {
  float lanes[Isa::kLanes];
  Store<Isa>(v, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// `v` with the elements from `count` on replaced.
template <class Isa>
typename Isa::Vec KeepFirst(typename Isa::Vec v, int64_t count, float other) {
  typedef int32_t Indices __attribute__((vector_size(sizeof(v))));
  static constexpr int32_t kIndices[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  Indices indices;
  __builtin_memcpy(&indices, kIndices, sizeof indices);
  const auto kept = (typename Isa::Bits)(indices < static_cast<int32_t>(count));
  return (typename Isa::Vec)(((typename Isa::Bits)v & kept) | ((typename Isa::Bits)Isa::Set(other) & ~kept));
}

// op over all lanes, halving: a fixed order on every compiler.
template <class Isa, class Op>
float Reduce(typename Isa::Vec v, Op op) {
  if constexpr (Isa::kLanes == 16) {
    const auto eight = op(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                          __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
    const auto four =
        op(__builtin_shufflevector(eight, eight, 0, 1, 2, 3), __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
    return op(op(four[0], four[2]), op(four[1], four[3]));
  } else if constexpr (Isa::kLanes == 8) {
    const auto four = op(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7));
    return op(op(four[0], four[2]), op(four[1], four[3]));
  } else {
    return op(op(v[0], v[2]), op(v[1], v[3]));
  }
}

template <class Isa>
float Sum(typename Isa::Vec v) {
  return Reduce<Isa>(v, [](auto a, auto b) { return a + b; });
}

template <class Isa>
float Largest(typename Isa::Vec v) {
  return Reduce<Isa>(v, [](auto a, auto b) { return a > b ? a : b; });
}

// 2^(x - whole) for a whole number |whole| < 2^21 and x - whole <= 127, relative error below 1e-7; everything under
// 2^-100 counts as 2^-100. NaN stays NaN. x = n + f with |f| <= 1/2; 2^f is a minimax polynomial with constant term 1
// (relative error 2.6e-9 before rounding).
template <class Isa>
typename Isa::Vec Exp2(typename Isa::Vec x, float whole = 0.0f) {
  using Vec = typename Isa::Vec;
  using Bits = typename Isa::Bits;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum, here less `whole`.
  const Vec rounder = Isa::Set(12582912.0f - whole);
  x = Isa::Max(Isa::Set(whole - 100.0f), x);
  const Vec rounded = x + rounder;
  const Vec f = x - (rounded - rounder);
  Vec p = Isa::Set(1.5594677549e-4f);
  p = Isa::MulAdd(p, f, Isa::Set(1.3406643905e-3f));
  p = Isa::MulAdd(p, f, Isa::Set(9.6176929749e-3f));
  p = Isa::MulAdd(p, f, Isa::Set(5.5503105510e-2f));
  p = Isa::MulAdd(p, f, Isa::Set(2.4022652783e-1f));
  p = Isa::MulAdd(p, f, Isa::Set(6.9314721497e-1f));
  p = Isa::MulAdd(p, f, Isa::Set(1.0f));
  return (Vec)((Bits)p + ((Bits)rounded << 23));
}

// x * (1 + erf(x / sqrt 2)) / 2 = max(x, 0) - |x| / 2 * erfc(|x| / sqrt 2), with erfc(z) = poly(t) exp(-z^2),
// t = 1 / (1 + p z): Abramowitz and Stegun 7.1.26, |error| of erf <= 1.5e-7.
template <class Isa>
typename Isa::Vec Gelu(typename Isa::Vec x) {
  using Vec = typename Isa::Vec;
  const Vec size = (Vec)((typename Isa::Bits)x & 0x7fffffffu);
  const Vec t = Isa::Set(1.0f) / Isa::MulAdd(size, Isa::Set(0.3275911f * 0.70710678f), Isa::Set(1.0f));
  Vec poly = Isa::Set(1.061405429f);
  poly = Isa::MulAdd(poly, t, Isa::Set(-1.453152027f));
  poly = Isa::MulAdd(poly, t, Isa::Set(1.421413741f));
  poly = Isa::MulAdd(poly, t, Isa::Set(-0.284496736f));
  poly = Isa::MulAdd(poly, t, Isa::Set(0.254829592f));
  const Vec tail = poly * t * Exp2<Isa>(x * x * Isa::Set(-0.5f * 1.44269504f));
  return Isa::Max(Isa::Set(0.0f), x) - Isa::Set(0.5f) * size * tail;
}

// x / (1 + e^-z). z >= -87, else 2^(-z log2 e) is beyond the range of Exp2.
template <class Isa>
[[gnu::always_inline]] inline typename Isa::Vec TimesSigmoid(typename Isa::Vec x, typename Isa::Vec z) {
  return x / (Isa::Set(1.0f) + Exp2<Isa>(z * Isa::Set(-1.44269504f)));
}

// Below -87 the result is less than 1e-35 in size, and constant here.
template <class Isa>
typename Isa::Vec Silu(typename Isa::Vec x) {
  x = Isa::Max(Isa::Set(-87.0f), x);
  return TimesSigmoid<Isa>(x, x);
}

// x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3). Below -9.9 less than 1e-35 in size.
template <class Isa>
typename Isa::Vec GeluTanh(typename Isa::Vec x) {
  x = Isa::Max(Isa::Set(-9.9f), x);
  return TimesSigmoid<Isa>(x, x * Isa::MulAdd(x * x, Isa::Set(0.07135481283f), Isa::Set(1.5957691216f)));
}

}  // namespace
}  // namespace sightline::cpu
