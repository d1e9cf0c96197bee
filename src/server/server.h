// server: the HTTP contract of the servers (docs/http-api.md): routes, request schemas, response documents, limits,
// metrics, access log, start and shutdown. JSON begins and ends here.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
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
// "24x44" (rows x columns of patches, both even), or "native": no fixed grid. `param` names the field in errors.
Result<std::optional<PatchGrid>> ParseGrid(std::string_view text, const std::string& param);
// Several texts as one, joined by "</c>".
std::string JoinQuery(const std::vector<std::string>& query);

// What a LocateAnything answer's document says beside the answer itself.
struct LocateDocumentOptions {
  std::string query{};  // JoinQuery's
  LocateTask task = LocateTask::kDetect;
  bool sampled = false;  // with a temperature
  struct Picture {
    std::string format{};
    int width = 0, height = 0;
    int exif_orientation = 1;
    std::string sha256{};
    std::vector<std::string> warnings{};  // of DecodedImage
  };
  std::vector<Picture> pictures{};
  std::vector<std::byte> overlay{};  // a PNG file; empty: not asked for
  std::string request_id{};          // left out when empty
};
// The answer as the JSON text that POST /predict returns and `sightline locate --json` prints.
std::string LocateDocument(const LocateAnswer& answer, const LocateEngineInfo& info,
                           const LocateDocumentOptions& options);
// The picture with the boxes and points of its answer, as a PNG file.
Result<std::vector<std::byte>> LocateOverlay(const DecodedImage& picture, const LocateAnswer& answer,
                                             const LocateEngineInfo& info);

// {"error": {"code", "message", "param", "request_id"}}, and "detail" beside it for the seed's route.
std::string ErrorDocument(const Error& error, std::string_view request_id, bool seed_route);

// An image field: base64 or data URI, standard or URL-safe alphabet, padding optional, white space ignored. Errors name
// the offset: kInvalidBase64, kImageEmpty, kImageUrlNotAllowed.
Result<std::vector<std::byte>> DecodeImageText(std::string_view text);

// What every server can be told.
struct ServerOptions {
  std::string host = "127.0.0.1";
  std::optional<int> port;  // none: 20000 or the next free one; 0: any
  DecodeOptions images;     // pixel and side limits; reference images
  size_t max_body_bytes = 32u << 20;
  std::chrono::milliseconds request_deadline{120'000};
  std::chrono::milliseconds drain{30'000};  // SIGTERM to exit at most
};

struct GazeServerOptions : ServerOptions {
  GazeWeightsOptions weights;
  GazeEngineOptions engine;
  std::string model = "gaze-lle";
  int max_heads = 10;  // boxes in a request, and heads the detector may add
  double head_threshold = 0.5;
};

// What is not set is as the LA_ environment variables say, else as the published server has it (docs/http-api.md).
struct LocateServerOptions : ServerOptions {
  LocateServerOptions() { request_deadline = std::chrono::minutes(10); }

  LocateWeightsOptions weights;
  LocateEngineOptions engine;
  std::optional<int64_t> token_limit;                                       // LA_IN_TOKEN_LIMIT, 1024
  std::string grid;                                                         // "24x44" or "native"; LA_CANON_GRID, 24x44
  std::optional<int64_t> max_sequence, max_new_tokens, max_new_tokens_cap;  // LA_MAX_..., 4096, 128, 1024
  std::optional<int> warmup_runs;                                           // LA_WARMUP_RUNS, 2
  // Writes the language model of `from` as a folder of its own, unless it is there already and not wanted `again`.
  // Called while starting where LA_LLM_DIR or LA_FORCE_EXTRACT ask for it.
  std::function<Status(const std::filesystem::path& from, const std::filesystem::path& folder, bool again)>
      extract_language_model;
};

// Serves until SIGINT or SIGTERM, then drains. Listens at once (health says "starting"), loads weights, logs
// "Application startup complete" when ready. Returns the exit code: 0 after a clean drain.
int ServeGazeLle(const GazeServerOptions& options);
int ServeLocateAnything(const LocateServerOptions& options);

}  // namespace sightline
