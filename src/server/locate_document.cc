#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "server/documents.h"
#include "server/json_text.h"
#include "server/locate_fields.h"
#include "server/server.h"

namespace sightline {
namespace {

// Of the published server, which pads prompts to powers of two. Nothing is padded here.
int64_t PaddedPromptTokens(int64_t tokens) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(tokens, 128))));
}

std::string DecodeMode(DecodingMode mode, bool sampled) {
  if (mode == DecodingMode::kSlow) return sampled ? "ar_sampled" : "ar_greedy";
  return mode == DecodingMode::kHybrid ? "mtp_hybrid" : "mtp_fast";
}

std::string_view FinishReasonOf(const Generation& generation) {
  return generation.finish_reason == FinishReason::kEnd ? "stop" : NameOf(generation.finish_reason);
}

// As str.strip of the published server does, for the white space of ASCII.
Json LabelOf(const LocateFinding& finding) {
  if (!finding.label) return nullptr;
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t first = finding.label->find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return finding.label->substr(first, finding.label->find_last_not_of(kSpace) - first + 1);
}

Json Detections(const std::vector<LocatePlace>& places) {
  Json list = Json::array();
  for (const LocatePlace& place : places) {
    if (place.finding.kind != LocateFinding::Kind::kBox) continue;
    list.push_back({{"label", LabelOf(place.finding)},
                    {"box", {place.box.x1, place.box.y1, place.box.x2, place.box.y2}},
                    {"box_norm", place.finding.thousandths},
                    {"score", Round(place.finding.score, 4)}});
  }
  return list;
}

Json Points(const std::vector<LocatePlace>& places) {
  Json list = Json::array();
  for (const LocatePlace& place : places) {
    if (place.finding.kind != LocateFinding::Kind::kPoint) continue;
    list.push_back({{"label", LabelOf(place.finding)},
                    {"point", {place.point.x, place.point.y}},
                    {"point_norm", {place.finding.thousandths[0], place.finding.thousandths[1]}},
                    {"score", Round(place.finding.score, 4)}});
  }
  return list;
}

Json Categories(const std::vector<CategoryAnswer>& categories) {
  Json list = Json::array();
  for (const CategoryAnswer& category : categories) {
    list.push_back({{"name", category.name}, {"status", NameOf(category.status)}, {"count", category.count}});
  }
  return list;
}

// `total` as the published server has it: from the decoded picture to the parsed answer, without waiting.
Json Timing(const LocateAnswer& answer) {
  const double steps = static_cast<double>(answer.generation.ids.size()) - 1;  // the first token is the prompt's
  const double rate = steps > 0 && answer.decode_ms > 0 ? steps / answer.decode_ms * 1000 : 0;
  return {{"vision", Round(answer.vision_ms, 2)},
          {"prefill", Round(answer.prefill_ms, 2)},
          {"decode", Round(answer.decode_ms, 2)},
          {"total", Round(answer.prepare_ms + answer.vision_ms + answer.prefill_ms + answer.decode_ms, 2)},
          {"decode_tok_s", Round(rate, 2)},
          {"wait", Round(answer.wait_ms, 2)}};
}

// What was known from earlier questions.
Json Cached(const LocateAnswer& answer) {
  return {{"pictures", std::ranges::count(answer.pictures, true, &LocateAnswer::SeenPicture::from_cache)},
          {"prompt_tokens", answer.cached_tokens}};
}

Json ImageList(const LocateAnswer& answer, const std::vector<LocateDocumentOptions::Picture>& pictures) {
  Json list = Json::array();
  for (size_t i = 0; i < pictures.size() && i < answer.pictures.size(); ++i) {
    const LocateDocumentOptions::Picture& picture = pictures[i];
    const PatchGrid grid = answer.pictures[i].grid;
    list.push_back({{"format", picture.format},
                    {"width", picture.width},
                    {"height", picture.height},
                    {"exif_orientation", picture.exif_orientation},
                    {"sha256", picture.sha256},
                    {"grid_hw", {grid.height, grid.width}}});
  }
  return list;
}

Json AllWarnings(const LocateAnswer& answer, const std::vector<LocateDocumentOptions::Picture>& pictures) {
  Json list = Json::array();
  for (size_t i = 0; i < pictures.size(); ++i) {
    const std::string param = pictures.size() == 1 ? "image" : "images[" + std::to_string(i) + "]";
    AddPictureWarnings(pictures[i].warnings, param, &list);
  }
  AddWarnings(answer.warnings, &list);
  return list;
}

void AddSeedKeys(const LocateAnswer& answer, const LocateDocumentOptions& options, Json* document) {
  Json& d = *document;
  const PatchGrid grid = answer.pictures.empty() ? PatchGrid{} : answer.pictures.front().grid;
  d["query"] = options.query;
  d["width"] = answer.width;
  d["height"] = answer.height;
  d["canonical_size"] = {grid.width * kPatchSize, grid.height * kPatchSize};
  d["grid_hw"] = {grid.height, grid.width};
  d["num_image_tokens"] = answer.image_tokens;
  d["prompt_tokens"] = answer.prompt_tokens;
  d["prefill_tokens"] = PaddedPromptTokens(answer.prompt_tokens);
  d["raw_text"] = answer.text;
  d["detections"] = Detections(answer.places);
  d["points"] = Points(answer.places);
  d["num_generated_tokens"] = answer.generation.ids.size();
  d["stopped_on_eos"] = answer.generation.finish_reason == FinishReason::kEnd;
  d["decode_mode"] = DecodeMode(answer.mode, options.sampled);
  d["timing_ms"] = Timing(answer);
  d["overlay_png_b64"] = options.overlay.empty() ? Json(nullptr) : Json(EncodeBase64(options.overlay));
}

Json InputOutput() {
  Json input{{"image", "base64 or data URI of a JPEG, PNG or WebP picture"},
             {"images", "instead of image: a list of them"},
             {"query", "what to find; several categories as a list or joined by </c>"},
             {"max_new_tokens", "most tokens of the answer"},
             {"return_overlay", "true: the picture with the answer drawn in"},
             {"task", Json::array()},
             {"mode", {"slow", "hybrid", "fast"}},
             {"in_token_limit", "patches at most, in the picture's own aspect"},
             {"grid", "rows x columns of patches, or native"}};
  for (int i = 0; i <= static_cast<int>(LocateTask::kRaw); ++i) {
    input["task"].push_back(NameOf(static_cast<LocateTask>(i)));
  }
  return {{"input", std::move(input)},
          {"output",
           {{"detections", "boxes in pixels and in thousandths of the picture's sides"}, {"points", "the same"}}}};
}

Json Limits(const LocateServerOptions& options, const LocateSettings& settings) {
  const LocateLimits& limits = settings.limits;
  const std::optional<PatchGrid>& grid = limits.scaling.grid;
  return {{"canonical_grid", grid ? Json{grid->height, grid->width} : Json(nullptr)},
          {"canonical_size", grid ? Json{grid->width * kPatchSize, grid->height * kPatchSize} : Json(nullptr)},
          {"in_token_limit", limits.scaling.token_limit},
          {"max_in_token_limit", limits.max_token_limit},
          {"max_seq_len", settings.max_sequence},
          {"max_new_tokens", limits.max_new_tokens},
          {"max_new_tokens_cap", limits.max_new_tokens_cap},
          {"max_query_chars", kMaxQueryCharacters},
          {"max_pictures", kMaxPictures},
          {"max_body_bytes", options.max_body_bytes},
          {"max_pixels", options.images.max_pixels},
          {"max_side", options.images.max_side},
          {"max_queue", options.engine.max_queue},
          {"deadline_ms", options.request_deadline.count()}};
}

}  // namespace

// Keys in the order of the seed, then ours.
std::string LocateDocument(const LocateAnswer& answer, const LocateEngineInfo& info,
                           const LocateDocumentOptions& options) {
  Json document;
  AddSeedKeys(answer, options, &document);
  document["task"] = NameOf(options.task);
  document["mode"] = NameOf(answer.mode);
  document["finish_reason"] = FinishReasonOf(answer.generation);
  document["score_type"] = "token_prob";
  if (!answer.categories.empty()) document["categories"] = Categories(answer.categories);
  document["malformed"] = answer.malformed;
  if (!answer.empty_reason.empty()) document["empty_reason"] = answer.empty_reason;
  document["token_ids"] = answer.generation.ids;
  document["forwards"] = answer.generation.forwards;
  document["estimated_gflop"] = Round(answer.gflop, 1);
  document["cached"] = Cached(answer);
  document["warnings"] = AllWarnings(answer, options.pictures);
  document["images"] = ImageList(answer, options.pictures);
  if (!options.request_id.empty()) document["request_id"] = options.request_id;
  if (info.synthetic) document["synthetic_weights"] = true;
  return JsonText(document);
}

std::string InfoDocument(const LocateServerOptions& options, const LocateSettings& settings,
                         const LocateEngineInfo& info) {
  Json document;
  document["model"] = "LocateAnything-3B";
  document["task"] = "visual-grounding";
  document["io"] = InputOutput();
  document["hardware"] = {
      {"backend", info.backend}, {"device", info.device}, {"isa", info.isa}, {"threads", info.threads}};
  document["decode_mode"] = DecodeMode(DecodingMode::kSlow, false);
  document["precision"] = {{"vision", NameOf(info.precision.vision)}, {"language", NameOf(info.precision.language)}};
  document["weights"] = {
      {"repo", TextOrNull(info.repo)},        {"revision", TextOrNull(info.revision)},
      {"snapshot_dir", info.folder.string()}, {"llm_dir", TextOrNull(settings.language_folder.string())},
      {"variant", info.config.variant()},     {"synthetic", info.synthetic}};
  document["source"] = {{"repo", "sightline"}, {"commit", nullptr}};
  document["limits"] = Limits(options, settings);
  document["fused"] = {{"config", "off"}, {"status", "there is no device"}};
  document["license"] = "NVIDIA 'other' license (weights)";
  document["version"] = Version();
  return JsonText(document);
}

}  // namespace sightline
