// Private: the table of one instruction set. Everything below it is a template over that set, in an unnamed namespace:
// code compiled for one processor can never stand in for another's.
#pragma once

#include <cstdint>

#include "backend/cpu/attention.inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/layer_norm.inl.h"
#include "backend/cpu/linear.inl.h"
#include "backend/cpu/matmul.inl.h"

namespace sightline::cpu {
namespace {

template <class Isa>
void LayerNorm(const LayerNormTask& task) {
  if constexpr (requires { typename Isa::Half; }) {
    if (task.store_bf16) return LayerNormInto<Isa, StoreBF16<Isa>>(task);
  }
  LayerNormInto<Isa, StoreF32<Isa>>(task);
}

// Enough independent sums to hide the latency of a multiply-add on every processor we know.
constexpr int kSpinSums = 12;

template <class Isa, class Step>
int64_t Spin(int64_t rounds, int64_t flops_per_step, Step step) {
  typename Isa::Vec sums[kSpinSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSpinSums; ++i)
    sums[i] = Isa::Set(static_cast<float>(i));  // all different: equal ones would merge
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kSpinSums; ++i) sums[i] = step(sums[i]);
  }
  typename Isa::Vec total = sums[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSpinSums; ++i) total += sums[i];
  // Never true, but the compiler does not know: the sums have to be computed.
  if (Sum<Isa>(total) < 0.0f) return 0;
  return rounds * kSpinSums * flops_per_step;
}

template <class Isa>
int64_t SpinF32(int64_t rounds) {
  const typename Isa::Vec half = Isa::Set(0.5f);
  return Spin<Isa>(rounds, 2 * Isa::kLanes, [half](auto sum) { return Isa::MulAdd(half, half, sum); });
}

template <class Isa>
int64_t SpinBF16(int64_t rounds) {
  const typename Isa::Bits half = Isa::SetPair(0x3f003f00u);
  return Spin<Isa>(rounds, 4 * Isa::kLanes, [half](auto sum) { return Isa::DotPairs(half, half, sum); });
}

template <class Isa>
constexpr FormatKernels kF32Kernels = {false, Linear<F32Product<Isa>>, Qkv<F32Product<Isa>>, Attention<F32Product<Isa>>,
                                       SpinF32<Isa>};

// bfloat16 weights without bfloat16 arithmetic.
template <class Isa>
constexpr FormatKernels kWideningKernels = {false, Linear<WideningProduct<Isa>>, Qkv<WideningProduct<Isa>>,
                                            Attention<F32Product<Isa>>, SpinF32<Isa>};

template <class Isa>
constexpr FormatKernels kBF16Kernels = {true, Linear<PairProduct<Isa>>, Qkv<PairProduct<Isa>>,
                                        Attention<PairProduct<Isa>>, SpinBF16<Isa>};

template <class Isa>
constexpr CpuKernels MakeKernels(const FormatKernels& bf16) {
  return {Isa::kLanes, Isa::kLanes * Isa::kPanelVectors, kF32Kernels<Isa>, bf16, LayerNorm<Isa>};
}

}  // namespace
}  // namespace sightline::cpu
