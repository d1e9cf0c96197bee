#include <cmath>

#include "models/models.h"

namespace sightline {
namespace {

// Amplitude of cls_token in the built-in rules (assets/synthesis/gaze_lle_rules.json); its centre is 0.
constexpr float kClassTokenAmplitude = 0.8f;

// A synthetic value is amplitude * k / 2^23 with an integer k, rounded to float32. Trained values miss that grid: below
// half the amplitude float32 is at least twice as fine.
bool OnSyntheticGrid(float value, float amplitude) {
  const float k = std::nearbyint(value / amplitude * 0x1p23f);
  return amplitude * (k * 0x1p-23f) == value;
}

}  // namespace

bool IsSynthetic(const GazeLle::Files& files) {
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
