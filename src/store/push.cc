#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "store/card_tags.h"
#include "store/documents.h"
#include "store/reporting.h"
#include "store/scratch_folder.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr char kCatalogTag[] = "tt-model-catalog";
constexpr char kReadme[] = "README.md";

// What lies in a package's folder without being of the package: the context of its build, and what tools leave
// anywhere.
bool IsPublished(std::string_view path) {
  if (path.starts_with("ctx/")) return false;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part == ".git" || part == ".DS_Store" || part == "__pycache__") return false;
    start = end + 1;
  }
  return true;
}

bool HasTag(const HubRepo& repo, std::string_view tag) {
  return std::find(repo.tags.begin(), repo.tags.end(), tag) != repo.tags.end();
}

StoreStatus CheckListing(const std::optional<Card>& card, bool without_card_passes) {
  if (!card && without_card_passes) return {};
  const std::vector<std::string> gaps =
      card ? PublishGaps(card) : std::vector<std::string>{"performance", "limitations"};
  if (gaps.empty()) return {};
  return tl::make_unexpected(StoreError(
      Code::kInvalidRequest,
      {"the card is not ready for the catalog",
       fmt::format("a listed package says these things on its card, which are blank: {}", fmt::join(gaps, ", ")),
       {},
       {"fill them in under card: in tt-model.yaml and package again", "push without --publish"}}));
}

StoreResult<WireManifest> ManifestToPush(const fs::path& folder) {
  const fs::path file = folder / kWireManifestName;
  std::error_code error;
  if (!fs::exists(file, error)) {
    return tl::make_unexpected(StoreError(
        Code::kNotFound,
        {"no package",
         fmt::format("{} holds no {}, expected the folder that `package` wrote", folder.string(), kWireManifestName),
         {},
         {}}));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(WireManifest manifest, WireManifest::Load(file));
  SIGHTLINE_RETURN_IF_ERROR(manifest.RequireContainer());
  return manifest;
}

StoreStatus CheckImage(const fs::path& folder, const WireManifest& manifest) {
  if (!manifest.container->image.IsHubHosted()) return {};
  if (!HasLayout(folder / "image")) {
    return tl::make_unexpected(StoreError(Code::kNotFound, {"the package holds no image",
                                                            fmt::format("{} has no image/oci-layout", folder.string()),
                                                            {},
                                                            {"package it again, on a machine with docker or podman"}}));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const OciLayout layout, OpenOciLayout(folder / "image"));
  SIGHTLINE_RETURN_IF_ERROR(VerifyOciLayout(layout));
  return {};
}

class HubPush {
 public:
  HubPush(Hub& hub, const PushOptions& options, std::string repo, Reporter& reporter, std::stop_token stop)
      : hub_(hub), options_(options), repo_(std::move(repo)), reporter_(reporter), stop_(std::move(stop)) {}

  StoreResult<PushReport> Run(const WireManifest& manifest);

 private:
  StoreResult<std::optional<HubRepo>> Look();
  StoreStatus EnsureRepo(PushReport& report, const std::optional<HubRepo>& there);
  // README.md as it goes out, in `scratch`; the folder itself is left as it is.
  StoreStatus ReplaceReadme(std::vector<HubUploadFile>& files, const ScratchFolder& scratch, bool listed);
  StoreResult<std::vector<std::string>> Deletions(const std::vector<HubUploadFile>& files);

  Hub& hub_;
  const PushOptions& options_;
  std::string repo_;
  Reporter& reporter_;
  std::stop_token stop_;
};

StoreResult<std::optional<HubRepo>> HubPush::Look() {
  HubResult<HubRepo> info = hub_.Info(repo_, "main", stop_);
  if (info) return std::optional<HubRepo>(std::move(*info));
  if (info.error().fault == HubFault::kNoRepo || info.error().fault == HubFault::kNoRevision) {
    return std::optional<HubRepo>();
  }
  return tl::make_unexpected(StoreError(info.error()));
}

StoreStatus HubPush::EnsureRepo(PushReport& report, const std::optional<HubRepo>& there) {
  const auto wanted = options_.publish ? HubVisibility::kPublic : options_.visibility;
  HubResult<bool> created = hub_.CreateRepo(repo_, wanted.value_or(HubVisibility::kPrivate), stop_);
  if (!created) return tl::make_unexpected(StoreError(created.error()));
  report.created = *created;
  if (*created) {
    const bool is_public = wanted == HubVisibility::kPublic;
    reporter_.OnNote(fmt::format("{} is new and {}", repo_, is_public ? "public" : "private"));
  }
  if (*created || !wanted || !there || there->is_private == (*wanted == HubVisibility::kPrivate)) return {};
  const HubStatus changed = hub_.SetVisibility(repo_, *wanted, stop_);
  if (!changed) return tl::make_unexpected(StoreError(changed.error()));
  reporter_.OnNote(fmt::format("{} is {} now", repo_, *wanted == HubVisibility::kPublic ? "public" : "private"));
  return {};
}

StoreStatus HubPush::ReplaceReadme(std::vector<HubUploadFile>& files, const ScratchFolder& scratch, bool listed) {
  const auto readme = std::find_if(files.begin(), files.end(), [](const auto& file) { return file.path == kReadme; });
  if (readme == files.end()) return {};
  SIGHTLINE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(readme->source));
  text = RepointCard(text, repo_);
  text = listed ? WithCardTag(text, kCatalogTag) : WithoutCardTag(text, kCatalogTag);
  readme->source = scratch.path() / kReadme;
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(readme->source, text));
  return {};
}

StoreResult<std::vector<std::string>> HubPush::Deletions(const std::vector<HubUploadFile>& files) {
  HubResult<std::vector<HubFile>> tree = hub_.Tree(repo_, "main", stop_);
  if (!tree) return tl::make_unexpected(StoreError(tree.error()));
  std::set<std::string> local;
  for (const HubUploadFile& file : files) local.insert(file.path);
  std::vector<std::string> deletions;
  for (const HubFile& file : *tree) {
    const bool ours = file.path.starts_with("code/") || file.path.starts_with("image/");
    if (ours && !local.contains(file.path)) deletions.push_back(file.path);
  }
  return deletions;
}

StoreResult<PushReport> HubPush::Run(const WireManifest& manifest) {
  Step look(reporter_, "host", "checking " + repo_);
  SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<HubRepo> there, Look());
  const bool was_listed = there && HasTag(*there, kCatalogTag);
  const bool hides = options_.visibility == HubVisibility::kPrivate;
  const bool listed = options_.publish || (was_listed && !hides);
  if (listed) SIGHTLINE_RETURN_IF_ERROR(CheckListing(manifest.container->card, false));
  SIGHTLINE_RETURN_IF_ERROR(CheckImage(options_.folder, manifest));
  PushReport report;
  report.target = repo_;
  report.listed = listed;
  SIGHTLINE_RETURN_IF_ERROR(EnsureRepo(report, there));
  if (was_listed && hides) reporter_.OnNote(fmt::format("{} is no longer in the catalog: it is private", repo_));
  look.Done();
  Step step(reporter_, "upload", "uploading to " + repo_);
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<HubUploadFile> files, ListUploadFolder(options_.folder));
  std::erase_if(files, [](const HubUploadFile& file) { return !IsPublished(file.path); });
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Make());
  SIGHTLINE_RETURN_IF_ERROR(ReplaceReadme(files, scratch, listed));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::string> deletions, Deletions(files));
  if (!deletions.empty())
    reporter_.OnNote(fmt::format("push: drop {} file(s) that the package no longer has", deletions.size()));
  HubReporter sink(reporter_, "upload");
  HubUpload upload{repo_, "main", std::move(files), deletions, "tt-model push: " + manifest.name};
  HubResult<HubUploadReport> sent = hub_.Upload(upload, &sink, stop_);
  if (!sent) return tl::make_unexpected(StoreError(sent.error()));
  report.revision = sent->commit;
  report.files_sent = sent->files_sent;
  report.files_there = sent->files_there;
  report.deleted = sent->deleted;
  report.bytes_sent = sent->bytes_sent;
  step.Done(DecimalBytes(sent->bytes_sent));
  return report;
}

StoreResult<PushReport> PushToRegistry(const PushOptions& options, const WireManifest& manifest,
                                       const std::string& target, Reporter& reporter, std::stop_token stop) {
  if (options.publish || options.visibility) {
    return tl::make_unexpected(StoreError(
        Error{Code::kUsage, "--publish, --public and --private belong to a hub; a registry has no catalog", {}}));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const OciReference reference, ParseOciReference(target));
  SIGHTLINE_RETURN_IF_ERROR(CheckImage(options.folder, manifest));
  Step step(reporter, "upload", "uploading to " + target);
  SIGHTLINE_ASSIGN_OR_RETURN(const RegistryOptions registry,
                             RegistryOptionsFor(reference, TransferFor(reporter, "upload", std::move(stop))));
  PushReport report;
  report.target = FormatOciReference(reference);
  SIGHTLINE_ASSIGN_OR_RETURN(report.revision,
                             PushFolder(options.folder, reference, IsPublished, kPackageArtifact,
                                        {{"org.opencontainers.image.title", manifest.name}}, registry));
  step.Done(report.revision);
  return report;
}

// README.md of a repository with or without the tag of the catalog.
StoreStatus SetListed(Hub& hub, const std::string& repo, bool listed, Reporter& reporter, std::stop_token stop) {
  const HubResult<fs::path> readme = hub.Fetch(repo, "main", kReadme, nullptr, stop);
  if (!readme && readme.error().fault != HubFault::kNoEntry) return tl::make_unexpected(StoreError(readme.error()));
  std::string before;
  if (readme) {
    SIGHTLINE_ASSIGN_OR_RETURN(before, ReadTextFile(*readme));
  }
  const std::string after = listed ? WithCardTag(before, kCatalogTag) : WithoutCardTag(before, kCatalogTag);
  if (after == before) {
    reporter.OnNote(fmt::format("{} was {} the catalog already", repo, listed ? "in" : "not in"));
    return {};
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Make());
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(scratch.path() / kReadme, after));
  HubUpload upload{repo, "main", {{kReadme, scratch.path() / kReadme}}, {}, "tt-model: catalog"};
  const auto sent = hub.Upload(upload, nullptr, stop);
  if (!sent) return tl::make_unexpected(StoreError(sent.error()));
  return {};
}

}  // namespace

StoreResult<PushReport> Store::Push(const PushOptions& options, Reporter* reporter, std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  if (options.publish && options.visibility == HubVisibility::kPrivate) {
    return tl::make_unexpected(
        StoreError(Error{Code::kUsage, "--publish and --private contradict each other: what is listed is public", {}}));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const WireManifest manifest, ManifestToPush(options.folder));
  const std::string target = options.target.empty() ? TextMember(manifest.container->built, "repo") : options.target;
  if (target.empty()) {
    return tl::make_unexpected(
        StoreError(Error{Code::kUsage, "the manifest names no repository, expected --repo ORG/NAME", {}}));
  }
  if (target.starts_with("oci://")) return PushToRegistry(options, manifest, target, told, std::move(stop));
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(target));
  if (target.find('/') == std::string::npos) {
    return tl::make_unexpected(
        StoreError(Error{Code::kUsage, fmt::format("'{}' is not a repo id, expected ORG/NAME", target), {}}));
  }
  return HubPush(state_->packages, options, target, told, std::move(stop)).Run(manifest);
}

StoreStatus Store::Publish(const std::string& repo, Reporter* reporter, std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  Step step(told, "publish", "publishing " + repo);
  HubResult<HubRepo> info = state_->packages.Info(repo, "main", stop);
  if (!info) return tl::make_unexpected(StoreError(info.error()));
  HubResult<fs::path> file = state_->packages.Fetch(repo, info->commit, kWireManifestName, nullptr, stop);
  if (!file && file.error().fault != HubFault::kNoEntry) return tl::make_unexpected(StoreError(file.error()));
  if (file) {
    SIGHTLINE_ASSIGN_OR_RETURN(const WireManifest manifest, WireManifest::Load(*file));
    if (manifest.container) SIGHTLINE_RETURN_IF_ERROR(CheckListing(manifest.container->card, true));
  }
  if (info->is_private) {
    const HubStatus changed = state_->packages.SetVisibility(repo, HubVisibility::kPublic, stop);
    if (!changed) return tl::make_unexpected(StoreError(changed.error()));
    told.OnNote(fmt::format("{} is public now", repo));
  }
  SIGHTLINE_RETURN_IF_ERROR(SetListed(state_->packages, repo, true, told, std::move(stop)));
  step.Done();
  return {};
}

StoreStatus Store::Unpublish(const std::string& repo, Reporter* reporter, std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  Step step(told, "publish", "taking " + repo + " out of the catalog");
  SIGHTLINE_RETURN_IF_ERROR(SetListed(state_->packages, repo, false, told, std::move(stop)));
  step.Done();
  return {};
}

}  // namespace sightline
