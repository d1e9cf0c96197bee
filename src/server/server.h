// server: the HTTP contract of the gaze server (docs/http-api.md): routes, request schemas, response documents, limits,
// metrics, access log, start and shutdown. JSON begins and ends here.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "media/media.h"
#include "pipeline/pipeline.h"

namespace sightline {

enum class HeatmapFormat { kPng, kNpz, kJson, kNone };
Result<HeatmapFormat> ParseHeatmapFormat(std::string_view name);
std::string_view NameOf(HeatmapFormat format);

// What an answer document says beside the answer itself.
struct GazeDocumentOptions {
  std::string model = "gaze-lle";
  HeatmapFormat heatmap_format = HeatmapFormat::kPng;
  std::string image_sha256{};
  std::string request_id{};  // left out when empty
  double total_ms = 0;
  // When set, timing_ms.total runs from here to the end of the document, and total_ms is ignored.
  std::optional<std::chrono::steady_clock::time_point> received{};
};
// The answer as the JSON text that POST /predict returns and `sightline gaze --json` prints: numbers rounded as the
// seed does (docs/http-api.md), a point as decimal separator in every locale.
std::string GazeDocument(const GazeAnswer& answer, const DecodedImage& picture, const GazeEngineInfo& info,
                         const GazeDocumentOptions& options);
// {"error": {"code", "message", "param", "request_id"}}, and "detail" beside it for the seed's route.
std::string ErrorDocument(const Error& error, std::string_view request_id, bool seed_route);

// An image field: base64 or data URI, standard or URL-safe alphabet, padding optional, white space ignored. Errors name
// the offset: kInvalidBase64, kImageEmpty, kImageUrlNotAllowed.
Result<std::vector<std::byte>> DecodeImageText(std::string_view text);

struct GazeServerOptions {
  std::string host = "127.0.0.1";
  std::optional<int> port;  // none: 20000 or the next free one; 0: any
  GazeWeightsOptions weights;
  GazeEngineOptions engine;
  std::string model = "gaze-lle";
  int max_heads = 10;  // boxes in a request, and heads the detector may add
  double head_threshold = 0.5;
  DecodeOptions images;  // pixel and side limits; reference images
  size_t max_body_bytes = 32u << 20;
  std::chrono::milliseconds request_deadline{120'000};
  std::chrono::milliseconds drain{30'000};  // SIGTERM to exit at most
};

// Serves until SIGINT or SIGTERM, then drains. Listens at once (health says "starting"), loads weights, logs
// "Application startup complete" when ready. Returns the exit code: 0 after a clean drain.
int ServeGazeLle(const GazeServerOptions& options);

}  // namespace sightline
