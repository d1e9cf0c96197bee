#include "store/build_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "store/documents.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

Result<std::string> CommitOfSource(const GitSource& source) {
  return source.sha ? Result<std::string>(*source.sha) : ResolveGitReference(source.repo, source.ref);
}

// Of a checkout that is no tt-metal: commit and whether it was changed; nothing where it is no repository.
Value CheckoutPins(const fs::path& folder) {
  Value pins{Value::Map{}};
  const auto state = ResolveCheckout(folder);
  if (!state) return pins;
  pins.Set("sha", TextValue(std::string_view(state->sha)));
  pins.Set("dirty", BoolValue(state->dirty));
  return pins;
}

// A glob in the last component.
Result<fs::path> FindWheel(const std::string& written) {
  const fs::path pattern = ExpandHome(written);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(pattern.parent_path().empty() ? "." : pattern.parent_path(), error), end;
       !error && at != end; at.increment(error)) {
    if (MatchesHubPattern(pattern.filename().string(), at->path().filename().string())) found.push_back(at->path());
  }
  if (found.empty()) return Fail(Code::kNotFound, fmt::format("{}: there is no such wheel", written));
  return *std::max_element(found.begin(), found.end());
}

class Resolver {
 public:
  Resolver(Manifest manifest, Reporter& reporter) : reporter_(reporter) { sources_.manifest = std::move(manifest); }
  StoreResult<ResolvedSources> Run();

 private:
  StoreStatus Metal();
  StoreStatus ExtraCodeRoots();
  // runtime.vllm or runtime.plugin.
  StoreStatus Component(const char* key, fs::path& folder);
  StoreStatus Wheels();

  Reporter& reporter_;
  ResolvedSources sources_;
};

StoreStatus Resolver::Metal() {
  SourceRoot& root = sources_.manifest.source.tt_metal;
  if (const auto* folder = std::get_if<std::string>(&root)) {
    sources_.metal_folder = fs::absolute(ExpandHome(*folder));
    SIGHTLINE_ASSIGN_OR_RETURN(sources_.metal, ResolveLocalMetal(sources_.metal_folder));
    const MetalProvenance& metal = sources_.metal;
    reporter_.OnNote(fmt::format("tt-metal {}{}{}", metal.sha, metal.branch ? " on " + *metal.branch : "",
                                 metal.dirty ? ", with changes that are in no commit" : ""));
    if (!metal.pushed) reporter_.OnNote("that commit is on no remote, which is fine: the package carries the code");
    return {};
  }
  GitSource& git = std::get<GitSource>(root);
  SIGHTLINE_ASSIGN_OR_RETURN(git.sha, CommitOfSource(git));
  sources_.metal.sha = *git.sha;
  sources_.metal.mode = "git";
  sources_.metal.remote = WithoutCredentials(git.repo);
  sources_.metal.pushed = true;
  reporter_.OnNote(fmt::format("tt-metal {} is pinned at {}", git.ref, *git.sha));
  return {};
}

StoreStatus Resolver::ExtraCodeRoots() {
  for (ExtraCode& extra : sources_.manifest.source.extra_code) {
    if (auto* git = std::get_if<GitSource>(&extra.root)) {
      SIGHTLINE_ASSIGN_OR_RETURN(git->sha, CommitOfSource(*git));
      reporter_.OnNote(fmt::format("{} {} is pinned at {}", WithoutCredentials(git->repo), git->ref, *git->sha));
    }
  }
  return {};
}

StoreStatus Resolver::Component(const char* key, fs::path& folder) {
  const Value* found = sources_.manifest.runtime.Find(key);
  if (found == nullptr || found->AsMap() == nullptr) return {};
  Value component = *found;
  Value pins{Value::Map{}};
  const std::string repo = TextMember(component, "repo"), path = TextMember(component, "path");
  if (!repo.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string sha, ResolveGitReference(repo, TextMember(component, "ref")));
    pins.Set("sha", TextValue(std::string_view(sha)));
    pins.Set("repo", TextValue(std::string_view(WithoutCredentials(repo))));
    component.Set("sha", TextValue(std::string_view(sha)));
  } else if (!path.empty()) {
    folder = fs::absolute(ExpandHome(path));
    pins = CheckoutPins(folder);
    for (const Value::Member& pin : *pins.AsMap()) component.Set(pin.key, pin.value);
    // A path of this machine is nobody's business: its last part says enough.
    component.Set("path", TextValue(std::string_view(folder.filename().native())));
  } else if (const std::string wheel = TextMember(component, "wheel"); !wheel.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const fs::path file, FindWheel(wheel));
    sources_.wheels.push_back(file);
    component.Set("wheel_name", TextValue(std::string_view(file.filename().native())));
    pins.Set("wheel", TextValue(std::string_view(file.filename().native())));
  }
  if (!pins.AsMap()->empty()) sources_.built.Set(key, pins);
  sources_.manifest.runtime.Set(key, std::move(component));
  return {};
}

StoreStatus Resolver::Wheels() {
  for (const std::string& written : TextsIn(sources_.manifest.runtime, "wheels")) {
    SIGHTLINE_ASSIGN_OR_RETURN(fs::path file, FindWheel(written));
    if (file.filename().string().starts_with("vllm-")) {
      return tl::make_unexpected(StoreError(
          Error{Code::kInvalidRequest, fmt::format("runtime.wheels: {} is vLLM, expected under runtime.vllm", written),
                "runtime.wheels"}));
    }
    sources_.wheels.push_back(std::move(file));
  }
  return {};
}

StoreResult<ResolvedSources> Resolver::Run() {
  SIGHTLINE_RETURN_IF_ERROR(Metal());
  SIGHTLINE_RETURN_IF_ERROR(ExtraCodeRoots());
  SIGHTLINE_RETURN_IF_ERROR(Component("vllm", sources_.vllm_folder));
  SIGHTLINE_RETURN_IF_ERROR(Component("plugin", sources_.plugin_folder));
  SIGHTLINE_RETURN_IF_ERROR(Wheels());
  return std::move(sources_);
}

StoreResult<fs::path> Clone(const GitSource& git, const fs::path& folder, std::stop_token stop) {
  const Status cloned = CloneCommit(git, folder, std::move(stop));
  if (cloned) return folder;
  if (cloned.error().code == Code::kCancelled) return tl::make_unexpected(StoreError(cloned.error()));
  return tl::make_unexpected(
      StoreError(cloned.error().code, {"a repository cannot be cloned", cloned.error().message, {}, {}}));
}

}  // namespace

StoreResult<ResolvedSources> ResolveSources(Manifest manifest, Reporter& reporter) {
  return Resolver(std::move(manifest), reporter).Run();
}

StoreResult<std::vector<CodeRoot>> CodeRoots(const ResolvedSources& sources, const fs::path& scratch,
                                             std::stop_token stop) {
  const ManifestSource& source = sources.manifest.source;
  int number = 0;
  const auto folder_of = [&](const SourceRoot& root) -> StoreResult<fs::path> {
    if (const auto* written = std::get_if<std::string>(&root)) return fs::absolute(ExpandHome(*written));
    return Clone(std::get<GitSource>(root), scratch / fmt::format("clone-{}", number++), stop);
  };
  std::vector<CodeRoot> roots;
  SIGHTLINE_ASSIGN_OR_RETURN(fs::path metal, folder_of(source.tt_metal));
  roots.push_back({std::move(metal), source.code});
  for (const ExtraCode& extra : source.extra_code) {
    SIGHTLINE_ASSIGN_OR_RETURN(fs::path folder, folder_of(extra.root));
    roots.push_back({std::move(folder), extra.paths});
  }
  return roots;
}

}  // namespace sightline
