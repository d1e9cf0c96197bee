// Folders to registries and back.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "oci/blob.h"
#include "oci/documents.h"
#include "oci/member_tree.h"
#include "oci/tree.h"

namespace sightline {
namespace {

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

struct LocalFile {
  OciDescriptor blob;
  std::filesystem::path path;
};

Result<std::vector<LocalFile>> DescribeFiles(const std::filesystem::path& folder, const FileChoice& wanted) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TreeEntry> entries, ListTree(folder, Links::kFollow));
  std::vector<LocalFile> files;
  for (const TreeEntry& entry : entries) {
    if (entry.kind != TreeEntry::Kind::kFile || (wanted && !wanted(entry.name))) continue;
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

Result<std::string> PushFolder(const std::filesystem::path& folder, const OciReference& reference,
                               const FileChoice& wanted, const std::string& artifact_type,
                               const std::map<std::string, std::string>& annotations, const RegistryOptions& options) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<LocalFile> files, DescribeFiles(folder, wanted));
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
                                const FileChoice& wanted, const RegistryOptions& options) {
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
  return PulledFolder{found.descriptor.digest, found.content, manifest.artifact_type, manifest.annotations};
}

Status VerifyPulledFolder(const std::filesystem::path& folder, const std::string& manifest, const std::string& digest,
                          const TransferOptions& options) {
  if (const std::string actual = DigestOf(manifest); actual != digest) {
    return Fail(Code::kCorruptWeights,
                fmt::format("the manifest of the package has the digest {}, expected {}", actual, digest));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const ManifestDocument document, ParseManifest(manifest, digest, kMaxFiles));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto files, FilesOf(document, digest));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TreeEntry> entries, ListTree(folder, Links::kKeep));
  uint64_t bytes = 0;
  for (const TreeEntry& entry : entries) bytes += entry.size;
  Transfer transfer(options, bytes);
  for (const TreeEntry& entry : entries) {
    if (entry.kind == TreeEntry::Kind::kFolder) continue;
    const auto expected = files.find(entry.name);
    if (expected == files.end() || entry.kind == TreeEntry::Kind::kLink) {
      return Fail(Code::kInvalidRequest, fmt::format("{} is no file of the package {}", entry.name, digest));
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckBlob(entry.path, expected->second, &transfer));
  }
  return {};
}

}  // namespace sightline
