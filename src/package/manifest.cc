#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "package/document_limits.h"
#include "package/manifest_reading.h"
#include "package/python_text.h"
#include "package/resolve_profile.h"

namespace sightline {
namespace {

struct Reading {
  Manifest manifest{};
  ProblemList problems{};
  bool well_formed = true;  // every key and type is as it should be
};

// Fails only for what makes looking at keys meaningless.
Result<Reading> ReadText(std::string_view text, const std::string& name, bool check_sources) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Value root, ParseYaml(text, name));
  if (!root.AsMap()) return Fail(Code::kInvalidRequest, fmt::format("{} does not contain a YAML mapping", name));
  Reading reading;
  reading.manifest = ReadManifestFields(root, reading.problems);
  reading.well_formed = reading.problems.all().empty();
  CheckManifestRules(reading.manifest, root, reading.problems);
  if (check_sources) CheckManifestSources(reading.manifest, root, reading.problems);
  return reading;
}

Result<Reading> ReadPath(const std::filesystem::path& path, bool check_sources) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Fail(Code::kNotFound, fmt::format("manifest not found: {}", path.string()));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const auto bytes, ReadFile(path, kMostDocumentBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto reading = ReadText(text, path.string(), check_sources);
  if (reading) reading->manifest.folder = path.parent_path();
  return reading;
}

Result<Manifest> FirstProblem(Result<Reading> reading, const std::string& name) {
  if (!reading) return tl::make_unexpected(std::move(reading).error());
  if (!reading->problems.all().empty()) {
    ManifestProblem first = reading->problems.all().front();
    if (!reading->well_formed) first.message = "failed validation: " + first.message;
    return tl::make_unexpected(ErrorOf(first, name));
  }
  return std::move(reading->manifest);
}

template <class Parse, class Read>
std::vector<ManifestProblem> ProblemsOf(const std::filesystem::path& path, size_t limit, Parse parse, Read read) {
  const auto bytes = ReadFile(path, limit);
  if (!bytes) return {{"", 0, bytes.error().message}};
  const auto root = parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path.string());
  if (!root) return {{"", 0, root.error().message}};
  ProblemList problems;
  read(*root, problems);
  return problems.all();
}

std::vector<ManifestProblem> AllProblems(const Result<Reading>& reading) {
  if (!reading) return {{"", 0, reading.error().message}};
  return reading->problems.all();
}

void CheckRoot(const SourceRoot& root, const std::vector<std::string>& paths, const std::string& key,
               const std::string& path, const Value& document, ProblemList& problems) {
  const auto* folder = std::get_if<std::string>(&root);
  if (!folder || problems.Holds(path)) return;
  const std::filesystem::path base = ExpandHome(*folder);
  std::vector<std::string> missing;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(missing), [&](const std::string& entry) {
    std::error_code error;
    return !std::filesystem::exists(base / entry, error);
  });
  if (missing.empty()) return;
  std::sort(missing.begin(), missing.end());
  problems.Add(path, LineOf(document, path),
               fmt::format("{} lists {} path(s) that do not exist under {}: {}", key, missing.size(), base.string(),
                           fmt::join(missing, ", ")));
}

}  // namespace

std::filesystem::path ExpandHome(const std::string& written) {
  const char* home = std::getenv("HOME");
  if (!home || !written.starts_with('~') || (written.size() > 1 && written[1] != '/')) return written;
  return home + written.substr(1);
}

void CheckManifestSources(const Manifest& manifest, const Value& root, ProblemList& problems) {
  const ManifestSource& source = manifest.source;
  CheckRoot(source.tt_metal, source.code, "source.code", "source.code", root, problems);
  for (size_t i = 0; i < source.extra_code.size(); ++i) {
    CheckRoot(source.extra_code[i].root, source.extra_code[i].paths, "source.extra_code",
              PathOfItem("source.extra_code", i), root, problems);
  }
}

Result<Manifest> Manifest::Load(const std::filesystem::path& path, bool check_sources) {
  return FirstProblem(ReadPath(path, check_sources), path.string());
}

Result<Manifest> Manifest::Parse(std::string_view text, const std::string& name) {
  return FirstProblem(ReadText(text, name, false), name);
}

std::vector<ManifestProblem> FindProblems(const std::filesystem::path& path, bool check_sources) {
  if (path.extension() == ".json") return ProblemsOf(path, kMostJsonBytes, ParseJson, ReadWireManifest);
  if (path.filename() == kNativeManifestName) {
    return ProblemsOf(path, kMostDocumentBytes, ParseYaml, ReadNativePackage);
  }
  return AllProblems(ReadPath(path, check_sources));
}

std::vector<ManifestProblem> FindProblemsInText(std::string_view text, const std::string& name) {
  return AllProblems(ReadText(text, name, false));
}

std::vector<ServeProfile> Manifest::Profiles() const {
  if (!serve_profiles.empty()) return serve_profiles;
  ServeProfile profile;
  profile.name = "default";
  return {profile};
}

std::string Manifest::DefaultProfileName() const {
  if (default_profile && !default_profile->empty()) return *default_profile;
  return Profiles().front().name;
}

Result<ServeProfile> Manifest::ResolveProfile(const std::optional<std::string>& wanted) const {
  return ResolveAmong(serve, Profiles(), wanted.value_or(DefaultProfileName()));
}

Result<ServeProfile> ResolveAmong(const ServeSettings& serve, const std::vector<ServeProfile>& profiles,
                                  const std::string& wanted) {
  std::vector<std::string> names;
  for (const ServeProfile& profile : profiles) {
    if (profile.name == wanted) return MergeProfile(serve, profile);
    names.push_back(profile.name);
  }
  return Fail(Code::kNotFound,
              fmt::format("no serve profile named {}; available: {}", PythonQuote(wanted), fmt::join(names, ", ")));
}

}  // namespace sightline
