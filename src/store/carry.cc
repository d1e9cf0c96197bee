#include <fmt/format.h>

#include <system_error>

#include "store/documents.h"
#include "store/reporting.h"
#include "store/scratch_folder.h"
#include "store/snapshot_files.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr char kKind[] = "sightline-package";

// What a file for another machine holds: package/ is a snapshot of the package's repository, with the registry's
// manifest where it is of one, and weights/N one of each of its weights.
class Packing {
 public:
  Packing(StoreState& state, const LocalPackage& package, const fs::path& folder)
      : state_(state), package_(package), folder_(folder) {}
  StoreStatus AddPackage();
  StoreStatus AddWeights();

 private:
  StoreState& state_;
  const LocalPackage& package_;
  fs::path folder_;
};

StoreStatus Packing::AddPackage() {
  RepositoryFiles files;
  if (!package_.image_layout.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const RepositoryFiles image, RepositoryFilesBelow(package_.image_layout));
    for (const auto& [path, file] : image) files["image/" + path] = file;
  }
  for (const char* name : {kWireManifestName, kNativeManifestName}) {
    const fs::path file = package_.manifest_file.parent_path() / name;
    std::error_code error;
    if (fs::exists(file, error)) files[name] = file;
  }
  SIGHTLINE_RETURN_IF_ERROR(WriteSnapshotList(files, folder_ / "package"));
  const auto registry = RegistryFolderOf(state_.settings.folders, package_.id, package_.entry->revision);
  if (!registry) return {};
  const auto manifest = ReadTextFile(*registry / kRegistryManifestName);
  if (!manifest) {
    return tl::make_unexpected(StoreError(
        Error{Code::kNotFound,
              fmt::format("which files the registry has of {} is not recorded; pull it again first", package_.id),
              {}}));
  }
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder_ / "package" / kRegistryManifestName, *manifest));
  return {};
}

StoreStatus Packing::AddWeights() {
  int number = 0;
  for (const WeightsPointer& pointer : WeightsFor(package_, package_.entry->mode)) {
    const auto snapshot = state_.weights.cache().FindComplete(pointer.repo, RevisionOf(pointer), PatternsOf(pointer));
    if (!snapshot) return tl::make_unexpected(StoreError(snapshot.error()));
    const fs::path target = folder_ / "weights" / std::to_string(number++);
    SIGHTLINE_ASSIGN_OR_RETURN(const RepositoryFiles files, RepositoryFilesBelow(snapshot->folder));
    SIGHTLINE_RETURN_IF_ERROR(WriteSnapshotList(files, target));
    Value about{Value::Map{}};
    about.Set("repo", TextValue(std::string_view(pointer.repo)));
    about.Set("commit", TextValue(std::string_view(snapshot->commit)));
    SIGHTLINE_RETURN_IF_ERROR(WriteMapFile(target / "about.json", about));
  }
  return {};
}

// Its image files come here where they are not, or it is said that the file goes without them.
StoreStatus BringImageFiles(StoreState& state, LocalPackage& package, Reporter& reporter, std::stop_token stop) {
  if (!package.manifest.container || !package.entry->container || !package.image_layout.empty()) return {};
  const WireImage& image = package.manifest.container->image;
  if (image.tag.empty()) return {};
  if (package.entry->mode == RunMode::kNative) {
    reporter.OnNote(fmt::format("{} runs natively here: its image is not in the file", package.id));
    return {};
  }
  if (!image.IsHubHosted()) {
    reporter.OnWarning(fmt::format("the image {} is of a registry and not in the file: the other machine pulls it",
                                   ImageReference(package.manifest, package.entry)));
    return {};
  }
  StoreResult<fs::path> fetched = FetchImageFiles(state, package, reporter, std::move(stop));
  if (fetched) {
    package.image_layout = std::move(*fetched);
    return {};
  }
  if (fetched.error().code == Code::kCancelled) return tl::make_unexpected(fetched.error());
  reporter.OnWarning(fmt::format("the image of {} is not in the file: {}", package.id, fetched.error().message));
  return {};
}

// What import asks of it.
Status CheckRevision(const Target& target, const std::string& revision) {
  const bool known = target.kind == TargetKind::kShortName ||
                     (target.kind == TargetKind::kRegistry ? IsDigest(revision) : IsCommit(revision));
  if (known) return {};
  return Fail(Code::kNotFound,
              fmt::format("which revision of {} is here is not recorded; pull it again first", target.id));
}

StoreStatus UnpackWeights(StoreState& state, const fs::path& folder) {
  std::error_code error;
  for (int number = 0;; ++number) {
    const fs::path source = folder / "weights" / std::to_string(number);
    if (!fs::exists(source, error)) return {};
    SIGHTLINE_ASSIGN_OR_RETURN(const Value about, ReadMapFile(source / "about.json"));
    const std::string repo = TextMember(about, "repo"), commit = TextMember(about, "commit");
    SIGHTLINE_RETURN_IF_ERROR(PlaceSnapshot(source, state.weights.cache().root(), repo, commit));
    if (const auto named = state.weights.cache().EnsureMainRef(repo, commit); !named) {
      return tl::make_unexpected(StoreError(named.error()));
    }
  }
}

// Nothing in the folder is believed but that it is the package of this digest.
StoreStatus PlaceRegistryFiles(const fs::path& folder, const fs::path& home, const std::string& digest,
                               std::stop_token stop) {
  const auto manifest = ReadTextFile(folder / kRegistryManifestName);
  if (!manifest) {
    return tl::make_unexpected(
        StoreError(Error{Code::kInvalidRequest,
                         "the file does not say which files the registry has of the package; export it again",
                         {}}));
  }
  SIGHTLINE_RETURN_IF_ERROR(VerifyPulledFolder(folder / "files", *manifest, digest, {{}, std::move(stop)}));
  SIGHTLINE_RETURN_IF_ERROR(PlaceFolder(folder / "files", home));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(home / kRegistryManifestName, *manifest));
  return {};
}

StoreResult<LocalPackage> UnpackPackage(Store& store, StoreState& state, const fs::path& folder,
                                        const std::map<std::string, std::string>& notes, std::stop_token stop) {
  const auto note = [&](const char* key) {
    const auto found = notes.find(key);
    return found == notes.end() ? std::string() : found->second;
  };
  SIGHTLINE_ASSIGN_OR_RETURN(Target target, ParseTarget(note("id")));
  const std::string revision = note("revision");
  if (target.kind == TargetKind::kShortName) return store.FetchManifest(target);
  fs::path home;
  if (const auto place = RegistryFolderOf(state.settings.folders, target.id, revision)) {
    home = *place;
    SIGHTLINE_RETURN_IF_ERROR(PlaceRegistryFiles(folder / "package", home, revision, std::move(stop)));
  } else if (target.kind == TargetKind::kHub && IsCommit(revision)) {
    SIGHTLINE_RETURN_IF_ERROR(PlaceSnapshot(folder / "package", state.packages.cache().root(), target.id, revision));
    home = state.packages.cache().root() / CacheFolderName(target.id) / "snapshots" / revision;
  } else {
    return tl::make_unexpected(
        StoreError(Error{Code::kInvalidRequest, "the file names no package that could be imported", {}}));
  }
  target.kind = TargetKind::kFile;
  const std::string id = target.id;
  target.manifest_file = home / kWireManifestName;
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, store.FindLocal(target));
  package.id = id;
  package.entry = EntryFor(package);
  package.entry->revision = revision;
  package.entry->pinned = true;  // nobody here can ask for a newer one
  return package;
}

}  // namespace

StoreStatus Store::Export(const std::string& id, const fs::path& file, bool with_weights, Reporter* reporter,
                          std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  SIGHTLINE_ASSIGN_OR_RETURN(const Target target, ParseTarget(id));
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, FindLocal(target));
  if (!package.entry) {
    return tl::make_unexpected(StoreError(
        Error{Code::kUsage, fmt::format("{} is a file, expected a package that was pulled", target.id), {}}));
  }
  const std::string revision = package.entry->revision.value_or("");
  SIGHTLINE_RETURN_IF_ERROR(CheckRevision(target, revision));
  const std::optional<FileLock> lock = state_->LockForAdding();
  SIGHTLINE_RETURN_IF_ERROR(BringImageFiles(*state_, package, told, stop));
  Step step(told, "export", "writing " + file.string());
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Make());
  Packing packing(*state_, package, scratch.path());
  SIGHTLINE_RETURN_IF_ERROR(packing.AddPackage());
  if (with_weights) SIGHTLINE_RETURN_IF_ERROR(packing.AddWeights());
  const std::map<std::string, std::string> notes{{"kind", kKind}, {"id", package.id}, {"revision", revision}};
  SIGHTLINE_RETURN_IF_ERROR(ExportFolder(scratch.path(), file, notes, TransferFor(told, "export", std::move(stop))));
  step.Done();
  return {};
}

StoreResult<PullReport> Store::Import(const fs::path& file, const PullOptions& options, Reporter* reporter,
                                      std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  const std::optional<FileLock> lock = state_->LockForAdding();
  Step step(told, "import", "reading " + file.string());
  SIGHTLINE_ASSIGN_OR_RETURN(const auto first_notes, ReadExportNotes(file));
  if (const auto kind = first_notes.find("kind"); kind == first_notes.end() || kind->second != kKind) {
    return tl::make_unexpected(
        StoreError(Error{Code::kInvalidRequest, fmt::format("{} holds no exported package", file.string()), {}}));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::MakeIn(state_->settings.folders.images));
  const fs::path folder = scratch.path() / "content";
  SIGHTLINE_ASSIGN_OR_RETURN(const auto notes, ImportFolder(file, folder, TransferFor(told, "import", stop)));
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, UnpackPackage(*this, *state_, folder, notes, stop));
  SIGHTLINE_RETURN_IF_ERROR(UnpackWeights(*state_, folder));
  step.Done(package.id);
  PullOptions local = options;
  local.with_weights = false;
  return FinishPull(*this, *state_, std::move(package), local, told, std::move(stop));
}

}  // namespace sightline
