#include "server/documents.h"

#include <nlohmann/json.hpp>

#include "server/json_text.h"

namespace sightline {
namespace {

// The seed's clients read exceptions as "Type: text": "CorruptWeightsError: ...".
std::string ExceptionText(std::string_view code, const std::string& message) {
  std::string type;
  bool first = true;
  for (const char c : code) {
    if (c != '_') type.push_back(first && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
    first = c == '_';
  }
  return type + "Error: " + message;
}

}  // namespace

std::string ErrorDocument(const Error& error, std::string_view request_id, bool seed_route) {
  const CodeDescription& description = Describe(error.code);
  Json body{{"code", description.name}, {"message", error.message}, {"param", TextOrNull(error.param)}};
  if (!request_id.empty()) body["request_id"] = request_id;
  Json document;
  document["error"] = std::move(body);
  if (seed_route) {
    const bool exception = description.seed_http_status == 500;
    document["detail"] = exception ? ExceptionText(description.name, error.message) : error.message;
  }
  return JsonText(document);
}

std::string HealthDocument(std::string_view status, std::string_view model, std::string_view device) {
  return JsonText({{"status", status}, {"model", model}, {"device", device}});
}

std::string ModelsDocument(std::string_view model, int64_t created) {
  Json document;
  document["object"] = "list";
  document["data"].push_back({{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "sightline"}});
  return JsonText(document);
}

std::string RoutesDocument(const std::vector<RouteDescription>& routes) {
  Json document;
  document["name"] = "sightline";
  document["version"] = Version();
  for (const RouteDescription& route : routes) {
    document["routes"].push_back({{"method", route.method}, {"path", route.path}, {"purpose", route.purpose}});
  }
  return JsonText(document);
}

}  // namespace sightline
