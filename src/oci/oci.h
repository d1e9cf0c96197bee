// oci: container images as files. Image layouts on disk, layers, archives from strangers, registries, and one file that
// carries a folder to a machine without a network. Formats: the OCI image specification 1.1 and distribution
// specification 1.1, and the tar files of `docker save` and `docker load`. Runs no program. Everything may be called
// from any thread unless a comment says otherwise.
//
// Errors are kInvalidRequest for what is malformed or refused as unsafe, kCorruptWeights for bytes that do not have the
// digest or size they should, kNotFound, kUnreachable for registries, and the codes of files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base.h"
#include "net/net.h"

namespace sightline {

// Bytes so far, and in all (0: unknown).
using ByteProgress = std::function<void(uint64_t done, uint64_t total)>;

struct TransferOptions {
  ByteProgress progress{};
  std::stop_token stop{};  // kCancelled
};

// ---------------------------------------------------------------------------------------------------------------------
// Image layouts: a folder with oci-layout, index.json and blobs/sha256/<digest>

struct OciDescriptor {
  std::string media_type;
  std::string digest;  // "sha256:" and 64 lower-case digits
  uint64_t size = 0;
  std::map<std::string, std::string> annotations{};
};

// What a container of the image runs by default.
struct OciConfig {
  std::string architecture = "amd64";
  std::string os = "linux";
  std::string user{};
  std::string folder{};  // WorkingDir
  std::vector<std::string> entrypoint{};
  std::vector<std::string> command{};
  std::vector<std::pair<std::string, std::string>> environment{};
  std::vector<int> ports{};  // TCP, exposed
  std::map<std::string, std::string> labels{};
};

struct OciImage {
  std::string reference;  // org.opencontainers.image.ref.name or io.containerd.image.name; may be empty
  OciDescriptor manifest;
  OciDescriptor config;
  std::vector<OciDescriptor> layers;
  std::vector<std::string> diff_ids;  // digests of the unpacked layers
  OciConfig runs;
  uint64_t bytes = 0;  // of manifest, config and layers
};

struct OciLayout {
  std::filesystem::path folder;
  std::vector<OciImage> images;  // of index.json and of the indexes it names, in order
};

inline constexpr std::string_view kDigestPrefix = "sha256:";
bool IsDigest(std::string_view text);  // sha256 alone; others are refused everywhere

// Reads index, manifests and configs (4 MiB each at most, indexes nested 4 deep, 1000 images) and checks the digest and
// size of each of those, and that every layer is there with its size. Layers are not read. Blobs may be links, as in a
// hub's cache.
Result<OciLayout> OpenOciLayout(const std::filesystem::path& folder);

// Reads every blob that the layout names. The error names the first one that is missing or differs.
Status VerifyOciLayout(const OciLayout& layout, const TransferOptions& options = {});

// One layer to be: a folder whose content goes below `target`, or one file that becomes `target`.
struct OciLayerSource {
  std::filesystem::path source;
  std::string target = "/";  // absolute, in the image
};
struct OciImageRecipe {
  std::vector<OciLayerSource> layers;
  OciConfig runs{};
  std::string reference{};                           // "tt-model/gaze:0123456789ab"
  std::map<std::string, std::string> annotations{};  // of the manifest
};
// Writes a layout of one image into `folder`, which must be empty or absent; on failure nothing of it stays. The same
// input gives the same bytes (with the same zlib): members sorted by name as bytes, time 0, owner 0:0, modes 0755 and
// 0644 (executable or not), gzip without a name or time. Symbolic links stay as they are: a container's root confines
// them. Devices, sockets and pipes are refused. manifest.json is written too, so that `docker load` knows the
// reference.
Result<OciImage> WriteOciImage(const OciImageRecipe& recipe, const std::filesystem::path& folder,
                               const TransferOptions& options = {});

// The archive `docker load` takes: all of the layout's folder, sorted, links to files followed. When `reference` is
// given
// ("tt-model/gaze:0123456789ab"), index.json and manifest.json in the archive name it for the layout's only image,
// whatever the layout says.
Status WriteDockerArchive(const std::filesystem::path& folder, const std::string& reference, ByteSink sink);

// The archive of `docker save`, or of `podman save --format oci-archive`, into a layout. `folder` must be empty or
// absent; on failure nothing of it stays. An archive without oci-layout (Docker below 25) is refused with a sentence
// that says so.
Status ReadDockerArchive(ByteSource source, const std::filesystem::path& folder, const TransferOptions& options = {});

// ---------------------------------------------------------------------------------------------------------------------
// Archives from strangers

struct UnpackLimits {
  uint64_t max_entries = 1'000'000;
  uint64_t max_bytes = uint64_t{256} << 30;  // of all files together
  uint64_t max_ratio = 1000;                 // unpacked to packed, counted beyond the first 64 MiB
  size_t max_depth = 64;                     // folders within folders
};

struct UnpackReport {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  std::string digest;        // of the archive as it was read, "sha256:..."
  std::string plain_digest;  // of the tar inside
};
// Unpacks tar (plain, gzip, zstd, xz or bzip2) into `folder`, which is created. Refused, with the member's name and
// why: absolute names, "..", empty names, names with control bytes; links that lead out of the folder, hard links to
// anything but a file of this archive, anything written through a link; a file where a folder is and the reverse, files
// that are there already; devices, pipes and sockets, sparse files; more than the limits allow. Set-uid bits, owners,
// times and extended attributes are dropped. After an error the folder holds what came before it.
Result<UnpackReport> UnpackArchive(ByteSource source, const std::filesystem::path& folder,
                                   const UnpackLimits& limits = {}, const TransferOptions& options = {});
// The same from a file.
Result<UnpackReport> UnpackArchiveFile(const std::filesystem::path& archive, const std::filesystem::path& folder,
                                       const UnpackLimits& limits = {}, const TransferOptions& options = {});

// A folder as one file for a machine without a network: a plain tar, sorted, of all files with links followed, whose
// first member, sightline-export.json, lists every file with size and digest. The same folder gives the same bytes.
Status ExportFolder(const std::filesystem::path& folder, const std::filesystem::path& file,
                    const std::map<std::string, std::string>& notes, const TransferOptions& options = {});
// Unpacks such a file into `folder`, which must be empty or absent, and checks every digest; on failure nothing of it
// stays. Returns the notes.
Result<std::map<std::string, std::string>> ImportFolder(const std::filesystem::path& file,
                                                        const std::filesystem::path& folder,
                                                        const TransferOptions& options = {});
// Only the notes: what is in this file?
Result<std::map<std::string, std::string>> ReadExportNotes(const std::filesystem::path& file);

// ---------------------------------------------------------------------------------------------------------------------
// Registries

// oci://host[:port]/repository[:tag][@digest]
struct OciReference {
  std::string host;  // with the port: "localhost:5000"
  std::string repository;
  std::string tag{};     // "latest" where neither was given
  std::string digest{};  // wins over the tag
};
// The grammar of the distribution specification; "oci://" may be absent where the first part has a dot, a colon or is
// localhost. kUsage with an example.
Result<OciReference> ParseOciReference(std::string_view text);
std::string FormatOciReference(const OciReference& reference);  // with oci://

struct RegistryCredentials {
  std::string user;
  std::string password;
};
// Of the repository, else of the nearest namespace above it, else of its host (containers-auth.json(5)): in
// REGISTRY_AUTH_FILE, else containers' auth.json, else Docker's config.json (DOCKER_CONFIG, ~/.docker); the first file
// that has any of them wins. Nothing when none has. Programs that keep credentials (credHelpers) are not run.
Result<std::optional<RegistryCredentials>> FindRegistryCredentials(const OciReference& reference);

struct RegistryOptions {
  std::optional<RegistryCredentials> credentials{};
  std::chrono::milliseconds timeout{30'000};  // without a byte
  int attempts = 5;                           // per request; waits grow, Retry-After counts
  uint64_t chunk_bytes = 16u << 20;           // of uploads; 0 sends each blob in one piece
  TransferOptions transfer{};
};

// One registry, one repository, by HTTPS; a registry of this machine (IsLoopbackUrl) by plain HTTP. Tokens are fetched
// when the registry asks (Bearer and Basic), kept, never logged and never sent to another host. Not thread-safe.
class RegistryClient {
 public:
  RegistryClient(OciReference reference, RegistryOptions options);
  ~RegistryClient();
  RegistryClient(RegistryClient&&) noexcept;
  RegistryClient& operator=(RegistryClient&&) noexcept;

  // The descriptor that a tag or digest stands for; nothing when there is none.
  Result<std::optional<OciDescriptor>> FindManifest(const std::string& tag_or_digest);
  struct Manifest {
    OciDescriptor descriptor;
    std::string content;
  };
  Result<Manifest> GetManifest(const std::string& tag_or_digest);
  // Returns its digest.
  Result<std::string> PutManifest(const std::string& tag_or_digest, const std::string& media_type,
                                  const std::string& content);
  Result<bool> HasBlob(const std::string& digest);
  // Uploads unless it is there: then the file is not even read.
  Status PutBlob(const OciDescriptor& blob, const std::filesystem::path& file);
  // Into `file`, visible only when size and digest are right; a part that an earlier try left beside it is resumed.
  Status GetBlob(const OciDescriptor& blob, const std::filesystem::path& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of files by their relative names; all when empty.
using FileChoice = std::function<bool(std::string_view name)>;

// A folder as an artifact: a manifest of `artifact_type` with one layer a file, whose title annotation is the relative
// name (as ORAS does), and an empty config. Blobs that the registry has are not sent again. Returns the digest.
Result<std::string> PushFolder(const std::filesystem::path& folder, const OciReference& reference,
                               const FileChoice& wanted, const std::string& artifact_type,
                               const std::map<std::string, std::string>& annotations, const RegistryOptions& options);
struct PulledFolder {
  std::string digest;
  std::string manifest;  // the document that has this digest
  std::string artifact_type;
  std::map<std::string, std::string> annotations;
};
// Names are checked as those of archives are. Files that are there and right are kept; others of the folder are left
// alone.
Result<PulledFolder> PullFolder(const OciReference& reference, const std::filesystem::path& folder,
                                const FileChoice& wanted, const RegistryOptions& options);
// Whether a folder that came another way holds nothing but files of the artifact `digest`, some or all: each as
// `manifest` says, and that document as `digest` does. Reads all of it. kInvalidRequest or kCorruptWeights.
Status VerifyPulledFolder(const std::filesystem::path& folder, const std::string& manifest, const std::string& digest,
                          const TransferOptions& options = {});

}  // namespace sightline
