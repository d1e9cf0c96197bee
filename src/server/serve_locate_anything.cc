#include <fmt/format.h>

#include <chrono>

#include "server/locate_service.h"
#include "server/locate_settings.h"
#include "server/server.h"
#include "server/serving_loop.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

// Log lines begin as those of the published server do: its users' scripts wait for them.

std::string SourceOf(const LocateSettings& settings) {
  if (!settings.weights.folder.empty()) return settings.weights.folder.string();
  if (!settings.weights.synthetic.empty()) return "synthetic " + settings.weights.synthetic;
  return "nvidia/LocateAnything-3B";
}

Status ExtractLanguageModel(const LocateServerOptions& options, const LocateSettings& settings,
                            const LocateWeights& weights) {
  if (settings.language_folder.empty() || options.extract_language_model == nullptr) return {};
  LogInfo(fmt::format("Loading weights: extracting the language model to {}, unless it is there",
                      settings.language_folder.string()));
  return options.extract_language_model(weights.folder, settings.language_folder, settings.extract_again);
}

// A small picture and a short answer touch every weight.
Status WarmUp(LocateEngine& engine, int runs) {
  LogInfo("Warming up");
  constexpr int kSide = 2 * kPatchSize;
  auto picture = std::make_shared<DecodedImage>();
  picture->image = {kSide, kSide, std::vector<uint8_t>(size_t{3} * kSide * kSide, 128)};
  for (int run = 1; run <= runs; ++run) {
    LogInfo(fmt::format("Warmup run {}/{}", run, runs));
    LocateRequest request;
    request.pictures.push_back({picture, {}});
    request.question.query = {"car"};
    request.generation.max_new_tokens = 2;
    const auto answer = engine.Run(std::move(request));
    if (!answer) return tl::make_unexpected(answer.error());
  }
  LogInfo("Warmup complete");
  return {};
}

Result<std::unique_ptr<LocateEngine>> Open(const LocateServerOptions& options, const LocateSettings& settings) {
  const auto start = Clock::now();
  LogThreads(options.engine.threads);
  LogInfo(fmt::format("Loading weights: resolving {}", SourceOf(settings)));
  auto weights = OpenLocateWeights(settings.weights, [](int done, int total) {
    if (done == total) LogInfo("synthetic weights were made and kept in the cache folder");
  });
  if (!weights) return tl::make_unexpected(std::move(weights).error());
  SIGHTLINE_RETURN_IF_ERROR(ExtractLanguageModel(options, settings, *weights));
  const LocatePrecision precision = options.engine.precision;
  LogInfo(fmt::format("Loading weights: Qwen2.5-3B LLM in {}", NameOf(precision.language)));
  LogInfo(fmt::format("Loading weights: MoonViT in {}", NameOf(precision.vision)));
  LocateEngineOptions engine_options = options.engine;
  engine_options.packing = LogPacking();
  SIGHTLINE_ASSIGN_OR_RETURN(auto engine, LocateEngine::Open(*weights, engine_options));
  const LocateEngineInfo& info = engine->info();
  LogInfo(fmt::format("{}, {}, loaded in {:.2f} s", info.device, info.config.variant(),
                      std::chrono::duration<double>(Clock::now() - start).count()));
  if (info.synthetic) LogWarning("synthetic weights: answers mean nothing");
  SIGHTLINE_RETURN_IF_ERROR(WarmUp(*engine, settings.warmup_runs));
  return engine;
}

}  // namespace

int ServeLocateAnything(const LocateServerOptions& options) {
  auto settings = ResolveLocateSettings(options, ReadEnvironment());
  if (!settings) {
    LogError(settings.error().message);
    return Describe(settings.error().code).exit_code;
  }
  for (const std::string& note : settings->notes) LogInfo(note);
  ShutdownSignals signals;
  LocateService service(options, *settings);
  return ServeUntilStopped(options, "LocateAnything-3B", signals, service, [&]() -> Result<std::unique_ptr<Engine>> {
    SIGHTLINE_ASSIGN_OR_RETURN(auto engine, Open(options, *settings));
    service.SetEngine(*engine);
    return engine;
  });
}

}  // namespace sightline
