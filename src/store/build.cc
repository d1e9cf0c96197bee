#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "store/build_sources.h"
#include "store/documents.h"
#include "store/result_folder.h"
#include "store/scratch_folder.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr char kLockName[] = "requirements.lock";

// name==version of what was installed from an index, without what the image installs by itself.
constexpr char kFreeze[] =
    "import importlib.metadata as m\n"
    "rows={}\n"
    "for d in m.distributions():\n"
    "    n=(d.metadata['Name'] or '').lower().replace('_','-').replace('.','-')\n"
    "    if n and d.read_text('direct_url.json') is None: rows.setdefault(n, d.version)\n"
    "print('\\n'.join(f'{n}=={v}' for n, v in sorted(rows.items())))";

class PackageBuild {
 public:
  PackageBuild(const StoreSettings& settings, const BuildOptions& options, Reporter& reporter, std::stop_token stop,
               ScratchFolder scratch)
      : settings_(settings),
        options_(options),
        reporter_(reporter),
        stop_(std::move(stop)),
        scratch_(std::move(scratch)),
        result_(scratch_.path() / "result") {}

  StoreResult<BuildReport> Run();

 private:
  fs::path Context() const { return result_ / "ctx"; }
  std::string Name() const { return sources_.manifest.name; }

  StoreStatus Stage();
  StoreStatus StageTrees();
  StoreStatus StageFiles();
  // Nothing where there is no engine or its build fails before it has begun.
  StoreResult<ContainerEngine> UsableEngine() const;
  StoreStatus BuildImage(const ContainerEngine& engine);
  StoreStatus FreezeLock(const ContainerEngine& engine);
  StoreStatus ExportImage(const ContainerEngine& engine);
  StoreStatus WriteDocuments();
  WireFacts Facts() const;
  StoreStatus Finish(const fs::path& target);
  tl::unexpected<StoreError> StagedOnly(const Error& error, std::string cause);

  const StoreSettings& settings_;
  const BuildOptions& options_;
  Reporter& reporter_;
  std::stop_token stop_;
  ScratchFolder scratch_;
  fs::path result_;
  ResolvedSources sources_;
  BuildFacts facts_;
  BuildReport report_;
};

Status WriteProgram(const fs::path& file, const std::string& text) {
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(file, text));
  std::error_code error;
  fs::permissions(file, fs::perms(0755), error);
  return error ? Status(tl::make_unexpected(ErrnoError("write", file, error.value()))) : Status();
}

StoreStatus PackageBuild::StageTrees() {
  const fs::path context = Context();
  for (const char* folder : {"metalsrc", "plugin-src", "vllm-src", "wheels"}) {
    std::error_code error;
    if (folder != std::string_view("metalsrc") || sources_.metal_folder.empty()) {
      fs::create_directories(context / folder, error);
    }
    if (error) return tl::make_unexpected(StoreError(ErrnoError("write", context / folder, error.value())));
  }
  std::error_code error;
  fs::create_directories(context, error);
  if (!sources_.metal_folder.empty()) {
    SIGHTLINE_RETURN_IF_ERROR(CopyMetalTree(sources_.metal_folder, context / "metalsrc"));
  }
  const std::pair<fs::path, const char*> checkouts[] = {{sources_.plugin_folder, "plugin-src"},
                                                        {sources_.vllm_folder, "vllm-src"}};
  for (const auto& [from, to] : checkouts) {
    if (from.empty()) continue;
    fs::remove(context / to, error);
    SIGHTLINE_RETURN_IF_ERROR(CopyCheckout(from, context / to));
  }
  for (const fs::path& wheel : sources_.wheels) {
    fs::copy_file(wheel, context / "wheels" / wheel.filename(), error);
    if (error) return tl::make_unexpected(StoreError(ErrnoError("read", wheel, error.value())));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<CodeRoot> roots, CodeRoots(sources_, scratch_.path(), stop_));
  SIGHTLINE_ASSIGN_OR_RETURN(report_.dropped, StageCode(roots, context / "code"));
  SIGHTLINE_ASSIGN_OR_RETURN(report_.code_digest, CodeDigest(context / "code"));
  return {};
}

StoreStatus PackageBuild::StageFiles() {
  const fs::path context = Context();
  const std::string lock = TextMember(sources_.manifest.runtime, "lock");
  if (!lock.empty()) {
    const fs::path file = sources_.manifest.folder / lock;
    std::error_code error;
    if (!fs::exists(file, error)) {
      return tl::make_unexpected(StoreError(Error{
          Code::kNotFound, fmt::format("runtime.lock names {}, which does not exist", file.string()), "runtime.lock"}));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file));
    SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(context / kLockName, text));
  }
  if (!sources_.metal_folder.empty()) facts_.torch_pin = TorchPin(sources_.metal_folder);
  facts_.metal = sources_.metal;
  SIGHTLINE_ASSIGN_OR_RETURN(const BuildFiles files, GenerateBuildFiles(sources_.manifest, facts_));
  SIGHTLINE_RETURN_IF_ERROR(WriteProgram(context / "install_engine.sh", files.install_engine));
  SIGHTLINE_RETURN_IF_ERROR(WriteProgram(context / "verify.sh", files.verify));
  SIGHTLINE_RETURN_IF_ERROR(WriteProgram(context / "serve-default.sh", files.serve_default));
  SIGHTLINE_RETURN_IF_ERROR(WriteProgram(context / "entrypoint.sh", files.entrypoint));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(context / "Dockerfile", files.dockerfile));
  return {};
}

StoreStatus PackageBuild::Stage() {
  Step step(reporter_, "stage", "staging code");
  SIGHTLINE_RETURN_IF_ERROR(StageTrees());
  SIGHTLINE_RETURN_IF_ERROR(StageFiles());
  if (!report_.dropped.empty()) {
    const size_t shown = std::min<size_t>(report_.dropped.size(), 5);
    reporter_.OnNote(fmt::format(
        "left out of the code: {}{}",
        fmt::join(report_.dropped.begin(), report_.dropped.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        report_.dropped.size() > shown ? fmt::format(" and {} more", report_.dropped.size() - shown) : ""));
  }
  const std::vector<std::string> gaps = PublishGaps(sources_.manifest.card);
  if (!gaps.empty()) {
    reporter_.OnWarning(fmt::format("the card says nothing of {}: it cannot be listed so", fmt::join(gaps, ", ")));
  }
  step.Done("code " + report_.code_digest.substr(0, 16));
  return {};
}

StoreResult<ContainerEngine> PackageBuild::UsableEngine() const {
  SIGHTLINE_ASSIGN_OR_RETURN(ContainerEngine engine, ContainerEngine::Find(settings_.engine));
  SIGHTLINE_RETURN_IF_ERROR(engine.ServerVersion());
  return engine;
}

StoreStatus PackageBuild::BuildImage(const ContainerEngine& engine) {
  Step step(reporter_, "build", "building the image");
  const fs::path log = settings_.folders.BuildLog(Name());
  reporter_.OnNote(fmt::format("follow it with: tail -f {}", log.string()));
  const std::string provisional = ProvisionalTag(sources_.manifest, sources_.metal);
  std::vector<std::string> words = DockerBuildCommand(sources_.manifest, facts_, provisional,
                                                      fs::absolute(Context() / "metalsrc"), fs::absolute(Context()));
  words.erase(words.begin(), words.begin() + 2);  // the program and "build" are the engine's
  if (engine.kind() == EngineKind::kPodman) std::erase(words, "--progress=plain");
  std::error_code ignored;
  fs::create_directories(log.parent_path(), ignored);
  ProcessLimits limits;
  limits.stop = stop_;
  const auto line = [&](std::string_view text) {
    if (options_.verbose) reporter_.OnNote(text);
  };
  const Status built = engine.Build(words, log, line, limits);
  if (!built && built.error().code == Code::kCancelled) return tl::make_unexpected(StoreError(built.error()));
  if (!built) return StagedOnly(built.error(), fmt::format("the image was not built; the log is {}", log.string()));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<std::string> id, engine.ImageId(provisional));
  if (!id) {
    return tl::make_unexpected(StoreError(
        Error{Code::kInternal, fmt::format("{} built {} and does not have it", engine.program(), provisional), {}}));
  }
  report_.image = FinalTag(Name(), *id);
  report_.image_digest = *id;
  SIGHTLINE_RETURN_IF_ERROR(engine.Tag(provisional, report_.image));
  SIGHTLINE_RETURN_IF_ERROR(engine.RemoveImage(provisional));
  step.Done(report_.image);
  return {};
}

StoreStatus PackageBuild::FreezeLock(const ContainerEngine& engine) {
  std::error_code error;
  if (fs::exists(Context() / kLockName, error)) {
    fs::rename(Context() / kLockName, result_ / kLockName, error);
    return error ? StoreStatus(tl::make_unexpected(StoreError(ErrnoError("write", result_ / kLockName, error.value()))))
                 : StoreStatus();
  }
  const Result<std::string> frozen =
      engine.Run({"--rm", "--entrypoint", "/opt/tt-venv/bin/python", report_.image, "-c", kFreeze});
  if (!frozen) {
    reporter_.OnWarning(fmt::format("no {} was written: {}", kLockName, frozen.error().message));
    return {};
  }
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(result_ / kLockName, *frozen + "\n"));
  return {};
}

StoreStatus PackageBuild::ExportImage(const ContainerEngine& engine) {
  Step step(reporter_, "export", "exporting the image");
  const auto read = [&](ByteSource source) -> Status {
    return ReadDockerArchive(source, result_ / "image", TransferFor(reporter_, "export", stop_));
  };
  ProcessLimits limits;
  limits.stop = stop_;
  SIGHTLINE_RETURN_IF_ERROR(engine.Save(report_.image, read, limits));
  step.Done();
  return {};
}

// Who may clone from where is nobody's business; the image was built with it.
Value PublishedRuntime(Value runtime) {
  for (const char* key : {"vllm", "plugin"}) {
    const Value* component = runtime.Find(key);
    if (component == nullptr || component->AsMap() == nullptr || TextMember(*component, "repo").empty()) continue;
    Value published = *component;
    published.Set("repo", TextValue(std::string_view(WithoutCredentials(TextMember(published, "repo")))));
    runtime.Set(key, std::move(published));
  }
  runtime.Set("lock", TextValue(std::string_view(kLockName)));
  return runtime;
}

WireFacts PackageBuild::Facts() const {
  WireFacts facts;
  const MetalProvenance& metal = sources_.metal;
  facts.image_tag = report_.image.empty() ? ProvisionalTag(sources_.manifest, metal) : report_.image;
  if (!report_.image_digest.empty()) facts.image_digest = report_.image_digest;
  facts.tt_metal_version = metal.scm_version;
  facts.created_at = UtcNow();
  Value tt_metal{Value::Map{}};
  tt_metal.Set("sha", TextValue(std::string_view(metal.sha)));
  tt_metal.Set("describe", TextValue(metal.describe));
  tt_metal.Set("dirty", BoolValue(metal.dirty));
  tt_metal.Set("scm_version", TextValue(std::string_view(metal.scm_version)));
  tt_metal.Set("mode", TextValue(std::string_view(metal.mode)));
  tt_metal.Set("remote", TextValue(metal.remote));
  tt_metal.Set("branch", TextValue(metal.branch));
  tt_metal.Set("pushed", BoolValue(metal.pushed));
  facts.built.Set("image", TextValue(std::string_view(facts.image_tag)));
  facts.built.Set("repo", TextValue(std::string_view(sources_.manifest.repo)));
  facts.built.Set("tt_model_version", TextValue(Version()));
  facts.built.Set("created_at", TextValue(std::string_view(facts.created_at)));
  facts.built.Set("tt_metal", std::move(tt_metal));
  facts.built.Set("code_sha256", TextValue(std::string_view(report_.code_digest)));
  facts.built.Set("image_digest", TextValue(facts.image_digest));
  for (const Value::Member& member : *sources_.built.AsMap()) facts.built.Set(member.key, member.value);
  facts.runtime = PublishedRuntime(sources_.manifest.runtime);
  return facts;
}

StoreStatus PackageBuild::WriteDocuments() {
  const WireManifest wire = ToWire(sources_.manifest, Facts());
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(result_ / kWireManifestName, wire.ToJson()));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(result_ / "README.md", GenerateCard(wire)));
  const fs::path native = sources_.manifest.folder / kNativeManifestName;
  std::error_code error;
  if (!fs::exists(native, error)) return {};
  SIGHTLINE_RETURN_IF_ERROR(NativePackage::Load(native));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(native));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(result_ / kNativeManifestName, text));
  return {};
}

StoreStatus PackageBuild::Finish(const fs::path& target) {
  SIGHTLINE_RETURN_IF_ERROR(WriteDocuments());
  std::error_code error;
  if (report_.built) {
    fs::rename(Context() / "code", result_ / "code", error);
    if (error) return tl::make_unexpected(StoreError(ErrnoError("write", result_ / "code", error.value())));
    fs::remove_all(Context(), error);
    if (error) return tl::make_unexpected(StoreError(ErrnoError("remove", Context(), error.value())));
  }
  SIGHTLINE_RETURN_IF_ERROR(TakePlace(result_, target));
  report_.folder = target;
  return {};
}

// Whatever ended the build: what was staged is kept for a look, and the previous result is left alone.
tl::unexpected<StoreError> PackageBuild::StagedOnly(const Error& error, std::string cause) {
  const fs::path target = options_.out / (Name() + ".staged");
  FailureCard card{
      std::move(cause), fmt::format("{}; the staged files are in {}", error.message, target.string()), {}, {}};
  if (const StoreStatus kept = Finish(target); !kept) card.detail = error.message;
  return tl::make_unexpected(StoreError(error.code, std::move(card)));
}

StoreResult<BuildReport> PackageBuild::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(Manifest manifest, Manifest::Load(options_.manifest, false));
  {
    Step step(reporter_, "resolve", "resolving sources");
    SIGHTLINE_ASSIGN_OR_RETURN(sources_, ResolveSources(std::move(manifest), reporter_));
    step.Done(sources_.metal.sha.substr(0, 12));
  }
  SIGHTLINE_RETURN_IF_ERROR(Stage());
  if (!options_.build) {
    SIGHTLINE_RETURN_IF_ERROR(Finish(options_.out / (Name() + ".staged")));
    return std::move(report_);
  }
  const StoreResult<ContainerEngine> engine = UsableEngine();
  if (!engine) return StagedOnly(engine.error(), "no image can be built here");
  SIGHTLINE_RETURN_IF_ERROR(BuildImage(*engine));
  report_.built = true;
  SIGHTLINE_RETURN_IF_ERROR(FreezeLock(*engine));
  SIGHTLINE_RETURN_IF_ERROR(ExportImage(*engine));
  SIGHTLINE_RETURN_IF_ERROR(Finish(options_.out / Name()));
  return std::move(report_);
}

}  // namespace

StoreResult<BuildReport> BuildPackage(const StoreSettings& settings, const BuildOptions& options, Reporter* reporter,
                                      std::stop_token stop) {
  SIGHTLINE_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::MakeIn(options.out));
  return PackageBuild(settings, options, OrSilent(reporter), std::move(stop), std::move(scratch)).Run();
}

}  // namespace sightline
