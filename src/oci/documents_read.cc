#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>

#include "oci/blob.h"
#include "oci/documents.h"

namespace sightline {
namespace {

namespace dom = simdjson::dom;
using Found = simdjson::simdjson_result<dom::element>;

constexpr int kMaxJsonDepth = 64;
constexpr size_t kMaxManifests = 1000;

tl::unexpected<Error> Malformed(const std::string& source, std::string_view what) {
  return Fail(Code::kInvalidRequest, fmt::format("{}: {}", source, what));
}

Result<dom::object> ParseObject(std::string_view json, const std::string& source, dom::parser* parser) {
  dom::object object;
  auto error = parser->allocate(std::max<size_t>(json.size(), 64), kMaxJsonDepth);
  if (!error) error = parser->parse(json.data(), json.size()).get(object);
  if (error) return Malformed(source, fmt::format("is no JSON object: {}", simdjson::error_message(error)));
  return object;
}

std::string Text(Found value) {
  std::string_view text;
  return value.get(text) ? std::string() : std::string(text);
}

std::map<std::string, std::string> Texts(Found value) {
  std::map<std::string, std::string> texts;
  dom::object object;
  if (value.get(object)) return texts;
  for (const auto& [key, text] : object) texts.emplace(key, Text(dom::element(text)));
  return texts;
}

std::vector<std::string> TextList(Found value) {
  std::vector<std::string> texts;
  dom::array list;
  if (value.get(list)) return texts;
  for (dom::element item : list) texts.push_back(Text(std::move(item)));
  return texts;
}

// `name` says which one for an error: "layers[2]".
Result<OciDescriptor> ReadDescriptor(Found value, const std::string& source, const std::string& name) {
  dom::object object;
  if (value.get(object)) return Malformed(source, name + " is missing or no object");
  OciDescriptor descriptor;
  descriptor.media_type = Text(object["mediaType"]);
  descriptor.digest = Text(object["digest"]);
  descriptor.annotations = Texts(object["annotations"]);
  if (!IsDigest(descriptor.digest)) {
    const std::string shown = descriptor.digest.substr(0, 80);
    return Malformed(source, fmt::format("{}.digest is '{}', expected sha256: and 64 digits", name, shown));
  }
  if (object["size"].get(descriptor.size) || descriptor.size > uint64_t{1} << 50) {
    return Malformed(source, name + ".size is no number of bytes");
  }
  return descriptor;
}

Result<std::vector<OciDescriptor>> ReadLayers(Found value, const std::string& source, size_t max_layers) {
  dom::array list;
  if (value.get(list)) return Malformed(source, "layers is missing or no list");
  std::vector<OciDescriptor> layers;
  for (dom::element item : list) {
    if (layers.size() == max_layers) return Malformed(source, fmt::format("has more than {} layers", max_layers));
    const std::string name = fmt::format("layers[{}]", layers.size());
    SIGHTLINE_ASSIGN_OR_RETURN(OciDescriptor layer, ReadDescriptor(dom::element(item), source, name));
    layers.push_back(std::move(layer));
  }
  return layers;
}

Status CheckSchema(const dom::object& object, const std::string& source) {
  uint64_t version = 0;
  if (!object["schemaVersion"].get(version) && version == 2) return {};
  return Malformed(source, "schemaVersion is not 2");
}

}  // namespace

bool IsIndexType(std::string_view media_type) { return media_type == kIndexType || media_type == kDockerIndexType; }

Status CheckLayoutVersion(std::string_view json, const std::string& source) {
  dom::parser parser;
  SIGHTLINE_ASSIGN_OR_RETURN(const dom::object object, ParseObject(json, source, &parser));
  const std::string version = Text(object["imageLayoutVersion"]);
  if (version.starts_with("1.")) return {};
  return Malformed(source, fmt::format("imageLayoutVersion is '{}', expected 1.0.0", version.substr(0, 40)));
}

Result<std::vector<IndexEntry>> ParseIndex(std::string_view json, const std::string& source) {
  dom::parser parser;
  SIGHTLINE_ASSIGN_OR_RETURN(const dom::object object, ParseObject(json, source, &parser));
  SIGHTLINE_RETURN_IF_ERROR(CheckSchema(object, source));
  dom::array list;
  if (object["manifests"].get(list)) return Malformed(source, "manifests is missing or no list");
  std::vector<IndexEntry> entries;
  for (dom::element item : list) {
    if (entries.size() == kMaxManifests)
      return Malformed(source, fmt::format("has more than {} manifests", kMaxManifests));
    const std::string name = fmt::format("manifests[{}]", entries.size());
    SIGHTLINE_ASSIGN_OR_RETURN(OciDescriptor descriptor, ReadDescriptor(dom::element(item), source, name));
    entries.push_back({std::move(descriptor), Text(item["platform"]["architecture"]), Text(item["platform"]["os"])});
  }
  return entries;
}

Result<ManifestDocument> ParseManifest(std::string_view json, const std::string& source, size_t max_layers) {
  dom::parser parser;
  SIGHTLINE_ASSIGN_OR_RETURN(const dom::object object, ParseObject(json, source, &parser));
  SIGHTLINE_RETURN_IF_ERROR(CheckSchema(object, source));
  ManifestDocument manifest;
  manifest.media_type = Text(object["mediaType"]);
  manifest.artifact_type = Text(object["artifactType"]);
  manifest.annotations = Texts(object["annotations"]);
  SIGHTLINE_ASSIGN_OR_RETURN(manifest.config, ReadDescriptor(object["config"], source, "config"));
  SIGHTLINE_ASSIGN_OR_RETURN(manifest.layers, ReadLayers(object["layers"], source, max_layers));
  return manifest;
}

Result<ConfigDocument> ParseConfig(std::string_view json, const std::string& source) {
  dom::parser parser;
  SIGHTLINE_ASSIGN_OR_RETURN(const dom::object object, ParseObject(json, source, &parser));
  ConfigDocument config;
  config.runs.architecture = Text(object["architecture"]);
  config.runs.os = Text(object["os"]);
  const auto runs = object["config"];
  config.runs.user = Text(runs["User"]);
  config.runs.folder = Text(runs["WorkingDir"]);
  config.runs.entrypoint = TextList(runs["Entrypoint"]);
  config.runs.command = TextList(runs["Cmd"]);
  config.runs.labels = Texts(runs["Labels"]);
  for (const std::string& variable : TextList(runs["Env"])) {
    const size_t equals = std::min(variable.find('='), variable.size());
    config.runs.environment.emplace_back(variable.substr(0, equals),
                                         variable.substr(std::min(equals + 1, variable.size())));
  }
  dom::object ports;
  if (!runs["ExposedPorts"].get(ports)) {
    for (const auto& [key, value] : ports) {
      int port = 0;
      std::from_chars(key.data(), key.data() + key.size(), port);
      if (port > 0) config.runs.ports.push_back(port);
    }
  }
  config.diff_ids = TextList(object["rootfs"]["diff_ids"]);
  return config;
}

}  // namespace sightline
