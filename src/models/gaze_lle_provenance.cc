#include <cmath>

#include "models/models.h"

namespace sightline {
namespace {

// Amplitude of cls_token in the built-in rules (assets/synthesis/gaze_lle_rules.json); its centre is 0.
constexpr float kClassTokenAmplitude = 0.8f;

// A synthetic value is amplitude * k / 2^23 with an integer k, rounded to float32. Trained values miss that grid: under
// half the amplitude float32 is at least three times as fine, and most of a network's values are far smaller.
bool OnSyntheticGrid(float value, float amplitude) {
  const float nearest = std::nearbyint(value / amplitude * 0x1p23f);
  // The roundings of value and quotient may have moved k by one.
  for (const float k : {nearest - 1, nearest, nearest + 1}) {
    if (amplitude * (k * 0x1p-23f) == value) return true;
  }
  return false;
}

}  // namespace

bool IsSynthetic(const GazeLle::Files& files) {
  if (files.backbone.note() == kSyntheticNote || files.decoder.note() == kSyntheticNote) return true;
  const TensorView* token = files.backbone.Find("cls_token");
  if (token == nullptr || token->dtype != DType::kF32) return false;
  std::vector<float> values(static_cast<size_t>(ElementCount(token->shape)));
  if (!CopyAsFloat(*token, values)) return false;
  bool any = false;
  for (const float value : values) {
    if (!OnSyntheticGrid(value, kClassTokenAmplitude)) return false;
    any = any || value != 0;
  }
  return any;
}

}  // namespace sightline
