#include <fmt/format.h>

#include <array>
#include <cmath>

#include "models/models.h"

namespace sightline {
namespace {

constexpr std::array kModeNames{std::pair{DecodingMode::kHybrid, "hybrid"}, std::pair{DecodingMode::kFast, "fast"},
                                std::pair{DecodingMode::kSlow, "slow"}};

Status CheckBetween(double value, double low, double high, const std::string& name) {
  if (value >= low && value <= high) return {};
  return Fail(Code::kInvalidRequest, fmt::format("{} is {}, expected a number from {} to {}", name, value, low, high),
              name);
}

Status CheckTemperature(double temperature) {
  if (temperature == 0 || (temperature >= 0.01 && temperature <= 100)) return {};
  return Fail(Code::kInvalidRequest,
              fmt::format("temperature is {}, expected 0 or a number from 0.01 to 100", temperature), "temperature");
}

}  // namespace

std::string_view NameOf(DecodingMode mode) { return kModeNames[static_cast<size_t>(mode)].second; }

Result<DecodingMode> ParseDecodingMode(std::string_view name) {
  for (const auto& [mode, mode_name] : kModeNames) {
    if (name == mode_name) return mode;
  }
  return Fail(Code::kInvalidRequest, fmt::format("mode is \"{}\", expected hybrid, fast or slow", name), "mode");
}

std::string_view NameOf(StepType type) {
  constexpr std::array kNames{"ref_object", "coord_box",   "point_box", "empty_box",  "error_box",
                              "im_end",     "continue_ar", "coord_ar",  "box_end_ar", "stop_ar"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view NameOf(BlockSource source) {
  constexpr std::array kNames{"frame_empty", "bbox", "ref", "x0", "end"};
  return kNames[static_cast<size_t>(source)];
}

std::string_view NameOf(FinishReason reason) {
  constexpr std::array kNames{"end", "length", "loop", "malformed"};
  return kNames[static_cast<size_t>(reason)];
}

Status CheckGenerationOptions(const GenerationOptions& options) {
  const SamplingOptions& sampling = options.sampling;
  SIGHTLINE_RETURN_IF_ERROR(CheckBetween(sampling.repetition_penalty, 0.1, 10, "repetition_penalty"));
  SIGHTLINE_RETURN_IF_ERROR(CheckTemperature(sampling.temperature));
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("top_p is {}, expected a number above 0 and at most 1", sampling.top_p), "top_p");
  }
  if (sampling.top_k < 0) {
    return Fail(Code::kInvalidRequest, fmt::format("top_k is {}, expected 0 or more", sampling.top_k), "top_k");
  }
  if (options.max_new_tokens < 1) {
    return Fail(Code::kInvalidRequest, fmt::format("max_new_tokens is {}, expected 1 or more", options.max_new_tokens),
                "max_new_tokens");
  }
  return {};
}

}  // namespace sightline
