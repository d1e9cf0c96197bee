#include <fmt/format.h>

#include <system_error>

#include "store/documents.h"
#include "store/reporting.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

struct ImageTask {
  const ContainerEngine& engine;
  Reporter& reporter;
  std::stop_token stop;
};

// Into the engine, under `reference`; returns the id it has there.
StoreResult<std::string> LoadLayout(const ImageTask& task, const fs::path& folder, const std::string& reference) {
  Step step(task.reporter, "image", "loading the image");
  SIGHTLINE_ASSIGN_OR_RETURN(const OciLayout layout, OpenOciLayout(folder));
  SIGHTLINE_RETURN_IF_ERROR(VerifyOciLayout(layout, TransferFor(task.reporter, "image", task.stop)));
  ProcessLimits limits;
  limits.stop = task.stop;
  const auto write = [&](ByteSink sink) { return WriteDockerArchive(folder, reference, sink); };
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::string> loaded, task.engine.Load(write, limits));
  SIGHTLINE_ASSIGN_OR_RETURN(std::optional<std::string> id, task.engine.ImageId(reference));
  if (!id && !loaded.empty()) {
    SIGHTLINE_RETURN_IF_ERROR(task.engine.Tag(loaded.front(), reference));
    SIGHTLINE_ASSIGN_OR_RETURN(id, task.engine.ImageId(reference));
  }
  if (!id) {
    return tl::make_unexpected(StoreError(
        Code::kInternal,
        {"the image was not loaded",
         fmt::format("{} loaded {} and has no image {} afterwards", task.engine.program(), folder.string(), reference),
         {},
         {}}));
  }
  step.Done(reference);
  return *id;
}

struct PulledImage {
  std::string reference, id;
};

StoreResult<PulledImage> PullByTag(const ImageTask& task, const WireImage& image, const ProcessLimits& limits,
                                   const Error& refused) {
  WireImage tagged = image;
  tagged.digest.reset();
  const std::string reference = tagged.PullReference().value_or(image.tag);
  if (const Status pulled = task.engine.Pull(reference, {}, limits); !pulled) {
    return tl::make_unexpected(StoreError(refused));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<std::string> id, task.engine.ImageId(reference));
  if (id == image.digest) return PulledImage{reference, *id};
  return tl::make_unexpected(StoreError(
      Code::kCorruptWeights,
      {"another image than the package names",
       fmt::format("{} is {}, expected {}", reference, id.value_or("absent after it was pulled"), *image.digest),
       {},
       {}}));
}

// Of a registry. The digest that packages record is often the image's id and not what the registry calls it; then the
// tag is taken, and the id compared.
StoreResult<PulledImage> PullImage(const ImageTask& task, const WireImage& image) {
  const std::string reference = image.PullReference().value_or(image.tag);
  Step step(task.reporter, "image", "pulling the image");
  ProcessLimits limits;
  limits.stop = task.stop;
  const Status pulled = task.engine.Pull(reference, {}, limits);
  if (!pulled && (!image.digest || pulled.error().code == Code::kCancelled)) {
    return tl::make_unexpected(StoreError(pulled.error()));
  }
  if (!pulled) {
    SIGHTLINE_ASSIGN_OR_RETURN(PulledImage by_tag, PullByTag(task, image, limits, pulled.error()));
    step.Done(by_tag.reference);
    return by_tag;
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<std::string> id, task.engine.ImageId(reference));
  step.Done(reference);
  return PulledImage{reference, id.value_or(std::string())};
}

// What remains of a pull: an entry that says what the engine has.
void SetLoaded(LocalPackage& package, const std::string& reference, const std::string& id) {
  if (!package.entry) return;
  package.entry->image = reference;
  package.entry->image_digest = package.manifest.container->image.digest;
  package.entry->image_loaded_id = id;
}

}  // namespace

Result<ImageIdentity> IdentityOf(const ContainerEngine& engine, const std::string& reference,
                                 const WireManifest& manifest, const std::optional<IndexEntry>& recorded) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<std::string> present, engine.ImageId(reference));
  ImageIdentity identity;
  identity.present_id = present.value_or(std::string());
  identity.package_digest = manifest.container->image.digest.value_or(std::string());
  if (recorded) {
    identity.index_digest = recorded->image_digest.value_or(std::string());
    identity.index_loaded_id = recorded->image_loaded_id.value_or(std::string());
  }
  return identity;
}

StoreResult<fs::path> FetchImageFiles(StoreState& state, const LocalPackage& package, Reporter& reporter,
                                      std::stop_token stop) {
  Step step(reporter, "image", "downloading the image");
  const std::string revision = package.entry && package.entry->revision ? *package.entry->revision : "main";
  fs::path folder;
  if (package.id.starts_with("oci://")) {
    SIGHTLINE_ASSIGN_OR_RETURN(OciReference reference, ParseOciReference(package.id));
    const auto place = RegistryFolderOf(state.settings.folders, package.id, revision);
    if (!place) {
      return tl::make_unexpected(StoreError(Error{
          Code::kNotFound, fmt::format("{}: its revision is '{}', expected a digest", package.id, revision), {}}));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const RegistryOptions options,
                               RegistryOptionsFor(reference, TransferFor(reporter, "image", stop)));
    reference.digest = revision;
    folder = *place;
    const auto wanted = [](std::string_view name) { return name.starts_with("image/"); };
    SIGHTLINE_RETURN_IF_ERROR(PullFolder(reference, folder, wanted, options));
  } else {
    HubReporter sink(reporter, "image");
    HubDownload download{package.id, revision, {{"image/**"}, {}}, false};
    HubResult<CachedSnapshot> snapshot = state.packages.Download(download, &sink, stop);
    if (!snapshot) return tl::make_unexpected(PackageError(snapshot.error(), package.id));
    folder = snapshot->folder;
  }
  if (!HasLayout(folder / "image")) {
    return tl::make_unexpected(
        StoreError(Code::kInvalidRequest,
                   {"the package holds no image", fmt::format("{} has no image/oci-layout", package.id), {}, {}}));
  }
  step.Done();
  return folder / "image";
}

StoreResult<ImageOutcome> BringImage(StoreState& state, const ContainerEngine& engine, LocalPackage& package,
                                     const ImageWish& wish, Reporter& reporter, std::stop_token stop) {
  SIGHTLINE_ASSIGN_OR_RETURN(const WireContainer* container, package.manifest.RequireContainer());
  const std::optional<IndexEntry> recorded = package.entry ? state.index.Find(package.entry->id) : std::nullopt;
  const std::string reference = ImageReference(package.manifest, recorded);
  SIGHTLINE_ASSIGN_OR_RETURN(const ImageIdentity identity, IdentityOf(engine, reference, package.manifest, recorded));
  if (ImageIsCurrent(identity) && !wish.force) {
    SetLoaded(package, reference, identity.present_id);
    return ImageOutcome{reference, false};
  }
  const ImageTask task{engine, reporter, stop};
  if (!container->image.IsHubHosted() && package.image_layout.empty()) {
    if (wish.local_only) return tl::make_unexpected(ImageMissing(package, reference, state.settings.program));
    SIGHTLINE_ASSIGN_OR_RETURN(const PulledImage pulled, PullImage(task, container->image));
    SetLoaded(package, pulled.reference, pulled.id);
    return ImageOutcome{pulled.reference, true};
  }
  if (package.image_layout.empty()) {
    const bool fetchable = package.entry && package.entry->container;
    if (wish.local_only || !fetchable) {
      return tl::make_unexpected(ImageMissing(package, reference, state.settings.program));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(package.image_layout, FetchImageFiles(state, package, reporter, stop));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string id, LoadLayout(task, package.image_layout, reference));
  SetLoaded(package, reference, id);
  return ImageOutcome{reference, true};
}

StoreError ImageMissing(const LocalPackage& package, const std::string& reference, const std::string& program) {
  return StoreError(Code::kNotFound,
                    {"the image is not here",
                     fmt::format("{}: the image {} is neither in the engine nor in the store", package.id, reference),
                     {},
                     {fmt::format("{} pull {}", program, package.id), "serve without --local-only",
                      "name the manifest in the folder that `package --container` wrote"}});
}

StoreResult<std::string> Store::EnsureImage(LocalPackage& package, bool local_only, bool force, Reporter* reporter,
                                            std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  const std::optional<FileLock> lock = state_->LockForAdding();
  SIGHTLINE_ASSIGN_OR_RETURN(const ContainerEngine engine, Engine());
  SIGHTLINE_ASSIGN_OR_RETURN(const ImageOutcome outcome,
                             BringImage(*state_, engine, package, {local_only, force}, told, stop));
  if (!outcome.loaded || !package.entry) return outcome.reference;
  if (std::optional<IndexEntry> recorded = state_->index.Find(package.entry->id)) {
    recorded->image = package.entry->image;
    recorded->image_digest = package.entry->image_digest;
    recorded->image_loaded_id = package.entry->image_loaded_id;
    SIGHTLINE_RETURN_IF_ERROR(state_->index.Put(*recorded));
  }
  return outcome.reference;
}

}  // namespace sightline
