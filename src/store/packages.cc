#include <fmt/format.h>

#include <system_error>

#include "store/state.h"

namespace sightline {

namespace fs = std::filesystem;

std::string CommitOf(const fs::path& file_at_top) { return file_at_top.parent_path().filename().string(); }

std::optional<fs::path> RegistryFolderOf(const StoreFolders& folders, const std::string& id,
                                         const std::optional<std::string>& revision) {
  if (!id.starts_with("oci://") || !revision || !IsDigest(*revision)) return std::nullopt;
  const Result<OciReference> reference = ParseOciReference(id);
  if (!reference) return std::nullopt;
  std::string repository = reference->repository;
  for (size_t at = 0; (at = repository.find('/', at)) != std::string::npos;) repository.replace(at, 1, "--");
  return folders.images / "oci" / reference->host / repository / revision->substr(kDigestPrefix.size());
}

Result<RegistryOptions> RegistryOptionsFor(const OciReference& reference, TransferOptions transfer) {
  RegistryOptions options;
  SIGHTLINE_ASSIGN_OR_RETURN(options.credentials, FindRegistryCredentials(reference));
  options.transfer = std::move(transfer);
  return options;
}

bool IsManifestFile(std::string_view name) { return name == kWireManifestName || name == kNativeManifestName; }

bool HasLayout(const fs::path& image_folder) {
  std::error_code error;
  return fs::exists(image_folder / "oci-layout", error) && fs::exists(image_folder / "index.json", error);
}

bool LayoutIsWhole(const fs::path& image_folder) {
  if (!HasLayout(image_folder)) return false;
  const Result<OciLayout> layout = OpenOciLayout(image_folder);
  return layout || layout.error().code != Code::kNotFound;
}

bool NeedsDevices(const WireManifest& manifest) { return manifest.device_count > 0; }

std::vector<WeightsPointer> WeightsFor(const LocalPackage& package, RunMode mode) {
  if (mode == RunMode::kNative && package.native) return {package.native->weights};
  return package.manifest.AllWeights();
}

std::string ImageReference(const WireManifest& manifest, const std::optional<IndexEntry>& entry) {
  if (!manifest.container) return {};
  const WireImage& image = manifest.container->image;
  if (image.IsHubHosted()) return image.tag;
  // The recorded one may be another name of the same image: the registry had no manifest of the recorded digest.
  const std::string listed = image.PullReference().value_or(image.tag);
  const bool same = entry && entry->image_digest == image.digest && !entry->image.empty();
  return same ? entry->image : listed;
}

IndexEntry EntryFor(const LocalPackage& package) {
  IndexEntry entry;
  entry.id = package.id;
  entry.container = package.manifest.container.has_value();
  entry.manifest = package.manifest_file;
  entry.arch = package.manifest.arch;
  if (!package.manifest.container) return entry;
  const WireContainer& container = *package.manifest.container;
  entry.image = ImageReference(package.manifest, {});
  entry.image_digest = container.image.digest;
  entry.profile = container.DefaultProfileName().value_or(std::string());
  entry.profiles = container.ProfileNames();
  return entry;
}

HubPatterns PatternsOf(const WeightsPointer& pointer) {
  return {pointer.allow_patterns.value_or(std::vector<std::string>()),
          pointer.ignore_patterns.value_or(std::vector<std::string>())};
}

std::string RevisionOf(const WeightsPointer& pointer) { return pointer.revision.value_or("main"); }

StoreError PackageError(const HubError& error, const std::string& id) {
  if (error.fault != HubFault::kNoEntry) return error;
  return StoreError(Code::kNotFound, {"not a tt-model bundle",
                                      fmt::format("{} has no {}: it holds weights or something else, and no package",
                                                  id, kWireManifestName),
                                      error.evidence,
                                      {}});
}

}  // namespace sightline
