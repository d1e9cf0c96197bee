#include <cmath>
#include <nlohmann/json.hpp>

#include "server/documents.h"
#include "server/json_text.h"
#include "server/server.h"

namespace sightline {
namespace {

std::string HeatmapPng(const GazePerson& person) {
  std::vector<uint8_t> grey(kHeatmapCells);
  // In float32, half to even under the default rounding mode, as numpy does.
  for (size_t i = 0; i < grey.size(); ++i) {
    grey[i] = static_cast<uint8_t>(std::nearbyint(person.heatmap[i] * 255.0f));
  }
  return EncodeBase64(EncodeGreyPng(grey, kHeatmapSize, kHeatmapSize));
}

Json HeatmapRows(const GazePerson& person) {
  Json rows = Json::array();
  for (size_t y = 0; y < kHeatmapSize; ++y) {
    Json row = Json::array();
    for (size_t x = 0; x < kHeatmapSize; ++x) row.push_back(Shortest(person.heatmap[y * kHeatmapSize + x]));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string HeatmapNpz(const std::vector<GazePerson>& people) {
  std::vector<float> heatmaps, inout;
  for (const GazePerson& person : people) {
    heatmaps.insert(heatmaps.end(), person.heatmap.begin(), person.heatmap.end());
    if (person.inout) inout.push_back(*person.inout);
  }
  const auto count = static_cast<int64_t>(people.size());
  std::vector<NpzArray> arrays{{"heatmap", {count, kHeatmapSize, kHeatmapSize}, heatmaps}};
  if (inout.size() == people.size()) arrays.push_back({"inout", {count}, inout});
  return EncodeBase64(EncodeNpz(arrays));
}

Json Numbers(const Box& box, int decimals) {
  return {Round(box.x1, decimals), Round(box.y1, decimals), Round(box.x2, decimals), Round(box.y2, decimals)};
}

Json GazeTarget(const GazePerson& person) {
  return {{"x", Round(person.target.x, 1)},
          {"y", Round(person.target.y, 1)},
          {"x_norm", Round(person.target_normalized.x, 3)},
          {"y_norm", Round(person.target_normalized.y, 3)},
          {"heatmap_row", person.row},
          {"heatmap_col", person.column},
          {"score", Round(person.score, 3)}};
}

Json Prediction(const GazePerson& person, HeatmapFormat format) {
  Json prediction;
  const Box& box = person.box;
  prediction["bbox"] = person.marked ? Json{box.x1, box.y1, box.x2, box.y2} : Json(nullptr);
  prediction["bbox_normalized"] = person.marked ? Numbers(person.normalized, 6) : Json(nullptr);
  prediction["inout"] = person.inout ? Json(Round(*person.inout, 3)) : Json(nullptr);
  prediction["gaze_target"] = GazeTarget(person);
  if (person.head_score) prediction["head_score"] = Round(*person.head_score, 3);
  if (format == HeatmapFormat::kPng) prediction["heatmap_png"] = HeatmapPng(person);
  if (format == HeatmapFormat::kJson) prediction["heatmap"] = HeatmapRows(person);
  return prediction;
}

Json Predictions(const std::vector<GazePerson>& people, HeatmapFormat format) {
  Json predictions = Json::array();
  for (const GazePerson& person : people) predictions.push_back(Prediction(person, format));
  return predictions;
}

Json AllWarnings(const DecodedImage& picture, const GazeAnswer& answer) {
  Json list = Json::array();
  AddPictureWarnings(picture.warnings, "image", &list);
  AddWarnings(answer.warnings, &list);
  return list;
}

Json ImageSummary(const DecodedImage& picture, const GazeAnswer& answer, const std::string& sha256) {
  return {{"format", picture.format},
          {"width", answer.width},
          {"height", answer.height},
          {"exif_orientation", picture.exif_orientation},
          {"sha256", sha256}};
}

}  // namespace

Result<HeatmapFormat> ParseHeatmapFormat(std::string_view name) {
  for (const auto format : {HeatmapFormat::kPng, HeatmapFormat::kNpz, HeatmapFormat::kJson, HeatmapFormat::kNone}) {
    if (NameOf(format) == name) return format;
  }
  return Fail(Code::kInvalidRequest, "heatmap_format is '" + std::string(name) + "', expected png, npz, json or none",
              "heatmap_format");
}

std::string_view NameOf(HeatmapFormat format) {
  switch (format) {
    case HeatmapFormat::kPng:
      return "png";
    case HeatmapFormat::kNpz:
      return "npz";
    case HeatmapFormat::kJson:
      return "json";
    case HeatmapFormat::kNone:
      return "none";
  }
  return "";
}

// Keys in the order of the seed's card, then ours.
std::string GazeDocument(const GazeAnswer& answer, const DecodedImage& picture, const GazeEngineInfo& info,
                         const GazeDocumentOptions& options) {
  Json document;
  document["model"] = options.model;
  document["image_size"] = {answer.width, answer.height};
  document["input_size"] = {kGazeInputSize, kGazeInputSize};
  document["num_heads"] = answer.people.size();
  document["heatmap_size"] = {kHeatmapSize, kHeatmapSize};
  document["heatmap_format"] = NameOf(options.heatmap_format);
  document["predictions"] = Predictions(answer.people, options.heatmap_format);
  if (options.heatmap_format == HeatmapFormat::kNpz) document["heatmap_npz"] = HeatmapNpz(answer.people);
  document["timing_ms"] = nullptr;  // its place; known when the rest is there
  document["warnings"] = AllWarnings(picture, answer);
  document["image"] = ImageSummary(picture, answer, options.image_sha256);
  if (!options.request_id.empty()) document["request_id"] = options.request_id;
  if (answer.heads_source != "request") {
    document["heads_source"] = answer.heads_source;
    document["heads_found"] = answer.heads_found;
  }
  if (!answer.empty_reason.empty()) document["empty_reason"] = answer.empty_reason;
  if (info.synthetic) document["synthetic_weights"] = true;
  if (info.toy) document["toy_weights"] = true;
  document["timing_ms"] = {{"inference", Round(answer.encode_ms + answer.decode_ms, 2)},
                           {"total", Round(TotalMilliseconds(options.received, options.total_ms), 2)}};
  return JsonText(document);
}

std::string InfoDocument(const GazeServerOptions& options, const GazeEngineInfo& info) {
  Json document;
  document["model"] = options.model;
  document["task"] = "gaze-target-estimation";
  document["io"] = {{"input",
                     {{"image", "base64 or data URI of a JPEG, PNG or WebP picture"},
                      {"bboxes", "head boxes [x1, y1, x2, y2]"},
                      {"bbox_format", {"pixels", "normalized"}},
                      {"heatmap_format", {"png", "npz", "json", "none"}},
                      {"detect_heads", "true: heads are found in the picture"},
                      {"input_size", {kGazeInputSize, kGazeInputSize}}}},
                    {"output", {{"predictions", "one a head"}, {"heatmap_size", {kHeatmapSize, kHeatmapSize}}}}};
  document["hardware"] = {
      {"backend", info.backend}, {"device", info.device}, {"isa", info.isa}, {"threads", info.threads}};
  document["precision"] = NameOf(info.precision);
  document["profile"] = NameOf(info.profile);
  document["weights"] = {{"repo", TextOrNull(info.repo)},
                         {"revision", TextOrNull(info.revision)},
                         {"backbone", info.backbone},
                         {"decoder", info.decoder},
                         {"variant", info.dimensions.variant()},
                         {"inout", info.dimensions.inout},
                         {"synthetic", info.synthetic},
                         {"toy", info.toy}};
  document["limits"] = {{"max_heads", options.max_heads},          {"max_body_bytes", options.max_body_bytes},
                        {"max_pixels", options.images.max_pixels}, {"max_side", options.images.max_side},
                        {"max_queue", options.engine.max_queue},   {"deadline_ms", options.request_deadline.count()}};
  document["license"] = "Apache-2.0";
  document["version"] = Version();
  return JsonText(document);
}

}  // namespace sightline
