#include <fmt/format.h>

#include <algorithm>

#include "package/card_fields.h"
#include "package/kinds.h"
#include "package/manifest_reading.h"
#include "package/profile_name.h"
#include "package/python_text.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

WeightsPointer ReadWeights(const Value& value, const std::string& path, ProblemList& problems) {
  if (value.AsText()) return {*value.AsText()};
  if (!value.AsMap()) {
    problems.Add(path, value.line,
                 fmt::format("{} is expected to be text or a map with repo, got {}", path, NameOfType(value)));
    return {};
  }
  FieldReader fields(value, path, problems, UnknownKeys::kRefused);
  WeightsPointer weights;
  weights.repo = fields.RequiredText("repo");
  weights.revision = fields.Text("revision");
  if (weights.revision && !IsSafeRevision(*weights.revision)) {
    fields.Complain(
        "revision", value.Find("revision"),
        fmt::format("{} {} is no branch, tag or commit", fields.PathOf("revision"), PythonQuote(*weights.revision)));
  }
  weights.allow_patterns = fields.Texts("allow_patterns");
  weights.ignore_patterns = fields.Texts("ignore_patterns");
  fields.Finish();
  return weights;
}

SourceRoot ReadRoot(const Value* value, const std::string& path, ProblemList& problems) {
  if (!value) return std::string();
  if (value->AsText()) return *value->AsText();
  if (!value->AsMap()) {
    problems.Add(path, value->line,
                 fmt::format("{} is expected to be a folder or {{repo, ref}}, got {}", path, NameOfType(*value)));
    return std::string();
  }
  FieldReader fields(*value, path, problems, UnknownKeys::kRefused);
  GitSource source{fields.RequiredText("repo"), fields.RequiredText("ref"), fields.Text("sha")};
  fields.Finish();
  return source;
}

// At least one path, none of which leaves its root.
std::vector<std::string> ReadPaths(FieldReader& fields, std::string_view key, ProblemList& problems) {
  const Value* list = fields.RequiredMember(key);
  if (!list) return {};
  const std::string path = fields.PathOf(key);
  std::vector<std::string> paths = ReadTexts(*list, path, problems);
  if (list->AsList() && list->AsList()->empty()) {
    fields.Complain(key, list, fmt::format("{} is empty, expected at least one path", path));
  }
  for (size_t i = 0; i < paths.size() && !problems.Holds(path); ++i) {
    if (!EscapesRoot(paths[i])) continue;
    problems.Add(PathOfItem(path, i), (*list->AsList())[i].line,
                 fmt::format("{} is expected to hold paths relative to their root, without .., got {}", path,
                             PythonQuote(paths[i])));
  }
  return paths;
}

ManifestSource ReadSource(const Value& value, ProblemList& problems) {
  FieldReader fields(value, "source", problems, UnknownKeys::kRefused);
  ManifestSource source;
  source.tt_metal = ReadRoot(fields.RequiredMember("tt_metal"), "source.tt_metal", problems);
  source.code = ReadPaths(fields, "code", problems);
  const Value::List& extras = fields.List("extra_code");
  for (size_t i = 0; i < extras.size(); ++i) {
    const std::string path = PathOfItem("source.extra_code", i);
    FieldReader extra(extras[i], path, problems, UnknownKeys::kRefused);
    ExtraCode code;
    code.root = ReadRoot(extra.RequiredMember("root"), path + ".root", problems);
    code.paths = ReadPaths(extra, "paths", problems);
    extra.Finish();
    source.extra_code.push_back(std::move(code));
  }
  source.ubuntu = fields.RequiredText("ubuntu");
  source.python = fields.RequiredText("python");
  fields.Finish();
  return source;
}

void ReadImage(const Value& value, ProblemList& problems, Manifest& manifest) {
  FieldReader fields(value, "image", problems, UnknownKeys::kRefused);
  manifest.image_registry = fields.Text("registry").value_or("hf");
  manifest.image_repository = fields.Text("repository");
  fields.Finish();
}

void ReadProfiles(FieldReader& fields, ProblemList& problems, Manifest& manifest) {
  const Value::List& profiles = fields.List("serve_profiles");
  for (size_t i = 0; i < profiles.size(); ++i) {
    const std::string path = PathOfItem("serve_profiles", i);
    manifest.serve_profiles.push_back(ReadServeProfile(profiles[i], path, problems));
    const std::string& name = manifest.serve_profiles.back().name;
    if (IsProfileName(name) || problems.Holds(path + ".name") || !profiles[i].AsMap()) continue;
    problems.Add(path + ".name", profiles[i].Find("name")->line,
                 fmt::format("{}.name {} is expected to hold letters, digits and . _ - only", path, PythonQuote(name)));
  }
}

void ReadWeightsFields(FieldReader& fields, ProblemList& problems, Manifest& manifest) {
  if (const Value* weights = fields.RequiredMember("weights")) {
    manifest.weights = ReadWeights(*weights, "weights", problems);
  }
  const Value::List& auxiliary = fields.List("auxiliary_weights");
  for (size_t i = 0; i < auxiliary.size(); ++i) {
    manifest.auxiliary_weights.push_back(ReadWeights(auxiliary[i], PathOfItem("auxiliary_weights", i), problems));
  }
}

std::string ReadName(FieldReader& fields, const Value& root, const ProblemList& problems) {
  std::string name = fields.RequiredText("name");
  const auto slug = CheckSlug(name);
  if (!slug && !problems.Holds("name")) fields.Complain("name", root.Find("name"), slug.error().message);
  return name;
}

}  // namespace

bool IsProfileName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), allowed);
}

bool IsSlug(std::string_view name) {
  const auto starts = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 200 && starts(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return starts(c) || c == '.' || c == '_' || c == '-'; });
}

Status CheckSlug(std::string_view name) {
  if (IsSlug(name)) return {};
  return Fail(Code::kInvalidRequest,
              fmt::format("name {} is not a safe slug, expected lower-case letters, digits and . _ - with a letter or "
                          "digit first",
                          PythonQuote(name)),
              "name");
}

Manifest ReadManifestFields(const Value& root, ProblemList& problems) {
  FieldReader fields(root, "", problems, UnknownKeys::kRefused);
  Manifest manifest;
  fields.Text("schema");  // its value is a rule
  manifest.repo = fields.RequiredText("repo");
  manifest.name = ReadName(fields, root, problems);
  ReadWeightsFields(fields, problems, manifest);
  manifest.kind = fields.Text("kind").value_or("vllm-plugin");
  manifest.arch = fields.RequiredText("arch");
  if (const Value* source = fields.RequiredMember("source")) manifest.source = ReadSource(*source, problems);
  if (const Value* image = fields.Member("image")) ReadImage(*image, problems, manifest);
  manifest.runtime = fields.Map("runtime");
  if (const Value* serve = fields.Member("serve")) manifest.serve = ReadServeSettings(*serve, "serve", problems);
  ReadProfiles(fields, problems, manifest);
  manifest.default_profile = fields.Text("default_profile");
  if (const Value* card = fields.Member("card")) manifest.card = ReadCard(*card, "card", CardSource::kAuthor, problems);
  manifest.verify = fields.Texts("verify").value_or(std::vector<std::string>());
  fields.Finish();
  return manifest;
}

}  // namespace sightline
