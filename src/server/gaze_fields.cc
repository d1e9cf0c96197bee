#include "server/gaze_fields.h"

#include <fmt/format.h>

#include <utility>

#include "server/json_fields.h"

namespace sightline {
namespace {

// Reads the fields of one request, one after the other, as they come.
class Reader {
 public:
  explicit Reader(const GazeLimits& limits) : limits_(limits) {
    fields_.max_heads = limits.max_heads;
    fields_.head_threshold = limits.head_threshold;
  }

  Result<GazeFields> Read(std::string& body);

 private:
  Status ReadImage(JsonValue& value);
  Status ReadBoxes(JsonValue& value);
  Status ReadBox(JsonValue& value);
  Status ReadBoxFormat(JsonValue& value);
  Status ReadHeatmapFormat(JsonValue& value);
  Status ReadDetectHeads(JsonValue& value);
  Status ReadMaxHeads(JsonValue& value);
  Status ReadHeadThreshold(JsonValue& value);
  Status CheckWhole(bool boxes_given) const;

  const GazeLimits limits_;
  GazeFields fields_;
};

Status Reader::ReadImage(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view text, value.Text());
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.file, DecodeImageText(text));
  return {};
}

Status Reader::ReadBoxes(JsonValue& value) {
  return value.List([this](JsonValue& element, size_t index) -> Status {
    if (std::cmp_greater_equal(index, limits_.max_heads)) {
      return Fail(Code::kTooManyBoxes, fmt::format("bboxes has more than {} boxes", limits_.max_heads), "bboxes");
    }
    return ReadBox(element);
  });
}

Status Reader::ReadBox(JsonValue& value) {
  const std::string& param = value.param();
  double numbers[4] = {};
  size_t count = 0;
  SIGHTLINE_RETURN_IF_ERROR(value.List([&](JsonValue& element, size_t index) -> Status {
    if (index == 4) return Fail(Code::kInvalidRequest, param + " has more than 4 numbers, expected 4", param);
    SIGHTLINE_ASSIGN_OR_RETURN(numbers[index], element.Number());
    count = index + 1;
    return {};
  }));
  if (count < 4) return Fail(Code::kInvalidRequest, fmt::format("{} has {} numbers, expected 4", param, count), param);
  fields_.boxes.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
  return {};
}

Status Reader::ReadBoxFormat(JsonValue& value) {
  static constexpr std::string_view kNames[] = {"pixels", "normalized"};
  SIGHTLINE_ASSIGN_OR_RETURN(const size_t choice, value.Choice(kNames));
  fields_.units = choice == 0 ? BoxUnits::kPixels : BoxUnits::kNormalized;
  return {};
}

Status Reader::ReadHeatmapFormat(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view name, value.Text());
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.heatmap_format, ParseHeatmapFormat(Shortened(name)));
  return {};
}

Status Reader::ReadDetectHeads(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.detect_heads, value.Bool());
  return {};
}

Status Reader::ReadMaxHeads(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const int64_t number, value.WholeFrom(1, limits_.max_heads));
  fields_.max_heads = static_cast<int>(number);
  return {};
}

Status Reader::ReadHeadThreshold(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.head_threshold, value.NumberFrom(0, 1));
  return {};
}

Status Reader::CheckWhole(bool boxes_given) const {
  if (fields_.file.empty()) {
    return Fail(Code::kMissingField, "image is missing, expected a picture as base64 text", "image");
  }
  if (fields_.detect_heads || !fields_.boxes.empty()) return {};
  return Fail(boxes_given ? Code::kInvalidRequest : Code::kMissingField,
              fmt::format("bboxes is {}, expected 1 to {} boxes, or detect_heads true",
                          boxes_given ? "empty" : "missing", limits_.max_heads),
              "bboxes");
}

Result<GazeFields> Reader::Read(std::string& body) {
  const auto by = [this](Status (Reader::*read)(JsonValue&)) {
    return [this, read](JsonValue& value) { return (this->*read)(value); };
  };
  const JsonField fields[] = {
      {"image", false, by(&Reader::ReadImage)},
      {"bboxes", true, by(&Reader::ReadBoxes)},
      {"bbox_format", true, by(&Reader::ReadBoxFormat)},
      {"heatmap_format", true, by(&Reader::ReadHeatmapFormat)},
      {"detect_heads", true, by(&Reader::ReadDetectHeads)},
      {"max_heads", true, by(&Reader::ReadMaxHeads)},
      {"head_threshold", true, by(&Reader::ReadHeadThreshold)},
  };
  SIGHTLINE_ASSIGN_OR_RETURN(JsonObjectRead object, ReadJsonObject(body, fields));
  SIGHTLINE_RETURN_IF_ERROR(CheckWhole(object.names.contains("bboxes")));
  fields_.warnings = std::move(object.warnings);
  return std::move(fields_);
}

}  // namespace

Result<GazeFields> ParseGazeFields(std::string& body, const GazeLimits& limits) { return Reader(limits).Read(body); }

}  // namespace sightline
