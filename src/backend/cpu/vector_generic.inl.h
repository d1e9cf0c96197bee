// Private: four floats at a time in portable C++ (vector extensions of GCC and Clang). Multiply-add rounds twice here.
#pragma once

#include <cstdint>

namespace sightline::cpu {
namespace {

struct Generic {
  typedef float Vec __attribute__((vector_size(16)));
  typedef uint32_t Bits __attribute__((vector_size(16)));
  typedef int32_t Ints __attribute__((vector_size(16)));
  static constexpr int kLanes = 4;
  static constexpr int kPanelVectors = 2;

  static Vec Set(float value) { return Vec{value, value, value, value}; }
  static Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }
  // b where either is not a number.
  static Vec Max(Vec a, Vec b) { return a > b ? a : b; }

  static Ints SetInts(int32_t value) { return Ints{value, value, value, value}; }
  static Ints WidenBytes(const int8_t* from) {
    Words words{};
    for (int i = 0; i < 8; ++i) words[i] = from[i];
    return (Ints)words;
  }
  static Ints IntsOfBytes(const int8_t* from) { return Ints{from[0], from[1], from[2], from[3]}; }
  static Ints MulWords(Ints a, Ints b) { return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16); }
  static Ints MulBytes(Ints unsigned_bytes, Ints signed_bytes) {
    const auto u = (Words)unsigned_bytes, s = (Words)signed_bytes;
    return (Ints)((u & 0xff) * (s << 8 >> 8) + (u >> 8 & 0xff) * (s >> 8));
  }
  static Ints AddWords(Ints a, Ints b) { return (Ints)((UnsignedWords)a + (UnsignedWords)b); }
  static void StoreWords(Ints v, int16_t* words) {
    for (int i = 0; i < kLanes; ++i) words[i] = static_cast<int16_t>(v[i]);
  }
  static void StoreBytes(Ints v, int8_t* bytes) {
    for (int i = 0; i < kLanes; ++i) bytes[i] = static_cast<int8_t>(v[i]);
  }

 private:
  typedef int16_t Words __attribute__((vector_size(16)));
  typedef uint16_t UnsignedWords __attribute__((vector_size(16)));
};

}  // namespace
}  // namespace sightline::cpu
