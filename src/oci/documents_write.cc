#include <nlohmann/json.hpp>

#include "oci/documents.h"

namespace sightline {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEpoch = "1970-01-01T00:00:00Z";

// Names and values come from users; what is no UTF-8 must not end in an exception.
std::string Written(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json ToJson(const OciDescriptor& descriptor) {
  Json json{{"mediaType", descriptor.media_type}, {"digest", descriptor.digest}, {"size", descriptor.size}};
  if (!descriptor.annotations.empty()) json["annotations"] = descriptor.annotations;
  return json;
}

Json ToJson(const std::vector<OciDescriptor>& descriptors) {
  Json list = Json::array();
  for (const OciDescriptor& descriptor : descriptors) list.push_back(ToJson(descriptor));
  return list;
}

// "docker.io/tt-model/gaze:1", as containerd spells names.
std::string FullName(const std::string& reference) {
  const size_t slash = reference.find('/');
  const std::string first = reference.substr(0, slash);
  const bool host =
      slash != std::string::npos && (first.find_first_of(".:") != std::string::npos || first == "localhost");
  if (host) return reference;
  return "docker.io/" + std::string(slash == std::string::npos ? "library/" : "") + reference;
}

std::string TagOf(const std::string& reference) {
  const size_t colon = reference.rfind(':');
  const bool tag = colon != std::string::npos && reference.find('/', colon) == std::string::npos;
  return tag ? reference.substr(colon + 1) : "latest";
}

}  // namespace

std::string WriteManifest(const ManifestDocument& manifest) {
  Json json{{"schemaVersion", 2}, {"mediaType", kManifestType}};
  if (!manifest.artifact_type.empty()) json["artifactType"] = manifest.artifact_type;
  json["config"] = ToJson(manifest.config);
  json["layers"] = ToJson(manifest.layers);
  if (!manifest.annotations.empty()) json["annotations"] = manifest.annotations;
  return Written(json);
}

std::string WriteConfig(const ConfigDocument& config) {
  Json runs = Json::object();
  const OciConfig& from = config.runs;
  if (!from.user.empty()) runs["User"] = from.user;
  for (const int port : from.ports) runs["ExposedPorts"][std::to_string(port) + "/tcp"] = Json::object();
  for (const auto& [name, value] : from.environment) runs["Env"].push_back(name + "=" + value);
  if (!from.entrypoint.empty()) runs["Entrypoint"] = from.entrypoint;
  if (!from.command.empty()) runs["Cmd"] = from.command;
  if (!from.folder.empty()) runs["WorkingDir"] = from.folder;
  if (!from.labels.empty()) runs["Labels"] = from.labels;
  Json json{{"created", kEpoch}, {"architecture", from.architecture}, {"os", from.os}, {"config", runs}};
  json["rootfs"] = Json{{"type", "layers"}, {"diff_ids", config.diff_ids}};
  Json history = Json::array();
  for (size_t i = 0; i < config.diff_ids.size(); ++i) {
    history.push_back(Json{{"created", kEpoch}, {"created_by", "sightline"}});
  }
  json["history"] = history;
  return Written(json);
}

std::string WriteIndex(OciDescriptor manifest, const std::string& reference, const OciConfig& platform) {
  if (!reference.empty()) {
    manifest.annotations[std::string(kImageName)] = FullName(reference);
    manifest.annotations[std::string(kRefName)] = TagOf(reference);
  }
  Json entry = ToJson(manifest);
  if (!platform.architecture.empty()) {
    entry["platform"] = Json{{"architecture", platform.architecture}, {"os", platform.os}};
  }
  return Written(Json{{"schemaVersion", 2}, {"mediaType", kIndexType}, {"manifests", Json::array({entry})}});
}

std::string WriteDockerManifest(const OciDescriptor& config, const std::vector<OciDescriptor>& layers,
                                const std::string& reference) {
  const auto name = [](const OciDescriptor& blob) {
    return "blobs/sha256/" + blob.digest.substr(kDigestPrefix.size());
  };
  Json entry{{"Config", name(config)}, {"RepoTags", Json()}, {"Layers", Json::array()}};
  if (!reference.empty()) entry["RepoTags"] = Json::array({reference});
  for (const OciDescriptor& layer : layers) entry["Layers"].push_back(name(layer));
  return Written(Json::array({entry}));
}

}  // namespace sightline
