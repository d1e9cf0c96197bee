// Images and folders to registries and back.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "oci/blob.h"
#include "oci/documents.h"
#include "oci/member_tree.h"
#include "oci/tree.h"

namespace sightline {
namespace {

constexpr size_t kMaxLayers = 1000;
constexpr size_t kMaxFiles = 100'000;
constexpr size_t kMaxDepth = 64;
constexpr std::string_view kFileType = "application/octet-stream";
constexpr std::string_view kEmptyDocument = "{}";

// One progress over many blobs, each of which counts from 0.
class Total {
 public:
  explicit Total(const RegistryOptions& options) : options_(options), state_(std::make_shared<State>()) {}

  RegistryOptions Options() const {
    RegistryOptions options = options_;
    if (!options_.transfer.progress) return options;
    options.transfer.progress = [state = state_, report = options_.transfer.progress](uint64_t done, uint64_t) {
      report(std::min(state->total, state->finished + done), state->total);
    };
    return options;
  }
  void Expect(uint64_t bytes) { state_->total += bytes; }
  void Finished(uint64_t bytes) { state_->finished += bytes; }

 private:
  struct State {
    uint64_t finished = 0, total = 0;
  };
  RegistryOptions options_;
  std::shared_ptr<State> state_;
};

std::string NameOf(const OciReference& reference) {
  return reference.digest.empty() ? reference.tag : reference.digest;
}

// Of an index the image for this architecture, else what it is.
Result<RegistryClient::Manifest> FindImage(RegistryClient* client, const OciReference& reference,
                                           const std::string& architecture) {
  SIGHTLINE_ASSIGN_OR_RETURN(RegistryClient::Manifest manifest, client->GetManifest(NameOf(reference)));
  if (!IsIndexType(manifest.descriptor.media_type)) return manifest;
  const std::string source = FormatOciReference(reference);
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<IndexEntry> entries, ParseIndex(manifest.content, source));
  std::string others;
  for (const IndexEntry& entry : entries) {
    if (entry.architecture == architecture && entry.os == "linux") return client->GetManifest(entry.descriptor.digest);
    if (entry.os != "unknown")
      others += fmt::format("{}{}/{}", others.empty() ? "" : ", ", entry.os, entry.architecture);
  }
  return Fail(Code::kUnsupported, fmt::format("{}: has no image for linux/{}, but for: {}", source, architecture,
                                              others.empty() ? "nothing" : others));
}

// docker.io/team/gaze:1 without the scheme, as engines name images.
std::string ImageName(const OciReference& reference) {
  const std::string tag = reference.tag.empty() ? "latest" : reference.tag;
  return fmt::format("{}/{}:{}", reference.host, reference.repository, tag);
}

Status MakeFolders(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  return problem ? Status(tl::make_unexpected(ErrnoError("write", folder, problem.value()))) : Status();
}

struct LocalFile {
  OciDescriptor blob;
  std::filesystem::path path;
};

Result<std::vector<LocalFile>> DescribeFiles(const std::filesystem::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TreeEntry> entries, ListTree(folder, Links::kFollow));
  std::vector<LocalFile> files;
  for (const TreeEntry& entry : entries) {
    if (entry.kind != TreeEntry::Kind::kFile) continue;
    Sha256 sha;
    uint64_t size = 0;
    const auto add = [&](std::span<const std::byte> bytes) -> Status {
      sha.Update(bytes);
      size += bytes.size();
      return {};
    };
    SIGHTLINE_RETURN_IF_ERROR(ReadPieces(entry.path, add));
    OciDescriptor blob{std::string(kFileType), std::string(kDigestPrefix) + sha.HexDigest(), size};
    blob.annotations[std::string(kTitle)] = entry.name;
    files.push_back({std::move(blob), entry.path});
  }
  if (!files.empty()) return files;
  return Fail(Code::kInvalidRequest, fmt::format("{}: holds no file to push", folder.string()));
}

// Uploads the config of artifacts, which is empty, from a file of its own.
Status PutEmptyConfig(RegistryClient* client, const OciDescriptor& config) {
  SIGHTLINE_ASSIGN_OR_RETURN(const bool there, client->HasBlob(config.digest));
  if (there) return {};
  std::string folder = (std::filesystem::temp_directory_path() / "sightline-config-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return tl::make_unexpected(ErrnoError("write", folder, errno));
  const UnfinishedFolder removed(folder);
  const auto file = std::filesystem::path(folder) / "config";
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(file, kEmptyDocument));
  return client->PutBlob(config, file);
}

// Where each file goes. The names are a stranger's.
Result<std::map<std::string, OciDescriptor>> FilesOf(const ManifestDocument& manifest, const std::string& source) {
  std::map<std::string, OciDescriptor> files;
  for (const OciDescriptor& layer : manifest.layers) {
    const auto title = layer.annotations.find(std::string(kTitle));
    if (title == layer.annotations.end()) {
      return Fail(Code::kInvalidRequest,
                  fmt::format("{}: is no package, its layer {} has no name", source, layer.digest));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const auto parts, CheckMemberName(title->second, kMaxDepth));
    std::string name;
    for (const std::string& part : parts) name += (name.empty() ? "" : "/") + part;
    if (name.empty() || !files.emplace(name, layer).second) {
      return Fail(Code::kInvalidRequest, fmt::format("{}: names the file '{}' twice or not at all", source, name));
    }
  }
  return files;
}

}  // namespace

Result<OciImage> PullOciImage(const OciReference& reference, const std::filesystem::path& folder,
                              const RegistryOptions& options, const std::string& architecture) {
  Total total(options);
  RegistryClient client(reference, total.Options());
  SIGHTLINE_ASSIGN_OR_RETURN(const RegistryClient::Manifest found, FindImage(&client, reference, architecture));
  const std::string source = FormatOciReference(reference);
  SIGHTLINE_ASSIGN_OR_RETURN(const ManifestDocument manifest, ParseManifest(found.content, source, kMaxLayers));
  std::vector<OciDescriptor> blobs = manifest.layers;
  blobs.push_back(manifest.config);
  for (const OciDescriptor& blob : blobs) total.Expect(blob.size);
  for (const OciDescriptor& blob : blobs) {
    SIGHTLINE_RETURN_IF_ERROR(client.GetBlob(blob, BlobPath(folder, blob.digest)));
    total.Finished(blob.size);
  }
  SIGHTLINE_RETURN_IF_ERROR(MakeFolders(folder / "blobs/sha256"));
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(BlobPath(folder, found.descriptor.digest), found.content));
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(folder / "oci-layout", kLayoutDocument));
  OciDescriptor descriptor = found.descriptor;
  if (descriptor.media_type.empty()) descriptor.media_type = manifest.media_type;
  const OciConfig unnamed{.architecture = "", .os = ""};
  SIGHTLINE_RETURN_IF_ERROR(
      WriteDocument(folder / "index.json", WriteIndex(descriptor, ImageName(reference), unnamed)));
  SIGHTLINE_ASSIGN_OR_RETURN(OciLayout layout, OpenOciLayout(folder));
  if (layout.images.size() == 1) return std::move(layout.images.front());
  return Fail(Code::kInvalidRequest, fmt::format("{}: is no single image", source));
}

Result<std::string> PushOciImage(const OciLayout& layout, const OciImage& image, const OciReference& reference,
                                 const RegistryOptions& options) {
  Total total(options);
  RegistryClient client(reference, total.Options());
  std::vector<OciDescriptor> blobs = image.layers;
  blobs.push_back(image.config);
  for (const OciDescriptor& blob : blobs) total.Expect(blob.size);
  for (const OciDescriptor& blob : blobs) {
    SIGHTLINE_RETURN_IF_ERROR(client.PutBlob(blob, BlobPath(layout.folder, blob.digest)));
    total.Finished(blob.size);
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string manifest,
                             ReadDocument(BlobPath(layout.folder, image.manifest.digest), image.manifest));
  return client.PutManifest(NameOf(reference), image.manifest.media_type, manifest);
}

Result<std::string> PushFolder(const std::filesystem::path& folder, const OciReference& reference,
                               const std::string& artifact_type, const std::map<std::string, std::string>& annotations,
                               const RegistryOptions& options) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<LocalFile> files, DescribeFiles(folder));
  Total total(options);
  RegistryClient client(reference, total.Options());
  ManifestDocument manifest;
  manifest.artifact_type = artifact_type;
  manifest.annotations = annotations;
  manifest.config = {std::string(kEmptyType), DigestOf(kEmptyDocument), kEmptyDocument.size()};
  for (const LocalFile& file : files) {
    manifest.layers.push_back(file.blob);
    total.Expect(file.blob.size);
  }
  const std::string content = WriteManifest(manifest);
  if (content.size() > kMaxDocumentBytes || files.size() > kMaxFiles) {
    return Fail(Code::kInvalidRequest, fmt::format("{}: holds {} files, more than a registry takes in one package",
                                                   folder.string(), files.size()));
  }
  total.Expect(manifest.config.size);
  SIGHTLINE_RETURN_IF_ERROR(PutEmptyConfig(&client, manifest.config));
  total.Finished(manifest.config.size);
  for (const LocalFile& file : files) {
    SIGHTLINE_RETURN_IF_ERROR(client.PutBlob(file.blob, file.path));
    total.Finished(file.blob.size);
  }
  return client.PutManifest(NameOf(reference), std::string(kManifestType), content);
}

Result<PulledFolder> PullFolder(const OciReference& reference, const std::filesystem::path& folder,
                                const std::function<bool(std::string_view name)>& wanted,
                                const RegistryOptions& options) {
  Total total(options);
  RegistryClient client(reference, total.Options());
  SIGHTLINE_ASSIGN_OR_RETURN(const RegistryClient::Manifest found, client.GetManifest(NameOf(reference)));
  const std::string source = FormatOciReference(reference);
  SIGHTLINE_ASSIGN_OR_RETURN(const ManifestDocument manifest, ParseManifest(found.content, source, kMaxFiles));
  SIGHTLINE_ASSIGN_OR_RETURN(auto files, FilesOf(manifest, source));
  std::erase_if(files, [&wanted](const auto& file) { return wanted && !wanted(file.first); });
  for (const auto& [name, blob] : files) total.Expect(blob.size);
  for (const auto& [name, blob] : files) {
    SIGHTLINE_RETURN_IF_ERROR(client.GetBlob(blob, folder / name));
    total.Finished(blob.size);
  }
  return PulledFolder{found.descriptor.digest, manifest.artifact_type, manifest.annotations};
}

}  // namespace sightline
