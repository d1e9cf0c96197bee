// A server process from its first socket to its exit code, whatever the model.
#pragma once

#include <functional>
#include <memory>

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "server/server.h"
#include "server/service.h"
#include "server/shutdown_signals.h"

namespace sightline {

// Opens weights and an engine and gives the engine to the service; logs what it found. Runs on a thread of its own
// while the server says that it is starting.
using EngineOpener = std::function<Result<std::unique_ptr<Engine>>()>;

// Listens, opens the engine, serves until SIGINT or SIGTERM, then drains. `name` is what the log says answers.
// `signals` must have been made before the service, which has threads. Returns the exit code: 0 after a clean drain.
int ServeUntilStopped(const ServerOptions& options, const std::string& name, ShutdownSignals& signals, Service& service,
                      const EngineOpener& open);

// One line on how many threads compute, and why.
void LogThreads(int asked_for);
// For an engine's options: logs how far weights are packed, a line every ten seconds.
PackingProgress LogPacking();

}  // namespace sightline
