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

// Where a package of a registry is kept: images/oci/HOST/REPOSITORY/HEX. `id` is oci://..., the revision a digest;
// nothing where they are something else, as in an index that others wrote. Beside its files lies the manifest that the
// registry has of them.
inline constexpr char kRegistryManifestName[] = "oci-manifest.json";
std::optional<std::filesystem::path> RegistryFolderOf(const StoreFolders& folders, const std::string& id,
                                                      const std::optional<std::string>& revision);

// Options for a registry, with credentials of the user. Of its host.
Result<RegistryOptions> RegistryOptionsFor(const OciReference& reference, TransferOptions transfer);

inline constexpr char kPackageArtifact[] = "application/vnd.sightline.package.v1";

// The files of a package that are fetched before anything is decided.
bool IsManifestFile(std::string_view name);

// Whether a layout has been begun in an image/ folder.
bool HasLayout(const std::filesystem::path& image_folder);
// Whether nothing of it is missing. Damage is left for others to find: what is damaged is not fetched by itself.
bool LayoutIsWhole(const std::filesystem::path& image_folder);

// Where the image files of a recorded package are fetched to, there or not.
std::optional<std::filesystem::path> FetchedImage(const StoreState& state, const LocalPackage& package);

struct ImageWish {
  bool local_only = false;
  bool force = false;  // load it though it is current
};
struct ImageOutcome {
  std::string reference;
  bool loaded = false;
};
// How an image that `engine` may have as `reference` compares with the package's; what is recorded is of the index.
Result<ImageIdentity> IdentityOf(const ContainerEngine& engine, const std::string& reference,
                                 const WireManifest& manifest, const std::optional<IndexEntry>& recorded);
// The image of a package into `engine`, unless it is there. package.entry, where there is one, says afterwards what the
// engine has; the index is left as it is.
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

// Of what a pointer points at, in the hub's words.
HubPatterns PatternsOf(const WeightsPointer& pointer);
std::string RevisionOf(const WeightsPointer& pointer);

// What `fault` of a package's repository means to people; as the hub's error, but for a missing manifest.
StoreError PackageError(const HubError& error, const std::string& id);

}  // namespace sightline
