#include "server/routes.h"

#include <algorithm>

namespace sightline {

std::vector<RouteDescription> Routes(std::string_view predict_purpose) {
  return {
      {"POST", kPredictPath, predict_purpose},
      {"GET", "/health", "whether the server is ready"},
      {"GET", "/info", "model, hardware, weights and limits"},
      {"GET", "/v1/models", "the model's name"},
      {"GET", "/metrics", "counters and times for Prometheus"},
      {"GET", "/", "this list"},
  };
}

const RouteDescription* FindRoute(const std::vector<RouteDescription>& routes, std::string_view path) {
  const auto found = std::ranges::find(routes, path, &RouteDescription::path);
  return found == routes.end() ? nullptr : &*found;
}

std::string MethodsOf(const RouteDescription& route) {
  return route.method == "GET" ? "GET, HEAD" : std::string(route.method);
}

bool Allows(const RouteDescription& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

}  // namespace sightline
