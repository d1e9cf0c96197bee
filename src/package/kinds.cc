#include "package/kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "package/python_text.h"

namespace sightline {
namespace {

const std::vector<KindDescription>& Table() {
  static const std::vector<KindDescription> kTable = {
      {Kind::kHttpServer,
       "http-server",
       false,
       {"command", "ready_line", "packages", "lock"},
       "",
       "its own HTTP server"},
      {Kind::kTtDitServer,
       "tt-dit-server",
       false,
       {"app", "packages", "lock", "mesh_shape_env"},
       "",
       "the model's own HTTP app"},
      {Kind::kVllmFork,
       "vllm-fork",
       true,
       {"vllm", "extension", "lock", "model_dir"},
       "text-generation",
       "an OpenAI-compatible server"},
      {Kind::kVllmPlugin,
       "vllm-plugin",
       true,
       {"vllm", "plugin", "extension", "extra_models_dir", "lock", "overrides", "wheels"},
       "text-generation",
       "an OpenAI-compatible server"},
  };
  return kTable;
}

// Checks one runtime block, writing problems under "runtime.KEY".
class RuntimeChecker {
 public:
  RuntimeChecker(const Manifest& manifest, ProblemList& problems)
      : manifest_(manifest), runtime_(manifest.runtime), problems_(problems) {}

  void Check(const KindDescription& kind) {
    switch (kind.kind) {
      case Kind::kVllmPlugin:
        CheckPlugin();
        break;
      case Kind::kVllmFork:
        CheckFork();
        break;
      case Kind::kTtDitServer:
        CheckKeys(kind);
        CheckDit();
        break;
      case Kind::kHttpServer:
        CheckKeys(kind);
        CheckHttp();
        break;
    }
    if (kind.kind == Kind::kVllmPlugin || kind.kind == Kind::kVllmFork) CheckKeys(kind);
    CheckSharedTypes();
  }

 private:
  void Complain(std::string_view key, std::string message) {
    const Value* at = runtime_.Find(key);
    problems_.Add(key.empty() ? "runtime" : fmt::format("runtime.{}", key), at ? at->line : runtime_.line,
                  std::move(message));
  }
  void CheckKeys(const KindDescription& kind) {
    for (const auto& [key, value] : *runtime_.AsMap()) {
      if (std::find(kind.runtime_keys.begin(), kind.runtime_keys.end(), key) != kind.runtime_keys.end()) continue;
      Complain(key, fmt::format("runtime.{} is not valid for kind {}, expected one of {}", key, kind.name,
                                fmt::join(kind.runtime_keys, ", ")));
    }
  }
  // The member as a map; an empty one where it is absent or, after a problem, something else.
  Value MapIn(std::string_view key) {
    const Value* found = runtime_.Find(key);
    if (found && found->AsMap()) return *found;
    if (found && !found->IsNull()) {
      Complain(key, fmt::format("runtime.{} is expected to be a map, got {}", key, NameOfType(*found)));
    }
    return Value{Value::Map{}};
  }
  // Every scalar of the map must be text: it reaches a shell line.
  void CheckTexts(std::string_view key, const Value& map) {
    for (const auto& [name, value] : *map.AsMap()) {
      if (value.AsText() || value.IsNull()) continue;
      Complain(key, fmt::format("runtime.{}.{} is expected to be text, got {}; put it in quotes", key, name,
                                NameOfType(value)));
    }
  }
  // A path of the tt-metal tree must be shipped by source.code.
  void CheckCovered(std::string_view key) {
    const auto path = TextIn(runtime_, key);
    if (!path) return;
    for (std::string entry : manifest_.source.code) {
      while (entry.ends_with('/')) entry.pop_back();
      if (*path == entry || path->starts_with(entry + "/")) return;
    }
    Complain(key, fmt::format("runtime.{} {} is not covered by source.code, so it would not be in the image", key,
                              PythonQuote(*path)));
  }
  void CheckPlugin();
  void CheckVllmOfPlugin();
  void CheckFork();
  void CheckDit();
  void CheckHttp();
  void CheckSharedTypes();

  const Manifest& manifest_;
  const Value& runtime_;
  ProblemList& problems_;
};

std::vector<std::string> Given(const Value& map, const std::vector<std::string>& keys) {
  std::vector<std::string> given;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(given),
               [&](const std::string& key) { return TextIn(map, key).has_value(); });
  return given;
}

void RuntimeChecker::CheckVllmOfPlugin() {
  const Value vllm = MapIn("vllm");
  CheckTexts("vllm", vllm);
  if (TextIn(vllm, "repo")) {
    return Complain("vllm",
                    "runtime.vllm.repo names a fork of vLLM, which is kind vllm-fork; kind vllm-plugin takes "
                    "runtime.vllm.version, .wheel or .path");
  }
  const auto given = Given(vllm, {"version", "wheel", "path"});
  if (given.size() == 1) return;
  Complain("vllm", fmt::format("kind vllm-plugin requires runtime.vllm with exactly one of version, wheel and path, "
                               "got {}",
                               given.empty() ? "none" : fmt::format("{}", fmt::join(given, " and "))));
}

void RuntimeChecker::CheckPlugin() {
  CheckVllmOfPlugin();
  const Value plugin = MapIn("plugin");
  CheckTexts("plugin", plugin);
  std::vector<std::string> given = Given(plugin, {"path", "version"});
  if (TextIn(plugin, "repo") && TextIn(plugin, "ref")) given.push_back("{repo, ref}");
  if (given.size() != 1) {
    Complain("plugin", fmt::format("kind vllm-plugin requires runtime.plugin with exactly one of path, {{repo, ref}} "
                                   "and version, got {}",
                                   given.empty() ? "none" : fmt::format("{}", fmt::join(given, " and "))));
  }
  CheckCovered("extra_models_dir");
}

void RuntimeChecker::CheckFork() {
  const Value vllm = MapIn("vllm");
  CheckTexts("vllm", vllm);
  if (TextIn(vllm, "version") && !TextIn(vllm, "repo")) {
    Complain("vllm",
             "runtime.vllm.version names a released vLLM, which is kind vllm-plugin; kind vllm-fork takes "
             "runtime.vllm.{repo, ref}");
  } else if (!TextIn(vllm, "repo") || !TextIn(vllm, "ref")) {
    Complain("vllm", "kind vllm-fork requires runtime.vllm.{repo, ref}");
  }
  if (const Value* plugin = runtime_.Find("plugin"); plugin && !plugin->IsNull()) {
    Complain("plugin", "kind vllm-fork takes no runtime.plugin, because the fork holds its own");
  }
  if (!TextIn(runtime_, "model_dir")) {
    Complain("model_dir", "kind vllm-fork requires runtime.model_dir, the model's folder in the tt-metal tree");
  }
  CheckCovered("model_dir");
}

void RuntimeChecker::CheckDit() {
  const auto app = TextIn(runtime_, "app");
  if (!app || app->find(':') == std::string::npos) {
    Complain("app", "kind tt-dit-server requires runtime.app as \"module.path:attribute\"");
  } else {
    const std::string top = app->substr(0, app->find_first_of(".:"));
    const auto paths = ShippedPaths(manifest_.source);
    const bool ships = std::any_of(paths.begin(), paths.end(),
                                   [&](const std::string& path) { return path.substr(0, path.find('/')) == top; });
    if (!ships) {
      Complain("app", fmt::format("runtime.app {} lies under {}, which no allowlist entry of source.code or "
                                  "source.extra_code ships",
                                  PythonQuote(*app), PythonQuote(top)));
    }
  }
  const Value* variable = runtime_.Find("mesh_shape_env");
  if (!variable || variable->IsNull()) return;
  if (variable->AsText() && IsVariableName(*variable->AsText())) return;
  Complain("mesh_shape_env",
           "runtime.mesh_shape_env is not a valid environment variable name, expected letters, digits "
           "and _ and no digit first");
}

void RuntimeChecker::CheckHttp() {
  const Value* command = runtime_.Find("command");
  const auto* words = command ? command->AsList() : nullptr;
  if (!words || words->empty()) {
    Complain("command",
             "kind http-server requires runtime.command, a list of the words that start the server, with "
             "{host} and {port} where these belong");
  }
  if (!TextIn(runtime_, "ready_line")) {
    Complain("ready_line", "kind http-server requires runtime.ready_line, the text of the log that says it is ready");
  }
}

// Lists of text and names that several kinds have.
void RuntimeChecker::CheckSharedTypes() {
  for (const std::string_view key : {"command", "packages", "overrides", "wheels"}) {
    const Value* list = runtime_.Find(key);
    if (list && !list->IsNull()) ReadTexts(*list, fmt::format("runtime.{}", key), problems_);
  }
  for (const std::string_view key : {"lock", "extension", "extra_models_dir", "model_dir"}) {
    const Value* text = runtime_.Find(key);
    if (!text || text->IsNull()) continue;
    if (!text->AsText()) {
      Complain(key, fmt::format("runtime.{} is expected to be text, got {}", key, NameOfType(*text)));
    } else if (key != "lock" && EscapesRoot(*text->AsText())) {
      Complain(key, fmt::format("runtime.{} is expected to be a relative path without .., got {}", key,
                                PythonQuote(*text->AsText())));
    }
  }
}

}  // namespace

const KindDescription* FindKind(std::string_view name) {
  const auto found =
      std::find_if(Table().begin(), Table().end(), [&](const KindDescription& row) { return row.name == name; });
  return found == Table().end() ? nullptr : &*found;
}

std::vector<std::string> KnownKinds() {
  std::vector<std::string> names;
  for (const KindDescription& row : Table()) names.emplace_back(row.name);
  return names;
}

bool SpeaksOpenAi(std::string_view kind) {
  const KindDescription* known = FindKind(kind);
  return known && (known->kind == Kind::kVllmPlugin || known->kind == Kind::kVllmFork);
}

std::vector<std::string> RequiredServeFields(std::string_view kind) {
  const KindDescription* known = FindKind(kind);
  if (known && !known->needs_engine_settings) return {"hardware", "mesh_device"};
  return {"hardware", "mesh_device", "max_num_seqs", "block_size"};
}

void CheckRuntime(const Manifest& manifest, ProblemList& problems) {
  const KindDescription* kind = FindKind(manifest.kind);
  SIGHTLINE_CHECK(kind != nullptr);
  RuntimeChecker(manifest, problems).Check(*kind);
}

std::vector<std::string> ShippedPaths(const ManifestSource& source) {
  std::vector<std::string> paths = source.code;
  for (const ExtraCode& extra : source.extra_code) paths.insert(paths.end(), extra.paths.begin(), extra.paths.end());
  return paths;
}

bool EscapesRoot(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return true;
  for (size_t at = 0; at <= path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    if (path.substr(at, slash - at) == "..") return true;
    at = slash + 1;
  }
  return false;
}

std::string MeshShapeVariable(const Value& runtime) {
  return TextIn(runtime, "mesh_shape_env").value_or("FLUX2_MESH_SHAPE");
}

}  // namespace sightline
