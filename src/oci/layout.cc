// Reading and verifying image layouts.
#include <fmt/format.h>

#include <set>

#include "oci/blob.h"
#include "oci/documents.h"

namespace sightline {
namespace {

constexpr int kMaxIndexDepth = 4;
constexpr size_t kMaxImages = 1000;
constexpr size_t kMaxLayers = 1000;
constexpr std::string_view kAttestation = "vnd.docker.reference.type";

std::string Annotation(const OciDescriptor& descriptor, std::string_view name) {
  const auto found = descriptor.annotations.find(std::string(name));
  return found == descriptor.annotations.end() ? "" : found->second;
}

// "tt-model/gaze:1", which containerd and podman spell "docker.io/tt-model/gaze:1".
std::string ReferenceOf(const OciDescriptor& descriptor) {
  std::string name = Annotation(descriptor, kImageName);
  if (name.empty()) name = Annotation(descriptor, kRefName);
  for (const std::string_view prefix : {"docker.io/library/", "docker.io/", "localhost/"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

Result<std::string> ReadText(const std::filesystem::path& file) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(file, kMaxDocumentBytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status CheckPresent(const std::filesystem::path& folder, const OciDescriptor& blob) {
  const auto file = BlobPath(folder, blob.digest);
  std::error_code problem;
  const bool present = std::filesystem::is_regular_file(file, problem);
  if (!present) return Fail(Code::kNotFound, fmt::format("{}: the blob is missing", file.string()));
  const uint64_t size = std::filesystem::file_size(file, problem);
  if (size == blob.size) return {};
  return Fail(Code::kCorruptWeights, fmt::format("{}: has {} bytes, expected {}", file.string(), size, blob.size));
}

class LayoutReader {
 public:
  explicit LayoutReader(OciLayout* layout) : layout_(layout) {}

  Status ReadEntries(std::string_view json, const std::string& source, int depth) {
    if (depth > kMaxIndexDepth) {
      return Fail(Code::kInvalidRequest,
                  fmt::format("{}: indexes are nested more than {} deep", source, kMaxIndexDepth));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<IndexEntry> entries, ParseIndex(json, source));
    for (const IndexEntry& entry : entries) SIGHTLINE_RETURN_IF_ERROR(ReadEntry(entry.descriptor, depth));
    return {};
  }

 private:
  Status ReadEntry(const OciDescriptor& descriptor, int depth) {
    if (!Annotation(descriptor, kAttestation).empty()) return {};  // says how an image was built; is none
    const auto file = BlobPath(layout_->folder, descriptor.digest);
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string json, ReadDocument(file, descriptor));
    // An index may name itself a hundred times, and those again.
    if (++documents_ > kMaxImages) {
      return Fail(Code::kInvalidRequest,
                  fmt::format("{}: has more than {} manifests", layout_->folder.string(), kMaxImages));
    }
    if (IsIndexType(descriptor.media_type)) return ReadEntries(json, file.string(), depth + 1);
    return ReadImage(descriptor, json, file.string());
  }

  Status ReadImage(const OciDescriptor& descriptor, const std::string& json, const std::string& source) {
    SIGHTLINE_ASSIGN_OR_RETURN(ManifestDocument manifest, ParseManifest(json, source, kMaxLayers));
    const auto config_file = BlobPath(layout_->folder, manifest.config.digest);
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string config_json, ReadDocument(config_file, manifest.config));
    SIGHTLINE_ASSIGN_OR_RETURN(ConfigDocument config, ParseConfig(config_json, config_file.string()));
    OciImage image;
    image.reference = ReferenceOf(descriptor);
    image.manifest = descriptor;
    image.bytes = descriptor.size + manifest.config.size;
    for (const OciDescriptor& layer : manifest.layers) {
      SIGHTLINE_RETURN_IF_ERROR(CheckPresent(layout_->folder, layer));
      image.bytes += layer.size;
    }
    image.config = std::move(manifest.config);
    image.layers = std::move(manifest.layers);
    image.runs = std::move(config.runs);
    image.diff_ids = std::move(config.diff_ids);
    layout_->images.push_back(std::move(image));
    return {};
  }

  OciLayout* layout_;
  size_t documents_ = 0;
};

// What the folder of blobs holds besides: each file must be what its name says.
Status AddUnnamedBlobs(const std::filesystem::path& folder, std::map<std::string, OciDescriptor>* blobs) {
  std::error_code problem;
  std::filesystem::directory_iterator item(folder / "blobs" / "sha256", problem), end;
  for (; !problem && item != end; item.increment(problem)) {
    const std::string digest = std::string(kDigestPrefix) + item->path().filename().string();
    if (!IsDigest(digest)) {
      return Fail(Code::kInvalidRequest, fmt::format("{}: is not named after a digest", item->path().string()));
    }
    std::error_code gone;
    const uint64_t size = std::filesystem::file_size(item->path(), gone);
    if (!gone) blobs->try_emplace(digest, OciDescriptor{"", digest, size});
  }
  if (problem) return tl::make_unexpected(ErrnoError("read", folder / "blobs" / "sha256", problem.value()));
  return {};
}

}  // namespace

Result<OciLayout> OpenOciLayout(const std::filesystem::path& folder) {
  OciLayout layout;
  layout.folder = folder;
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "oci-layout", ignored)) {
    return Fail(Code::kNotFound, fmt::format("{}: is no image layout, it has no file oci-layout", folder.string()));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string version, ReadText(folder / "oci-layout"));
  SIGHTLINE_RETURN_IF_ERROR(CheckLayoutVersion(version, (folder / "oci-layout").string()));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string index, ReadText(folder / "index.json"));
  SIGHTLINE_RETURN_IF_ERROR(LayoutReader(&layout).ReadEntries(index, (folder / "index.json").string(), 0));
  return layout;
}

Status VerifyOciLayout(const OciLayout& layout, const TransferOptions& options) {
  std::map<std::string, OciDescriptor> blobs;  // each once, however often it is named
  for (const OciImage& image : layout.images) {
    blobs.try_emplace(image.manifest.digest, image.manifest);
    blobs.try_emplace(image.config.digest, image.config);
    for (const OciDescriptor& layer : image.layers) blobs.try_emplace(layer.digest, layer);
  }
  SIGHTLINE_RETURN_IF_ERROR(AddUnnamedBlobs(layout.folder, &blobs));
  uint64_t total = 0;
  for (const auto& [digest, blob] : blobs) total += blob.size;
  Transfer transfer(options, total);
  for (const auto& [digest, blob] : blobs) {
    SIGHTLINE_RETURN_IF_ERROR(CheckBlob(BlobPath(layout.folder, digest), blob, &transfer));
  }
  return {};
}

}  // namespace sightline
