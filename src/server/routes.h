// The routes of the gaze server and the methods they take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sightline {

struct RouteDescription {
  std::string_view method, path, purpose;
};

inline constexpr std::string_view kPredictPath = "/predict";
inline constexpr std::string_view kOtherRoutes = "other";  // what metrics call paths that are no routes

const std::vector<RouteDescription>& Routes();
const RouteDescription* FindRoute(std::string_view path);  // null when there is none
std::string MethodsOf(const RouteDescription& route);      // "GET, HEAD"
bool Allows(const RouteDescription& route, std::string_view method);

}  // namespace sightline
