// What a Store holds. Included by its .cc files alone.
#pragma once

#include <optional>

#include "store/store.h"

namespace sightline {

struct StoreState {
  explicit StoreState(StoreSettings given);

  StoreSettings settings;
  PackageIndex index;
  Hub weights;   // with the user's cache
  Hub packages;  // with ours
  // Held shared by whoever adds files, so that what is being added is not swept away. Nothing where the store cannot be
  // written: then nothing will be added.
  std::optional<FileLock> LockForAdding() const;
  std::filesystem::path LockFile() const { return settings.folders.root / ".store.lock"; }
};
struct Store::State : StoreState {
  using StoreState::StoreState;
};

// The commit of a file in a snapshot of the hub's cache: .../snapshots/COMMIT/...
std::string CommitOf(const std::filesystem::path& file_at_top);

// Where a package of a registry is kept: images/oci/HOST/REPOSITORY/HEX.
std::filesystem::path RegistryFolder(const StoreFolders& folders, const OciReference& reference,
                                     const std::string& digest);

// Options for a registry, with credentials of the user. Of its host.
Result<RegistryOptions> RegistryOptionsFor(const OciReference& reference, TransferOptions transfer);

inline constexpr char kPackageArtifact[] = "application/vnd.sightline.package.v1";

// The files of a package that are fetched before anything is decided.
bool IsManifestFile(std::string_view name);

// What is wrong with an image/ folder as far as it can be seen without reading blobs; nothing: it can be loaded.
bool HasLayout(const std::filesystem::path& image_folder);

// The one reference that runs this package's image.
std::string ImageReference(const WireManifest& manifest, const std::optional<IndexEntry>& entry);

struct ImageWish {
  bool local_only = false;
  bool force = false;  // load it though it is current
};
struct ImageOutcome {
  std::string reference;
  bool loaded = false;
};
// The image of a package into `engine`, unless it is there; the index entry, where there is one, is brought up to date,
// and so is package.entry.
StoreResult<ImageOutcome> BringImage(StoreState& state, const ContainerEngine& engine, LocalPackage& package,
                                     const ImageWish& wish, Reporter& reporter, std::stop_token stop);
// image/ of a package into the store; returns that folder.
StoreResult<std::filesystem::path> FetchImageFiles(StoreState& state, const LocalPackage& package, Reporter& reporter,
                                                   std::stop_token stop);
StoreError ImageMissing(const LocalPackage& package, const std::string& reference, const std::string& program);

// Asks about the licence of a repository's weights unless that was done here before.
StoreStatus AgreeToLicense(StoreState& state, const std::string& repo, const LicenseQuestion& question,
                           Reporter& reporter, std::stop_token stop);

// Manifest and index entry, after the image.
StoreStatus InstallManifest(StoreState& state, LocalPackage& package, RunMode mode);
// All of a pull that follows the manifest.
StoreResult<PullReport> FinishPull(Store& store, StoreState& state, LocalPackage package, const PullOptions& options,
                                   Reporter& reporter, std::stop_token stop);

// index entry as the manifest says it.
IndexEntry EntryFor(const LocalPackage& package);

// What `fault` of a package's repository means to people; as the hub's error, but for a missing manifest.
StoreError PackageError(const HubError& error, const std::string& id);

}  // namespace sightline
