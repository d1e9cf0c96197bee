// package: what a model package is. `tt-model.yaml` (schema 5.1), which an author writes; `tt_kernel_manifest.json`,
// the wire manifest that is published; the card, the code tree with its digest, the scripts that build its image, and
// the command that starts it. And `sightline.yaml`, ours, which says how a package runs natively on the CPU.
//
// Reads and writes files, and runs `git` where it says so. Knows no network and starts no container: what must be
// known about the machine comes in, commands come out as lists of words. Everything here may be called from any thread.
//
// Errors are one sentence each. Those about a document name file and line ("tt-model.yaml:12: serve.port ...") and
// carry the path of the key in Error::param.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/base.h"

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// Documents

// What a YAML or JSON document holds. Maps keep the order of their keys; keys are text and unique.
struct Value {
  struct Member;
  using List = std::vector<Value>;
  using Map = std::vector<Member>;

  std::variant<std::monostate, bool, int64_t, double, std::string, List, Map> data;
  int line = 0;  // where it begins, from 1; 0: unknown

  bool IsNull() const;
  // What it holds, or nullptr where it holds something else.
  const List* AsList() const;
  const Map* AsMap() const;
  Map* AsMap();
  const std::string* AsText() const;
  // The member of a map, or nullptr.
  const Value* Find(std::string_view key) const;
  // In a map: replaces the member or adds it at the end. On anything else a bug.
  void Set(std::string_view key, Value value);
};
struct Value::Member {
  std::string key;
  Value value;
};
// Members of a map that came from outside. A text that is absent, empty or something else is none; a map of that kind
// is empty; of a list only the texts are given.
std::optional<std::string> TextIn(const Value& map, std::string_view key);
Value MapIn(const Value& map, std::string_view key);
std::vector<std::string> TextsIn(const Value& map, std::string_view key);
// Compares what they hold, not where it stood.
bool operator==(const Value& a, const Value& b);
bool operator==(const Value::Member& a, const Value::Member& b);

// Reads one YAML document as YAML 1.1 with the types that PyYAML gives plain scalars: 010 is eight, 1:30 is ninety,
// `no` is false, 5.1 is a number, "5.1" is text. Refuses, as kInvalidRequest with the line, what cannot be held
// faithfully (integers beyond 64 bits, dates, unknown tags, a key given twice, keys that are no text) and what would
// take too much memory (more than 1 MiB, 100 000 values after aliases are followed, 1000 keys in a map, 64 levels).
// `name` stands in front of errors.
Result<Value> ParseYaml(std::string_view text, const std::string& name);

// Reads one JSON document, with limits that fit the JSON of any YAML document read here (32 MiB). Numbers that are no
// 64-bit integer become doubles.
Result<Value> ParseJson(std::string_view text, const std::string& name);

// With `indent` spaces per level and nothing escaped that need not be; below 0: on one line, as Python's json.dumps
// writes it, with ", " and ": " and everything outside ASCII escaped.
std::string ToJson(const Value& value, int indent);

// Guesses what was meant by a word with a slip in it: the one of `words` that differs by the fewest letters added, left
// out, replaced or swapped with their neighbour; at most two, and fewer than half of them. Empty when there is none.
std::string NearestWord(std::string_view word, const std::vector<std::string>& words);

// A list of words as one line for a POSIX shell. A word of letters, digits and _@%+=:,./- stays bare, any other is
// single-quoted.
std::string ShellQuote(std::string_view word);
std::string ShellJoin(std::span<const std::string> words);

// ---------------------------------------------------------------------------------------------------------------------
// What both manifests hold

inline constexpr int kDefaultPort = 20000;
inline constexpr char kWireManifestName[] = "tt_kernel_manifest.json";
inline constexpr char kAuthoringManifestName[] = "tt-model.yaml";
inline constexpr char kNativeManifestName[] = "sightline.yaml";

// Names and values in the order of the document.
using EnvironmentList = std::vector<std::pair<std::string, std::string>>;

// Weights are only ever pointed at.
struct WeightsPointer {
  std::string repo;                                          // "org/name"
  std::optional<std::string> revision{};                     // none: whatever the default branch points at
  std::optional<std::vector<std::string>> allow_patterns{};  // shell globs over paths; none: everything
  std::optional<std::vector<std::string>> ignore_patterns{};
  std::string repo_type = "model";
};

struct ServeCapabilities {
  std::optional<std::string> tool_parser{}, reasoning_parser{};
};

// How a package is launched.
struct ServeSettings {
  std::optional<std::string> hardware{};     // boards: "p150x4"
  std::optional<std::string> mesh_device{};  // what the server opens: "P150x4", "(1, 4)"
  std::optional<int64_t> port{}, max_model_len{}, max_num_seqs{}, block_size{}, server_timeout{};
  std::optional<ServeCapabilities> capabilities{};
  Value additional_config{Value::Map{}};
  std::vector<Value> args{};  // scalars, and lists of scalars
  EnvironmentList env{};
};
struct ServeProfile : ServeSettings {
  std::string name;
  std::optional<std::string> description{};
};

// `args` as words: lists are spliced, scalars written as Python's str() writes them.
std::vector<std::string> FlatArgs(const ServeSettings& settings);

// `profile` over `serve`: what the profile does not say, or leaves empty, it inherits; maps merge key by key.
ServeProfile MergeProfile(const ServeSettings& serve, const ServeProfile& profile);

struct CardLicense {
  std::string id;  // as the Hub lists them, or "other"
  std::optional<std::string> name{}, link{};
};

// What an author says about a model, as Markdown.
struct Card {
  std::optional<std::string> description{}, quickstart{}, architecture{}, status{}, intended_use{}, out_of_scope_use{},
      usage{}, performance{}, limitations{}, risks{}, licensing{}, related{};
  std::optional<CardLicense> license{};
  std::optional<std::string> pipeline_tag{};
  std::optional<std::vector<std::string>> base_model{};
};

// Chips of a board label: "p150x4" has 4, "p300" has 2. None for anything that is no board label.
std::optional<int64_t> ChipsOfHardware(std::string_view hardware);

struct MeshShape {
  int64_t rows = 1, columns = 1;
};
// "P150x4", "(1, 4)", "[2, 2]".
Result<MeshShape> ParseMeshDevice(std::string_view mesh_device);

// [a-z0-9][a-z0-9._-]*: may become a folder and the name of a container.
bool IsSlug(std::string_view name);
// kInvalidRequest unless IsSlug.
Status CheckSlug(std::string_view name);

// ---------------------------------------------------------------------------------------------------------------------
// The authoring manifest, tt-model.yaml

struct GitSource {
  std::string repo, ref;
  std::optional<std::string> sha{};  // 40 hexadecimal digits, once resolved
};
using SourceRoot = std::variant<std::string, GitSource>;  // a folder as written, or a repository
// A folder as written, with a leading "~" as $HOME; relative ones stay relative to the current folder.
std::filesystem::path ExpandHome(const std::string& written);

struct ExtraCode {
  SourceRoot root;
  std::vector<std::string> paths;  // relative to it
};

struct ManifestSource {
  SourceRoot tt_metal;
  std::vector<std::string> code;  // relative to it
  std::vector<ExtraCode> extra_code{};
  std::string ubuntu, python;
};

struct Manifest {
  std::string repo, name;
  WeightsPointer weights;
  std::vector<WeightsPointer> auxiliary_weights{};
  std::string kind = "vllm-plugin";
  std::string arch;
  ManifestSource source;
  std::string image_registry = "hf";
  std::optional<std::string> image_repository{};
  Value runtime{Value::Map{}};
  ServeSettings serve{};
  std::vector<ServeProfile> serve_profiles{};  // as written: may be empty
  std::optional<std::string> default_profile{};
  std::optional<Card> card{};
  std::vector<std::string> verify{};
  std::filesystem::path folder{};  // of the file, for `runtime.lock`; empty when parsed from text

  // The first thing that is wrong, in the order in which the published tool checks. `check_sources`: also that the code
  // which the manifest ships exists on this machine.
  static Result<Manifest> Load(const std::filesystem::path& path, bool check_sources);
  static Result<Manifest> Parse(std::string_view text, const std::string& name);

  // The profiles written, or the one named "default" that stands for a manifest without any.
  std::vector<ServeProfile> Profiles() const;
  std::string DefaultProfileName() const;
  // Merged; no name: the default. kNotFound lists the names there are.
  Result<ServeProfile> ResolveProfile(const std::optional<std::string>& name = {}) const;
};

struct ManifestProblem {
  std::string path;  // of the key: "serve_profiles[1].hardware"; may be empty
  int line = 0;      // 0: unknown
  std::string message;
};
// Everything that is wrong with a tt-model.yaml, or, as the file's name says, a sightline.yaml or (.json) a wire
// manifest. Nothing: it is valid.
std::vector<ManifestProblem> FindProblems(const std::filesystem::path& path, bool check_sources);
std::vector<ManifestProblem> FindProblemsInText(std::string_view text, const std::string& name);

// ---------------------------------------------------------------------------------------------------------------------
// The wire manifest, tt_kernel_manifest.json

struct WireProducer {
  std::string tt_kernel_version, created_at;  // the latter ISO 8601
  std::optional<std::string> hostname{};
};

struct WireImage {
  std::string registry = "hf";
  std::optional<std::string> repository{};
  std::string tag;
  std::optional<std::string> digest{};  // "sha256:..."

  // The image lies under image/ of the repository of the package.
  bool IsHubHosted() const { return registry == "hf"; }
  // What to pull from a registry; none when hub-hosted.
  std::optional<std::string> PullReference() const;
};

struct WireContainer {
  WireImage image;
  std::string kind = "vllm-plugin";
  Value runtime{Value::Map{}};
  ServeSettings serve{};
  std::vector<ServeProfile> serve_profiles{};
  std::optional<std::string> default_profile{};
  std::optional<std::string> code_dir{};
  std::vector<std::string> verify{};
  Value built{Value::Map{}};
  std::optional<Card> card{};

  std::vector<std::string> ProfileNames() const;
  // kInvalidRequest where there are no profiles.
  Result<std::string> DefaultProfileName() const;
  // Merged; no name: the default. kNotFound lists the names there are.
  Result<ServeProfile> ResolveProfile(const std::optional<std::string>& name = {}) const;
};

struct WireManifest {
  std::string schema_version = "5.1";
  std::string name;  // a slug: checked when read
  std::string tt_metal_version, arch;
  int64_t device_count = 1;
  WireProducer producer;
  std::optional<WeightsPointer> weights{};
  std::vector<WeightsPointer> auxiliary_weights{};
  // Of packages that are no containers (schemas 5 and 6): kept as read.
  Value mesh{}, entrypoint{}, resources{}, capabilities{};
  EnvironmentList env{};
  Value bundled{}, deps{};
  std::optional<WireContainer> container{};

  // kInvalidRequest, also for a schema_version that is not 5, 5.1 or 6 and for a name that is no slug.
  static Result<WireManifest> Parse(std::string_view text, const std::string& name);
  static Result<WireManifest> Load(const std::filesystem::path& path);
  // As it is published: two spaces of indent, no newline at the end.
  std::string ToJson() const;

  // Primary first.
  std::vector<WeightsPointer> AllWeights() const;
  // container, or kUnsupported with what to do.
  Result<const WireContainer*> RequireContainer() const;
};

// What an author cannot know. The packaging tool is this program, at its version.
struct WireFacts {
  std::string image_tag;
  std::optional<std::string> image_digest{};
  std::string tt_metal_version = "unknown";
  std::string created_at;                 // ISO 8601, UTC
  std::optional<std::string> hostname{};  // names the machine to everyone: none unless asked for
  Value built{Value::Map{}};
  Value runtime{Value::Map{}};  // as Manifest::runtime, with pins
};
WireManifest ToWire(const Manifest& manifest, WireFacts facts);

// ---------------------------------------------------------------------------------------------------------------------
// Launching. Pure: the same manifest and profile give the same words.

// The kinds of server that an image may hold: vllm-plugin, vllm-fork, tt-dit-server, http-server.
std::vector<std::string> KnownKinds();
// Whether clients may speak OpenAI's chat protocol to it: the vLLM kinds.
bool SpeaksOpenAi(std::string_view kind);

// `profile` is merged; its port is what the server binds, 8000 where none is set.
Result<std::vector<std::string>> ServeCommand(const WireManifest& manifest, const ServeProfile& profile);
// Sorted by name; serve.env wins over what the kind sets.
Result<std::map<std::string, std::string>> ServeEnvironment(const WireManifest& manifest, const ServeProfile& profile);
// A line of the log that holds one of these says that the server is ready.
Result<std::vector<std::string>> ReadyLandmarks(const WireContainer& container);

// "tt-model-NAME-PROFILE"
std::string ContainerName(std::string_view name, std::string_view profile);

// Which devices a container gets.
struct DeviceGrant {
  enum class Kind { kNone, kAll, kChips };
  Kind kind = Kind::kAll;    // kNone: a server for the CPU; neither devices nor huge pages
  std::vector<int> chips{};  // of kChips, in the order given
};

struct DockerRunInput {
  std::string program = "docker";          // or podman, or a path
  std::vector<std::string> run_options{};  // put behind `run`: "--ulimit", "nofile=1024:1024"
  bool detach = false;
  const WireManifest* manifest = nullptr;  // a container; must outlive the call
  ServeProfile profile{};                  // merged
  int port = kDefaultPort;                 // on both sides
  DeviceGrant devices{};
  uint32_t user = 0, group = 0;                  // 0:0 for a rootless daemon
  std::filesystem::path hf_home{}, hub_cache{};  // absolute, links resolved; the latter may lie inside the former
  std::filesystem::path cache_folder{};          // ~/.cache/tt-model/NAME: holds cache, weights and tensors
  bool token_is_set = false;                     // HF_TOKEN: passed by name only
  std::string image{};
  std::vector<std::string> arguments{};  // for the server, behind its own
};
// `docker run` in the words and the order of the published tool. Servers that are not vLLM get the pin of the weights
// as TT_MODEL_WEIGHTS_REVISION and TT_WEIGHTS_REVISION.
Result<std::vector<std::string>> DockerRunCommand(const DockerRunInput& input);

// ---------------------------------------------------------------------------------------------------------------------
// The card

// Names of the sections that a listed package needs and that are blank, of performance and limitations; none where
// there is no card.
std::vector<std::string> PublishGaps(const std::optional<Card>& card);
// README.md: front matter and sections.
std::string GenerateCard(const WireManifest& manifest);
// Tags of the repository, sorted.
std::vector<std::string> CardTags(const WireManifest& manifest);
// `readme` with `target` ("org/name") in the four command lines of its quickstart; everything else stays.
std::string RepointCard(std::string_view readme, std::string_view target);

// ---------------------------------------------------------------------------------------------------------------------
// Code, sources and the image

// SHA-256 over a staged code/ tree: 64 digits. Order and bytes are those of the published tool.
Result<std::string> CodeDigest(const std::filesystem::path& folder);

// Entries of one root, in order.
struct CodeRoot {
  std::filesystem::path root;
  std::vector<std::string> paths;
};
// Copies every entry of every root into `destination`, which must not exist yet; later ones overwrite earlier ones of
// the same path. Links are followed, but not out of their root; anything but files and folders is refused. Returns what
// was left out, caches and weights, relative to its own root.
Result<std::vector<std::string>> StageCode(std::span<const CodeRoot> roots, const std::filesystem::path& destination);

// Copies a tt-metal tree without what an image does not need (.git, built, docs, ...). kNotFound where it is no
// tt-metal checkout or its submodules are missing.
Status CopyMetalTree(const std::filesystem::path& source, const std::filesystem::path& destination);
// Copies a Python checkout by git's own listing, or all but caches where it is no repository. Runs git, whose reason is
// the error where it cannot list a repository.
Status CopyCheckout(const std::filesystem::path& source, const std::filesystem::path& destination);

struct MetalProvenance {
  std::string sha;
  std::optional<std::string> describe{};
  bool dirty = false;
  std::string scm_version = "0.0.0.dev0";
  std::string mode = "local";  // or "git"
  std::optional<std::string> remote{}, branch{};
  bool pushed = false;
};
// Of a local checkout. Runs git.
Result<MetalProvenance> ResolveLocalMetal(const std::filesystem::path& folder);
// Version from `git describe` over tags v*.*.*: "0.78.0", "0.78.1.dev25", with "+gNODE" when dirty.
std::string ScmVersion(std::string_view describe, bool dirty);
// An address without user name and password: addresses are published.
std::string WithoutCredentials(std::string address);
// The commit of a branch, tag or (shortened) commit of a repository that may be remote; of a tag and a branch of one
// name the tag's. Runs git ls-remote.
Result<std::string> ResolveGitReference(const std::string& repo, const std::string& reference);
// Clones the repository into `folder`, at its commit, or its reference where that is not resolved. kUnreachable with
// git's reason. Runs git.
Status CloneCommit(const GitSource& source, const std::filesystem::path& folder, std::stop_token stop = {});

struct CheckoutState {
  std::string sha;     // of the commit that is checked out
  bool dirty = false;  // something was changed since, or is new
};
// None where the folder is in no repository, or in one without a commit. Runs git.
std::optional<CheckoutState> ResolveCheckout(const std::filesystem::path& folder);

// Files that `package --container` generates beside the staged trees.
struct BuildFiles {
  std::string install_engine, verify, serve_default, dockerfile, entrypoint;
};
struct BuildFacts {
  MetalProvenance metal{};
  std::optional<std::string> torch_pin{};  // of tt-metal's requirements
};
// `manifest.runtime` with pins; the default profile's command and environment go into serve_default.
Result<BuildFiles> GenerateBuildFiles(const Manifest& manifest, const BuildFacts& facts);
// The version in "torch==VERSION" of tt_metal/python_env/requirements-dev.txt, where it can be read.
std::optional<std::string> TorchPin(const std::filesystem::path& tt_metal);
// `docker build` of `context`; `metal` is the copied tt-metal tree, an empty folder where the build clones it.
std::vector<std::string> DockerBuildCommand(const Manifest& manifest, const BuildFacts& facts, const std::string& tag,
                                            const std::filesystem::path& metal, const std::filesystem::path& context);
// "tt-model/NAME:build-SHA9", and once built "tt-model/NAME:ID12".
std::string ProvisionalTag(const Manifest& manifest, const MetalProvenance& metal);
std::string FinalTag(std::string_view name, std::string_view image_id);

// ---------------------------------------------------------------------------------------------------------------------
// sightline.yaml: how a package runs natively

struct NativeServe {
  std::optional<int> port{};
  std::optional<int> max_heads{};                         // gaze-lle
  std::optional<std::string> grid{};                      // locate-anything: "24x44" or "native"
  std::optional<int> in_token_limit{}, max_new_tokens{};  // locate-anything
};

struct NativePackage {
  std::string model;  // "gaze-lle" or "locate-anything"
  WeightsPointer weights;
  std::optional<std::string> precision{};  // f32, bf16, int8, int8w, int4; none: the model's default
  NativeServe serve{};
  CardLicense license;  // of the weights

  // What the server is told besides model, weights and address: "--precision", "int8", "--grid", "24x44".
  std::vector<std::string> ServeOptions() const;

  // Strict: unknown keys are refused.
  static Result<NativePackage> Load(const std::filesystem::path& path);
  static Result<NativePackage> Parse(std::string_view text, const std::string& name);
};

// A package that travels inside the program.
struct BuiltInPackage {
  std::string name;                // "gaze-lle"
  std::string_view tt_model_yaml;  // its files, as in packages/NAME
  std::string_view sightline_yaml;
  NativePackage native;
};
const std::vector<BuiltInPackage>& BuiltInPackages();
// By short name ("gaze-lle"); nullptr: none.
const BuiltInPackage* FindBuiltInPackage(std::string_view name);
// By the repository of its weights ("changh95/gaze-lle-weights"), which is how a package of someone else shows that it
// holds a model of ours; nullptr: none.
const BuiltInPackage* FindPackageByWeights(std::string_view weights_repo);

}  // namespace sightline
