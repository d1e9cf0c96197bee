// The JSON documents of the image specification: read with simdjson, written with nlohmann-json.
#pragma once

#include "oci/oci.h"

namespace sightline {

inline constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr std::string_view kLayerType = "application/vnd.oci.image.layer.v1.tar+gzip";
inline constexpr std::string_view kEmptyType = "application/vnd.oci.empty.v1+json";
inline constexpr std::string_view kDockerIndexType = "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view kDockerManifestType = "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view kTitle = "org.opencontainers.image.title";
inline constexpr std::string_view kRefName = "org.opencontainers.image.ref.name";
inline constexpr std::string_view kImageName = "io.containerd.image.name";

bool IsIndexType(std::string_view media_type);

struct IndexEntry {
  OciDescriptor descriptor;
  std::string architecture, os;  // of its platform; empty when it has none
};
// `source` is what errors speak of. At most 1000 entries.
Result<std::vector<IndexEntry>> ParseIndex(std::string_view json, const std::string& source);

struct ManifestDocument {
  std::string media_type;  // may be empty
  std::string artifact_type;
  OciDescriptor config;
  std::vector<OciDescriptor> layers;
  std::map<std::string, std::string> annotations;
};
// At most `max_layers`.
Result<ManifestDocument> ParseManifest(std::string_view json, const std::string& source, size_t max_layers);

struct ConfigDocument {
  OciConfig runs;
  std::vector<std::string> diff_ids;
};
Result<ConfigDocument> ParseConfig(std::string_view json, const std::string& source);

// The version that oci-layout names; an error when it is no 1.x.
Status CheckLayoutVersion(std::string_view json, const std::string& source);

std::string WriteManifest(const ManifestDocument& manifest);
std::string WriteConfig(const ConfigDocument& config);
// index.json with one manifest. A reference becomes the annotations that containerd and skopeo look at.
std::string WriteIndex(OciDescriptor manifest, const std::string& reference, const OciConfig& platform);
// manifest.json, as `docker load` reads it.
std::string WriteDockerManifest(const OciDescriptor& config, const std::vector<OciDescriptor>& layers,
                                const std::string& reference);
inline constexpr std::string_view kLayoutDocument = "{\"imageLayoutVersion\":\"1.0.0\"}";

}  // namespace sightline
