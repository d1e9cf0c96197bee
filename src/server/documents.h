// The documents of the routes that describe the server itself. Answers and errors are in server.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/pipeline.h"
#include "server/locate_settings.h"
#include "server/routes.h"
#include "server/server.h"

namespace sightline {

// GET /health. `device` is empty while weights are loading.
std::string HealthDocument(std::string_view status, std::string_view model, std::string_view device);
// GET /info.
std::string InfoDocument(const GazeServerOptions& options, const GazeEngineInfo& info);
std::string InfoDocument(const LocateServerOptions& options, const LocateSettings& settings,
                         const LocateEngineInfo& info);
// GET /v1/models: the form of OpenAI's list, one entry. `created` in seconds since the epoch.
std::string ModelsDocument(std::string_view model, int64_t created);
// GET /.
std::string RoutesDocument(const std::vector<RouteDescription>& routes);

}  // namespace sightline
