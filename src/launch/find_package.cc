#include <fmt/format.h>

#include <system_error>

#include "launch/launcher_state.h"

namespace sightline {
namespace {

StoreError AuthoringFile(const std::string& file, const Manifest& manifest, const std::string& program) {
  return StoreError(
      Code::kInvalidRequest,
      {fmt::format("{} is an authoring manifest", file),
       "a package is made of it first: only `package` reads this file, and what it writes can be served",
       {},
       {fmt::format("{} package --container {}", program, file),
        fmt::format("{} push build/{}", program, manifest.name), fmt::format("{} serve {}", program, manifest.repo)}});
}

bool IsYaml(const std::filesystem::path& file) { return file.extension() == ".yaml" || file.extension() == ".yml"; }

// Replaces what is here when its branch has moved on. Whatever goes wrong, what is here is served.
void Refresh(Store& store, FoundPackage* found, Reporter& reporter, const std::stop_token& stop) {
  constexpr std::chrono::seconds kPatience{3};
  const std::optional<IndexEntry> entry = found->package.entry;
  if (!entry || found->target.kind != TargetKind::kHub) return;
  if (entry->pinned) {
    return reporter.OnNote(fmt::format("{} was pulled at a revision of its own and is not refreshed", entry->id));
  }
  const auto tip = store.TipRevision(*entry, kPatience);
  if (!tip) {
    return reporter.OnWarning(
        fmt::format("cannot see whether {} has changed, serving what is here: {}", entry->id, tip.error().message));
  }
  if (*tip == entry->revision) return;
  PullOptions options;
  options.mode = entry->mode;
  auto pulled = store.Pull(found->target, options, &reporter, stop);
  if (!pulled) {
    return reporter.OnWarning(
        fmt::format("cannot refresh {}, serving what is here: {}", entry->id, pulled.error().message));
  }
  found->package = std::move(pulled->package);
}

// A revision that was asked for and is another one than that which is here.
bool WantsAnotherRevision(const Target& target, const LocalPackage& package) {
  return target.revision && package.entry && package.entry->revision != target.revision;
}

}  // namespace

StoreResult<Target> FindTarget(const std::string& text, const std::string& program) {
  SIGHTLINE_ASSIGN_OR_RETURN(Target target, ParseTarget(text));
  if (target.kind != TargetKind::kFile) return target;
  std::error_code error;
  if (!std::filesystem::exists(target.manifest_file, error)) {
    return Fail(Code::kNotFound, fmt::format("{} does not exist", target.manifest_file.string()));
  }
  if (!IsYaml(target.manifest_file)) return target;
  const auto manifest = Manifest::Load(target.manifest_file, false);
  if (manifest) return tl::make_unexpected(AuthoringFile(text, *manifest, program));
  return Fail(Code::kInvalidRequest, fmt::format("{} is no package, and no valid authoring manifest either: {}", text,
                                                 manifest.error().message));
}

StoreResult<FoundPackage> FindPackage(Store& store, const ServeRequest& request, Reporter& reporter,
                                      std::stop_token stop) {
  FoundPackage found;
  SIGHTLINE_ASSIGN_OR_RETURN(found.target, FindTarget(request.target, store.settings().program));
  auto local = store.FindLocal(found.target);
  const bool may_ask = !request.local_only && found.target.kind != TargetKind::kFile;
  if (local) {
    found.package = *std::move(local);
    found.installed = true;
    const bool another = WantsAnotherRevision(found.target, found.package);
    if (another && !may_ask) {
      reporter.OnWarning(fmt::format("serving the revision that is here, {}, and not {}",
                                     found.package.entry->revision.value_or("(unknown)"), *found.target.revision));
    }
    if (!another || !may_ask) {
      if (request.refresh && may_ask) Refresh(store, &found, reporter, stop);
      return found;
    }
  } else if (!may_ask || local.error().code != Code::kNotFound) {
    return tl::make_unexpected(local.error());
  }
  SIGHTLINE_ASSIGN_OR_RETURN(found.package, store.FetchManifest(found.target, &reporter, stop));
  found.installed = false;
  return found;
}

std::string NativeNameOf(const FoundPackage& found) {
  const bool file = found.target.kind == TargetKind::kFile;
  return NativeServers::NameOf(file ? found.package.manifest.name : found.package.id);
}

StoreResult<FoundPackage> FindInstalled(Store& store, const std::string& text) {
  FoundPackage found;
  SIGHTLINE_ASSIGN_OR_RETURN(found.target, FindTarget(text, store.settings().program));
  SIGHTLINE_ASSIGN_OR_RETURN(found.package, store.FindLocal(found.target));
  found.installed = true;
  return found;
}

}  // namespace sightline
