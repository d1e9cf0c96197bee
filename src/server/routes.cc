#include "server/routes.h"

#include <algorithm>

namespace sightline {

const std::vector<RouteDescription>& Routes() {
  static const std::vector<RouteDescription> routes{
      {"POST", kPredictPath, "where each person in a picture looks"}, {"GET", "/health", "whether the server is ready"},
      {"GET", "/info", "model, hardware, weights and limits"},        {"GET", "/v1/models", "the model's name"},
      {"GET", "/metrics", "counters and times for Prometheus"},       {"GET", "/", "this list"},
  };
  return routes;
}

const RouteDescription* FindRoute(std::string_view path) {
  const auto& routes = Routes();
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
