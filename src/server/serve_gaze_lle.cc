#include <fmt/format.h>

#include <chrono>

#include "server/gaze_service.h"
#include "server/server.h"
#include "server/serving_loop.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<GazeEngine>> Open(const GazeServerOptions& options) {
  const auto start = Clock::now();
  LogThreads(options.engine.threads);
  auto weights = OpenGazeWeights(options.weights, [](int done, int total) {
    if (done == total) LogInfo("synthetic weights were made and kept in the cache folder");
  });
  if (!weights) return tl::make_unexpected(std::move(weights).error());
  GazeEngineOptions engine_options = options.engine;
  engine_options.packing = LogPacking();
  SIGHTLINE_ASSIGN_OR_RETURN(auto engine, GazeEngine::Open(std::move(*weights), engine_options));
  const GazeEngineInfo& info = engine->info();
  LogInfo(fmt::format("{}, {}, profile {}, {} with {} and {}, loaded in {:.2f} s", info.device, NameOf(info.precision),
                      NameOf(info.profile), info.dimensions.variant(), info.backbone, info.decoder,
                      std::chrono::duration<double>(Clock::now() - start).count()));
  if (info.synthetic) LogWarning("synthetic weights: answers mean nothing as gaze");
  if (info.toy) LogWarning("toy weights: answers mean nothing on photographs");
  return engine;
}

}  // namespace

int ServeGazeLle(const GazeServerOptions& options) {
  ShutdownSignals signals;
  GazeService service(options);
  return ServeUntilStopped(options, options.model, signals, service, [&]() -> Result<std::unique_ptr<Engine>> {
    SIGHTLINE_ASSIGN_OR_RETURN(auto engine, Open(options));
    service.SetEngine(*engine);
    return engine;
  });
}

}  // namespace sightline
