#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "package/hardware.h"
#include "package/kinds.h"
#include "package/manifest_reading.h"
#include "package/python_text.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

const std::vector<std::string> kArchitectures = {"blackhole", "wormhole_b0"};

// Every name that stands there more than once, in order.
std::vector<std::string> Repeated(const std::vector<std::string>& names) {
  std::set<std::string> repeated;
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1) repeated.insert(name);
  }
  return {repeated.begin(), repeated.end()};
}

class RuleChecker {
 public:
  RuleChecker(const Manifest& manifest, const Value& root, ProblemList& problems)
      : manifest_(manifest), root_(root), problems_(problems), shape_(problems) {}

  void Check() {
    CheckHeader();
    CheckWeights();
    CheckProfileNames();
    const auto profiles = manifest_.Profiles();
    for (size_t i = 0; i < profiles.size(); ++i) CheckProfile(profiles[i], i);
    if (FindKind(manifest_.kind) && Sound("runtime") && Sound("source")) CheckRuntime(manifest_, problems_);
  }

 private:
  // Whether the first stage had nothing to say about it.
  bool Sound(std::string_view path) const { return !shape_.Holds(path); }
  void Require(bool condition, std::string_view path, std::string message) {
    if (!condition && Sound(path)) problems_.Add(std::string(path), LineOf(root_, path), std::move(message));
  }
  void CheckHeader();
  void CheckWeights();
  void CheckProfileNames();
  void CheckProfile(const ServeProfile& profile, size_t index);
  void CheckBoards(const ServeProfile& merged, const std::string& where, const std::string& path);
  // Where a problem with a field of a profile belongs: where the value was written.
  std::string PathOfField(const std::string& profile_path, const std::string& field) const;

  const Manifest& manifest_;
  const Value& root_;
  ProblemList& problems_;
  const ProblemList shape_;
};

void RuleChecker::CheckHeader() {
  const std::string schema = TextIn(root_, "schema").value_or(root_.Find("schema") ? "" : "5.1");
  Require(schema == "5.1", "schema",
          fmt::format("unsupported manifest schema {}, expected '5.1'", PythonQuote(schema)));
  const bool known = std::find(kArchitectures.begin(), kArchitectures.end(), manifest_.arch) != kArchitectures.end();
  Require(known, "arch",
          fmt::format("arch must be one of {}, got {}", PythonList(kArchitectures), PythonQuote(manifest_.arch)));
  Require(FindKind(manifest_.kind) != nullptr, "kind",
          fmt::format("kind must be one of {}, got {}", PythonList(KnownKinds()), PythonQuote(manifest_.kind)));
  Require(IsRepositoryId(manifest_.repo), "repo",
          fmt::format("repo must be a namespaced HF id (org/name), got {}", PythonQuote(manifest_.repo)));
}

void RuleChecker::CheckWeights() {
  std::vector<std::string> repositories = {manifest_.weights.repo};
  Require(IsRepositoryId(manifest_.weights.repo), "weights",
          fmt::format("weights must be a namespaced HF id (org/name), got {}", PythonQuote(manifest_.weights.repo)));
  for (size_t i = 0; i < manifest_.auxiliary_weights.size(); ++i) {
    const std::string& repo = manifest_.auxiliary_weights[i].repo;
    repositories.push_back(repo);
    Require(IsRepositoryId(repo), PathOfItem("auxiliary_weights", i),
            fmt::format("auxiliary_weights must each be a namespaced HF id (org/name), got {}", PythonQuote(repo)));
  }
  const auto repeated = Repeated(repositories);
  Require(repeated.empty() || !Sound("weights"), "auxiliary_weights",
          fmt::format("duplicate weight repositories in weights and auxiliary_weights: {}", PythonList(repeated)));
}

void RuleChecker::CheckProfileNames() {
  std::vector<std::string> names;
  for (const ServeProfile& profile : manifest_.Profiles()) names.push_back(profile.name);
  const auto repeated = Repeated(names);
  Require(repeated.empty(), "serve_profiles", fmt::format("duplicate serve profile names: {}", PythonList(repeated)));
  const std::string wanted = manifest_.default_profile.value_or("");
  Require(names.size() < 2 || !wanted.empty(), "default_profile",
          fmt::format("a manifest with several serve profiles must name a default_profile, one of {}",
                      fmt::join(names, ", ")));
  Require(wanted.empty() || std::find(names.begin(), names.end(), wanted) != names.end(), "default_profile",
          fmt::format("default_profile {} names no profile, expected one of {}", PythonQuote(wanted),
                      fmt::join(names, ", ")));
}

std::string RuleChecker::PathOfField(const std::string& profile_path, const std::string& field) const {
  const std::string own = profile_path + "." + field;
  const Value* serve = root_.Find("serve");
  const bool inherited = profile_path != "serve" && serve && serve->Find(field);
  const Value* profiles = root_.Find("serve_profiles");
  if (!inherited || !profiles || !profiles->AsList()) return own;
  const size_t bracket = profile_path.find('[');
  size_t index = 0;
  std::from_chars(profile_path.data() + bracket + 1, profile_path.data() + profile_path.size(), index);
  return (*profiles->AsList())[index].Find(field) ? own : "serve." + field;
}

void RuleChecker::CheckProfile(const ServeProfile& profile, size_t index) {
  const std::string path = manifest_.serve_profiles.empty() ? "serve" : PathOfItem("serve_profiles", index);
  const std::string where = fmt::format("serve profile {}", PythonQuote(profile.name));
  const ServeProfile merged = MergeProfile(manifest_.serve, profile);
  for (const std::string& field : RequiredServeFields(manifest_.kind)) {
    const bool present = field == "hardware"       ? merged.hardware.has_value()
                         : field == "mesh_device"  ? merged.mesh_device.has_value()
                         : field == "max_num_seqs" ? merged.max_num_seqs.has_value()
                                                   : merged.block_size.has_value();
    const bool engine = field == "max_num_seqs" || field == "block_size";
    Require(present, PathOfField(path, field),
            fmt::format("{}: {} is required, in the profile or in serve{}", where, field,
                        engine ? "; the Tenstorrent backend has no default for it" : ""));
  }
  CheckBoards(merged, where, path);
}

void RuleChecker::CheckBoards(const ServeProfile& merged, const std::string& where, const std::string& path) {
  Result<MeshShape> mesh = MeshShape{};
  if (merged.mesh_device) {
    mesh = ParseMeshDevice(*merged.mesh_device);
    Require(mesh.has_value(), PathOfField(path, "mesh_device"),
            mesh ? "" : fmt::format("{}: {}", where, mesh.error().message));
  }
  if (!merged.hardware) return;
  const auto chips = ChipsOfHardware(*merged.hardware);
  const std::string label = PythonQuote(*merged.hardware);
  const std::string sku =
      IsMeshPreset(*merged.hardware) ? fmt::format("; {} is a mesh_device SKU", label) : std::string();
  Require(chips.has_value(), PathOfField(path, "hardware"),
          fmt::format("{}: hardware {} is not a recognised board label, expected BOARD or BOARDxN with one of {}{}",
                      where, label, fmt::join(BoardNames(), ", "), sku));
  if (!mesh || !chips || !merged.mesh_device) return;
  const int64_t opened = mesh->rows * mesh->columns;
  Require(opened == *chips, PathOfField(path, "mesh_device"),
          fmt::format("{}: mesh_device {} opens {}x{}, {} chips, but hardware {} implies {}", where,
                      PythonQuote(*merged.mesh_device), mesh->rows, mesh->columns, opened, label, *chips));
}

}  // namespace

int LineOf(const Value& root, std::string_view path) {
  const Value* at = &root;
  int line = root.line;
  while (!path.empty()) {
    const Value* next = nullptr;
    if (path.front() == '[') {
      size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + path.size(), index);
      if (at->AsList() && index < at->AsList()->size()) next = &(*at->AsList())[index];
      path.remove_prefix(std::min(path.find(']'), path.size() - 1) + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const size_t end = std::min(path.find_first_of(".["), path.size());
      next = at->Find(path.substr(0, end));
      path.remove_prefix(end);
    }
    if (!next) break;
    at = next;
    if (at->line > 0) line = at->line;
  }
  return line;
}

void CheckManifestRules(const Manifest& manifest, const Value& root, ProblemList& problems) {
  RuleChecker(manifest, root, problems).Check();
}

}  // namespace sightline
