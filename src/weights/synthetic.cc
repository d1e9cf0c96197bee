// Compiled without contraction (module.cmake): a fused multiply-add would round once where the rule rounds twice.
#include <cmath>

#include "weights/weights.h"

namespace sightline {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

// Finaliser of splitmix64: https://prng.di.unimi.it/splitmix64.c
constexpr uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint64_t Key(std::string_view name, uint64_t seed) { return Mix(Fnv1a64(AsBytes(name)) ^ (seed * kGolden)); }

struct Octave {
  int edge;  // of a cell, in pixels
  unsigned weight;
};
constexpr Octave kOctaves[] = {{64, 9}, {16, 4}, {4, 2}, {1, 1}};
constexpr int kWeightBits = 4;  // the weights add up to 16

void AddOctave(const Octave& octave, uint64_t seed, int width, int height, std::span<uint16_t> sums) {
  const uint64_t key = Key("rgb_noise." + std::to_string(octave.edge), seed);
  const auto cells = static_cast<uint64_t>((width + octave.edge - 1) / octave.edge);
  size_t at = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto cell = static_cast<uint64_t>(y / octave.edge) * cells + static_cast<uint64_t>(x / octave.edge);
      for (uint64_t channel = 0; channel < 3; ++channel) {
        const uint64_t value = Mix(key + (cell * 3 + channel + 1) * kGolden) >> 56;
        sums[at] = static_cast<uint16_t>(sums[at] + octave.weight * value);
        ++at;
      }
    }
  }
}

}  // namespace

void SyntheticTensor(std::string_view name, uint64_t seed, float centre, float amplitude, std::span<float> values) {
  SyntheticPiece(name, seed, 0, centre, amplitude, values);
}

void SyntheticPiece(std::string_view name, uint64_t seed, uint64_t first, float centre, float amplitude,
                    std::span<float> values) {
  const uint64_t start = Key(name, seed) + first * kGolden;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = Mix(start + (i + 1) * kGolden) >> 40;
    const float unit = static_cast<float>(static_cast<int32_t>(bits) - (1 << 23)) * 0x1p-23f;  // both steps exact
    const float scaled = amplitude * unit;
    values[i] = centre + scaled;
  }
}

float SyntheticAmplitude(double gain, double fan_in) { return static_cast<float>(gain * std::sqrt(3.0 / fan_in)); }

std::vector<uint8_t> SyntheticRgb(uint64_t seed, int width, int height) {
  SIGHTLINE_CHECK(width > 0 && height > 0);
  std::vector<uint16_t> sums(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (const Octave& octave : kOctaves) AddOctave(octave, seed, width, height, sums);
  std::vector<uint8_t> pixels(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) pixels[i] = static_cast<uint8_t>(sums[i] >> kWeightBits);
  return pixels;
}

}  // namespace sightline
