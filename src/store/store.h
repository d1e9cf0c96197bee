// store: packages on this machine. Pulls them from a hub or a registry, with image and weights, says which are here and
// ready, checks, repairs and removes them, carries them to other machines, and builds and publishes new ones.
//
// What is here is on the disk alone: any number of processes may work on one store at a time and any of them may be
// killed at any moment. A name appears when what it stands for is whole and right. Everything may be called from any
// thread unless a comment says otherwise.
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
#include "containers/containers.h"
#include "hub/hub.h"
#include "oci/oci.h"
#include "package/package.h"

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// What long work says while it runs. Each kind is one event of tt's progress contract: step, progress, container,
// error.

enum class StepState { kStart, kDone, kFail };
struct StepReport {
  std::string key;  // "host", "weights", "image", "container" have a meaning to tt; others are ours
  StepState state = StepState::kStart;
  std::string label;     // "downloading weights"
  std::string detail{};  // "1.2 GB"
};
enum class ProgressUnit { kBytes, kCount };
struct ProgressReport {
  std::string key;  // of the step it belongs to
  uint64_t done = 0;
  uint64_t total = 0;  // 0: unknown
  ProgressUnit unit = ProgressUnit::kBytes;
  uint64_t moved = 0;  // of `done`, by this run: what a rate is made of
};
// A failure as people are shown it.
struct FailureCard {
  std::string cause;                   // a few words: "you do not have access"
  std::string detail{};                // a sentence
  std::string evidence{};              // a line of a log or of a server's answer
  std::vector<std::string> actions{};  // what to do, commands among them
};

// Called from several threads, one at a time. Must not block. Does nothing by itself.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void OnStep(const StepReport& /*step*/) {}
  virtual void OnProgress(const ProgressReport& /*progress*/) {}
  virtual void OnNote(std::string_view /*line*/) {}
  virtual void OnWarning(std::string_view /*line*/) {}
  virtual void OnContainer(const std::string& /*id*/, const std::string& /*endpoint, may be empty*/) {}
  virtual void OnError(const FailureCard& /*card*/) {}
};

// `reporter`, or one that says nothing.
Reporter& OrSilent(Reporter* reporter);

// A step of work for a Reporter, which has failed unless it is said to be done: its end is always reported.
class Step {
 public:
  Step(Reporter& reporter, std::string key, std::string label)
      : reporter_(reporter), key_(std::move(key)), label_(std::move(label)) {
    reporter_.OnStep({key_, StepState::kStart, label_});
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() {
    if (!ended_) reporter_.OnStep({key_, StepState::kFail, label_});
  }
  void Done(std::string detail = {}) { DoneAs(label_, std::move(detail)); }
  // Under another label than it began with.
  void DoneAs(std::string label, std::string detail = {}) {
    ended_ = true;
    reporter_.OnStep({key_, StepState::kDone, std::move(label), std::move(detail)});
  }

 private:
  Reporter& reporter_;
  std::string key_, label_;
  bool ended_ = false;
};

// An Error whose message is one whole sentence. Whoever shows it may show `card` in its place; this module hands no
// error to Reporter::OnError, so that each is shown once.
struct StoreError : Error {
  StoreError() = default;
  StoreError(Error error) : Error(std::move(error)) { card.cause = message; }  // NOLINT: implicit on purpose
  StoreError(HubError error);                                                  // NOLINT: implicit on purpose
  StoreError(Code which, FailureCard failure);  // the sentence is made of cause, detail and actions

  FailureCard card;
};
template <typename T>
using StoreResult = tl::expected<T, StoreError>;
using StoreStatus = StoreResult<void>;

// ---------------------------------------------------------------------------------------------------------------------
// Where things are

// tt-model's folders: ${XDG_CACHE_HOME:-~/.cache}/tt-model, or tt-kernel where only that exists. With XDG_CACHE_HOME
// set, what an older program left in ~/.cache is still read.
struct StoreFolders {
  std::filesystem::path root;
  std::filesystem::path index;     // root/installed.json
  std::filesystem::path pulled;    // root/pulled/ORG__NAME/tt_kernel_manifest.json
  std::filesystem::path licenses;  // root/licenses.json: which were accepted here
  std::filesystem::path older;     // ~/.cache/tt-model where that is another folder; may be empty
  std::filesystem::path images;    // ours: what was fetched of packages, in the layout of the hub's cache

  // Of the package `name` (a slug): holds cache, weights and tensors, which a container gets.
  std::filesystem::path PackageCache(const std::string& name) const;
  std::filesystem::path BuildLog(const std::string& name) const;
  // Where the manifest of `id` lies or will lie: pulled/ORG__NAME.
  std::filesystem::path PulledFolder(const std::string& id) const;
};
Result<StoreFolders> StoreFoldersFromEnvironment();

struct StoreSettings {
  StoreFolders folders;
  HubSettings hub;
  EngineOptions engine;
  std::filesystem::path host_root = "/";  // stands for / of the host, for what is looked up of devices
  std::string program = "sightline";      // in advice: or tt-model
};
Result<StoreSettings> StoreSettingsFromEnvironment();

// ---------------------------------------------------------------------------------------------------------------------
// What users name

enum class TargetKind { kFile, kHub, kShortName, kRegistry };
struct Target {
  TargetKind kind = TargetKind::kHub;
  std::string id;                         // "org/name", "gaze-lle", "oci://host/repo:tag"; of kFile the path
  std::optional<std::string> revision{};  // behind @, of kHub
  std::filesystem::path manifest_file{};  // of kFile: a wire manifest
};
// A path of a wire manifest or of a folder that holds one (anything that exists as such a file, and anything that
// begins with ".", "/" or ends in .json, .yaml, .yml), oci://..., a short name of a package of ours, or ORG/NAME[@REV].
// kUsage for what is none of these.
Result<Target> ParseTarget(const std::string& text);

// ---------------------------------------------------------------------------------------------------------------------
// The index, installed.json: one object, a key a package. tt and tt-model read it too.

enum class RunMode { kContainer, kNative };

struct IndexEntry {
  std::string id;                      // its key: repo id, short name or oci:// reference
  bool container = true;               // a container package; false for short names, and for packages of schema 5 and 6
  RunMode mode = RunMode::kContainer;  // what it was pulled for ("native": true)
  std::string image{};                 // reference; empty: none
  std::optional<std::string> revision{};
  std::filesystem::path manifest{};
  std::string arch{};
  std::optional<std::string> image_digest{}, image_loaded_id{};
  std::string profile{};  // the default
  std::vector<std::string> profiles{};
  bool pinned = false;        // a revision was asked for: not refreshed
  Value other{Value::Map{}};  // keys of others, kept as they are
};

class PackageIndex {
 public:
  explicit PackageIndex(std::filesystem::path file) : file_(std::move(file)) {}

  // In the file's order. An absent file is empty. Entries that are no objects are left out; a file that is no JSON
  // object is kCorruptWeights from ReadStrictly, and empty here.
  std::vector<IndexEntry> Read() const;
  Result<std::vector<IndexEntry>> ReadStrictly() const;
  // Without regard to case, as the hub has it.
  std::optional<IndexEntry> Find(std::string_view id) const;
  // Under a lock, and atomically. A damaged file is kept beside as installed.json.damaged.
  Status Put(const IndexEntry& entry) const;
  // False when it was not there.
  Result<bool> Remove(const std::string& id) const;

 private:
  std::filesystem::path file_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Packages

// A package whose manifest is on this machine.
struct LocalPackage {
  std::string id;  // what the index calls it; of kFile the path
  std::filesystem::path manifest_file;
  WireManifest manifest;
  std::optional<IndexEntry> entry{};      // none of kFile
  std::optional<NativePackage> native{};  // how this program runs it on the CPU; none: it cannot
  std::string native_problem{};           // what is wrong with its sightline.yaml; empty: nothing, or it has none
  std::filesystem::path image_layout{};   // image/ with an oci-layout, where all of it is here; may be empty
};

// What this machine has to run packages on.
struct HostFacts {
  bool engine = false;         // docker or podman answers
  std::string engine_problem;  // why not
  std::vector<int> chips;      // Tenstorrent devices
  std::string arch;            // "blackhole", "wormhole_b0", "grayskull", of the PCI ids; empty: unknown or none
};

// Whether the image opens Tenstorrent devices: device_count is 0 for a server on the CPU.
bool NeedsDevices(const WireManifest& manifest);
// The one reference that runs its image; `entry` is what the index has of it. Empty where the manifest has none.
std::string ImageReference(const WireManifest& manifest, const std::optional<IndexEntry>& entry);
// What must be here to run it so: all of the manifest's for a container, the model's own natively.
std::vector<WeightsPointer> WeightsFor(const LocalPackage& package, RunMode mode);

struct RunChoice {
  RunMode mode = RunMode::kContainer;
  std::string reason{};  // a sentence worth saying; empty where it is what everybody expects
};
// `asked` is heeded where it is possible. Else a container, unless the package can run natively and an engine or its
// devices are missing here. kUnsupported when native is asked for and this program does not know the model.
StoreResult<RunChoice> ChooseRun(const LocalPackage& package, const HostFacts& host, std::optional<RunMode> asked);
// How a package of anybody runs natively: by its sightline.yaml beside the manifest, else by the model its weights
// pointer shows. The manifest's own pin of the weights wins. An error is one of the sightline.yaml, which is not
// guessed at.
Result<std::optional<NativePackage>> NativeForm(const WireManifest& manifest,
                                                const std::filesystem::path& manifest_file);

struct LicenseNotice {
  std::string repo;  // whose weights
  CardLicense license;
  std::string sentence;  // "the weights org/w come under mit"
};
// Asked before the first weights of a repository come here: whether the user agrees, or why that is not known
// (kCancelled when `stop` asked).
using LicenseQuestion = std::function<Result<bool>(const LicenseNotice& notice, std::stop_token stop)>;

enum class WeightsAccess {
  kFetch,      // whatever is missing
  kLocalOnly,  // --no-weights, --local-only: no request; what is missing is a note
};
struct WeightsRequest {
  std::vector<WeightsPointer> weights;  // primary first
  WeightsAccess access = WeightsAccess::kFetch;
  EnvironmentList environment{};  // of the profile: a path into the cache there makes incomplete weights an error
  bool required = false;          // incomplete weights are an error in any case: a native run
  LicenseQuestion license{};      // not set: shown as a note and taken as agreed
};
struct WeightsState {
  std::string repo;
  std::string commit;            // empty: not here
  std::filesystem::path folder;  // of the snapshot
  bool complete = false;
  uint64_t bytes = 0;
};

struct PullOptions {
  bool with_weights = false;
  bool force = false;  // load the image though it is current
  std::optional<RunMode> mode{};
  LicenseQuestion license{};
};
struct PullReport {
  LocalPackage package;
  RunChoice run;
  bool changed = true;        // another revision than before
  bool image_loaded = false;  // into the engine, by this call
  std::vector<WeightsState> weights{};
};

struct ListedPackage {
  IndexEntry entry;
  std::string kind;  // "container", "native", "bundle", "thin"
  bool ready = false;
  std::string problem{};  // why not
  uint64_t image_bytes = 0;
  std::vector<WeightsState> weights{};
};

struct VerdictRow {
  bool fatal = false;
  std::string field, package, local;
};

struct StoreProblem {
  std::string package;  // whose; may be empty
  std::filesystem::path path;
  std::string sentence;
  bool repaired = false;
};
struct VerifyReport {
  std::vector<StoreProblem> problems;
  int packages = 0;
  int files = 0;  // read and compared
  uint64_t bytes = 0;
  uint64_t unfinished_bytes = 0;  // downloads that can be resumed
};
struct RemoveOptions {
  bool keep_cache = false;
  bool include_weights = false;
};
struct RemoveReport {
  std::vector<std::string> removed;  // sentences: "container tt-model-x-default", "image tt-model/x:..."
  std::vector<std::string> kept;     // with the reason
};
struct GarbageReport {
  uint64_t bytes = 0;
  std::vector<std::string> removed;
};

struct PushOptions {
  std::filesystem::path folder;
  std::string target{};  // "org/name" or oci://...; empty: built.repo of the manifest
  std::optional<HubVisibility> visibility{};
  bool publish = false;
};
struct PushReport {
  std::string target;
  std::string revision;  // commit of the hub, or digest of the registry
  bool created = false;
  bool listed = false;
  int files_sent = 0, files_there = 0, deleted = 0;
  uint64_t bytes_sent = 0;
};

// One store. Methods report steps to a Reporter that must outlive the call; nullptr is silence.
class Store {
 public:
  explicit Store(StoreSettings settings);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const StoreSettings& settings() const;
  const PackageIndex& index() const;
  Hub& hub();  // with the user's cache: weights
  // Looked up anew at each call. kNotFound when there is none.
  Result<ContainerEngine> Engine() const;
  HostFacts Host() const;

  // kNotFound when it is not here. Asks no network.
  StoreResult<LocalPackage> FindLocal(const Target& target) const;
  // The manifest alone, from the hub or registry (kFile and short names: from here); nothing is installed.
  StoreResult<LocalPackage> FetchManifest(const Target& asked, Reporter* reporter = nullptr, std::stop_token stop = {});
  // The commit that the branch of an installed package points at now, asked with `bound` as the time limit.
  StoreResult<std::string> TipRevision(const IndexEntry& entry, std::chrono::milliseconds bound);

  // Manifest, then what ChooseRun says: the image, or nothing; then weights when asked for; recorded at the end.
  StoreResult<PullReport> Pull(const Target& target, const PullOptions& options, Reporter* reporter,
                               std::stop_token stop = {});
  // Makes the engine have the image: it is current, or is loaded from `image_layout`, or is fetched again (unless
  // `local_only`). Returns the reference to run. A package that is recorded is recorded with what the engine has now.
  StoreResult<std::string> EnsureImage(LocalPackage& package, bool local_only, bool force, Reporter* reporter,
                                       std::stop_token stop = {});
  // One row a pointer. Writes refs/main where it is missing.
  StoreResult<std::vector<WeightsState>> EnsureWeights(const WeightsRequest& request, Reporter* reporter,
                                                       std::stop_token stop = {});

  std::vector<ListedPackage> List();
  // What keeps the package from running here; none: compatible. `arch` stands for the host's.
  std::vector<VerdictRow> Verdict(const WireManifest& manifest, const std::optional<std::string>& arch = {}) const;
  StoreResult<std::vector<HubRepo>> Search(const std::string& text, bool catalog, const std::string& arch, int limit,
                                           std::stop_token stop = {});

  StoreResult<RemoveReport> Remove(const std::string& id, const RemoveOptions& options, Reporter* reporter);
  // Every file of the packages and their weights, or of one package. With `repair`, what is wrong is removed and
  // fetched again where the hub answers.
  StoreResult<VerifyReport> Verify(const std::optional<std::string>& id, bool repair, Reporter* reporter,
                                   std::stop_token stop = {});
  // What no package refers to. `images`: also image files whose image the engine has.
  StoreResult<GarbageReport> CollectGarbage(bool images, Reporter* reporter);

  // One file with manifest, image and, if asked for, weights, for a machine without a network; and back.
  StoreStatus Export(const std::string& id, const std::filesystem::path& file, bool with_weights, Reporter* reporter,
                     std::stop_token stop = {});
  StoreResult<PullReport> Import(const std::filesystem::path& file, const PullOptions& options, Reporter* reporter,
                                 std::stop_token stop = {});

  StoreResult<PushReport> Push(const PushOptions& options, Reporter* reporter, std::stop_token stop = {});
  // In the catalog (listed) or not; publishing makes the repository public.
  StoreStatus Publish(const std::string& repo, Reporter* reporter, std::stop_token stop = {});
  StoreStatus Unpublish(const std::string& repo, Reporter* reporter, std::stop_token stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Building packages

struct BuildOptions {
  std::filesystem::path manifest;  // tt-model.yaml
  std::filesystem::path out;       // the result is out/NAME
  bool build = true;               // false: stop after staging
  bool verbose = false;            // the build's output as notes
};
struct BuildReport {
  std::filesystem::path folder;  // out/NAME
  bool built = false;            // false: staged only, with a manifest without digest
  std::string image{};           // reference
  std::string image_digest{};
  std::string code_digest{};
  std::vector<std::string> dropped{};  // files left out of the code
};
// Resolves sources, stages, builds the image and exports it. What was in out/NAME stays until the new result is whole.
// When no engine or base image is here the staged result stays in out/NAME.staged, which the error names.
StoreResult<BuildReport> BuildPackage(const StoreSettings& settings, const BuildOptions& options, Reporter* reporter,
                                      std::stop_token stop = {});

struct ProgramImageOptions {
  std::string package;            // short name: "gaze-lle"
  std::filesystem::path program;  // this program, or another build of it
  std::filesystem::path out;      // the result is out/NAME
  std::string repo{};             // where it will be pushed to; may be empty
};
// A package whose image is this program and the shared libraries it needs, on nothing: serves on the CPU. The same
// program and libraries give the same image; the manifest says SOURCE_DATE_EPOCH as its time, or now.
StoreResult<BuildReport> BuildProgramPackage(const ProgramImageOptions& options, Reporter* reporter,
                                             std::stop_token stop = {});

}  // namespace sightline
