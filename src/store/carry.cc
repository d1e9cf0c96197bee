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

// What a file for another machine holds: package/ is a snapshot of the package's repository, weights/N one of each of
// its weights.
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

StoreStatus Link(const fs::path& file, const fs::path& name) {
  std::error_code error;
  fs::create_directories(name.parent_path(), error);
  fs::create_symlink(fs::absolute(file), name, error);
  if (error) return tl::make_unexpected(StoreError(ErrnoError("write", name, error.value())));
  return {};
}

StoreStatus LinkTree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory(error)) continue;
    SIGHTLINE_RETURN_IF_ERROR(Link(fs::canonical(at->path(), error), to / fs::relative(at->path(), from)));
  }
  if (error) return tl::make_unexpected(StoreError(ErrnoError("read", from, error.value())));
  return {};
}

StoreStatus Packing::AddPackage() {
  const fs::path target = folder_ / "package";
  const auto snapshot = package_.entry->revision && package_.entry->container
                            ? state_.packages.cache().Find(package_.id, *package_.entry->revision)
                            : HubResult<CachedSnapshot>(tl::make_unexpected(HubError()));
  if (snapshot) {
    SIGHTLINE_RETURN_IF_ERROR(WriteSnapshotList(snapshot->folder, target));
    return {};
  }
  for (const char* name : {kWireManifestName, kNativeManifestName}) {
    const fs::path file = package_.manifest_file.parent_path() / name;
    std::error_code error;
    if (fs::exists(file, error)) SIGHTLINE_RETURN_IF_ERROR(Link(file, target / "files" / name));
  }
  if (package_.image_layout.empty()) return {};
  return LinkTree(package_.image_layout, target / "files" / "image");
}

StoreStatus Packing::AddWeights() {
  int number = 0;
  for (const WeightsPointer& pointer : WeightsFor(package_, package_.entry->mode)) {
    const HubPatterns patterns{pointer.allow_patterns.value_or(std::vector<std::string>()),
                               pointer.ignore_patterns.value_or(std::vector<std::string>())};
    const auto snapshot =
        state_.weights.cache().FindComplete(pointer.repo, pointer.revision.value_or("main"), patterns);
    if (!snapshot) return tl::make_unexpected(StoreError(snapshot.error()));
    const fs::path target = folder_ / "weights" / std::to_string(number++);
    SIGHTLINE_RETURN_IF_ERROR(WriteSnapshotList(snapshot->folder, target));
    Value about{Value::Map{}};
    about.Set("repo", TextValue(std::string_view(pointer.repo)));
    about.Set("commit", TextValue(std::string_view(snapshot->commit)));
    SIGHTLINE_RETURN_IF_ERROR(WriteMapFile(target / "about.json", about));
  }
  return {};
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

StoreResult<LocalPackage> UnpackPackage(Store& store, StoreState& state, const fs::path& folder,
                                        const std::map<std::string, std::string>& notes) {
  const auto note = [&](const char* key) {
    const auto found = notes.find(key);
    return found == notes.end() ? std::string() : found->second;
  };
  SIGHTLINE_ASSIGN_OR_RETURN(Target target, ParseTarget(note("id")));
  const std::string revision = note("revision");
  if (target.kind == TargetKind::kShortName) return store.FetchManifest(target);
  fs::path home;
  if (target.kind == TargetKind::kRegistry && IsDigest(revision)) {
    SIGHTLINE_ASSIGN_OR_RETURN(const OciReference reference, ParseOciReference(target.id));
    home = RegistryFolder(state.settings.folders, reference, revision);
    SIGHTLINE_RETURN_IF_ERROR(PlaceFolder(folder / "package" / "files", home));
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
  SIGHTLINE_ASSIGN_OR_RETURN(const LocalPackage package, FindLocal(target));
  if (!package.entry) {
    return tl::make_unexpected(StoreError(
        Error{Code::kUsage, fmt::format("{} is a file, expected a package that was pulled", target.id), {}}));
  }
  Step step(told, "export", "writing " + file.string());
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Make());
  Packing packing(*state_, package, scratch.path());
  SIGHTLINE_RETURN_IF_ERROR(packing.AddPackage());
  if (with_weights) SIGHTLINE_RETURN_IF_ERROR(packing.AddWeights());
  const std::map<std::string, std::string> notes{
      {"kind", kKind}, {"id", package.id}, {"revision", package.entry->revision.value_or("")}};
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
  SIGHTLINE_ASSIGN_OR_RETURN(LocalPackage package, UnpackPackage(*this, *state_, folder, notes));
  SIGHTLINE_RETURN_IF_ERROR(UnpackWeights(*state_, folder));
  step.Done(package.id);
  PullOptions local = options;
  local.with_weights = false;
  return FinishPull(*this, *state_, std::move(package), local, told, std::move(stop));
}

}  // namespace sightline
