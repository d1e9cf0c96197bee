// Private: where finished vectors go.
#pragma once

#include <cstdint>

#include "backend/cpu/vector_math.inl.h"

namespace sightline::cpu {
namespace {

template <class Isa>
concept HasBF16 = requires {
  typename Isa::Half;
};
template <class Isa>
inline constexpr bool kHasBF16 = HasBF16<Isa>;

// PutFirst writes `count` < kLanes elements.
template <class Isa>
struct StoreF32 {
  using Element = float;
  static void Put(typename Isa::Vec v, float* to) { Store<Isa>(v, to); }
  static void PutFirst(typename Isa::Vec v, float* to, int64_t count) { StoreFirst<Isa>(v, to, count); }
};

template <class Isa>
struct AddF32 {
  using Element = float;
  static void Put(typename Isa::Vec v, float* to) { Store<Isa>(Load<Isa>(to) + v, to); }
  static void PutFirst(typename Isa::Vec v, float* to, int64_t count) {
    StoreFirst<Isa>(LoadFirst<Isa>(to, count) + v, to, count);
  }
};

template <class Isa>
struct StoreBF16 {
  using Element = uint16_t;
  static void Put(typename Isa::Vec v, uint16_t* to) {
    const typename Isa::Half half = Isa::Narrow(v);
    __builtin_memcpy(to, &half, sizeof half);
  }
  static void PutFirst(typename Isa::Vec v, uint16_t* to, int64_t count) {
    uint16_t lanes[Isa::kLanes];
    Put(v, lanes);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
  }
};

// y[i] = at(load)[i]. `load` reads the vector at i of a row that it is given.
template <class Isa, class Sink, class At>
void StoreEach(int64_t columns, typename Sink::Element* y, At at) {
  int64_t i = 0;
  for (; i + Isa::kLanes <= columns; i += Isa::kLanes) {
    Sink::Put(at([i](const float* row) { return Load<Isa>(row + i); }), y + i);
  }
  if (const int64_t rest = columns - i; rest > 0) {
    Sink::PutFirst(at([i, rest](const float* row) { return LoadFirst<Isa>(row + i, rest); }), y + i, rest);
  }
}

}  // namespace
}  // namespace sightline::cpu
