// The routes of a server and the methods they take.
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

// The same for every model but for what POST /predict is for.
std::vector<RouteDescription> Routes(std::string_view predict_purpose);
// Null when there is none.
const RouteDescription* FindRoute(const std::vector<RouteDescription>& routes, std::string_view path);
std::string MethodsOf(const RouteDescription& route);  // "GET, HEAD"
bool Allows(const RouteDescription& route, std::string_view method);

}  // namespace sightline
