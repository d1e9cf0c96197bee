#include <fmt/format.h>

#include "package/hardware.h"
#include "package/kinds.h"
#include "package/package.h"
#include "package/python_text.h"

namespace sightline {
namespace {

constexpr char kStartupComplete[] = "Application startup complete";
// Inside a container, where nothing else listens: what a profile without a port binds.
constexpr int64_t kPortInside = 8000;
constexpr char kEveryAddress[] = "0.0.0.0";

using Words = std::vector<std::string>;

void Append(Words& words, std::initializer_list<std::string> more) { words.insert(words.end(), more); }
void Append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }
void AppendOption(Words& words, const char* option, const std::optional<int64_t>& value) {
  if (value) Append(words, {option, std::to_string(*value)});
}

std::string PortOf(const ServeProfile& profile) { return std::to_string(ServerPort(profile)); }

Words CapabilityFlags(const ServeProfile& profile) {
  Words words;
  if (!profile.capabilities) return words;
  const std::string tool = profile.capabilities->tool_parser.value_or("");
  const std::string reasoning = profile.capabilities->reasoning_parser.value_or("");
  if (!tool.empty()) Append(words, {"--enable-auto-tool-choice", "--tool-call-parser", tool});
  if (!reasoning.empty()) Append(words, {"--reasoning_parser", reasoning});  // vLLM knows it with an underscore
  return words;
}

Result<std::string> WeightsOf(const WireManifest& manifest) {
  if (manifest.weights) return manifest.weights->repo;
  return Fail(Code::kInvalidRequest, fmt::format("package {} names no weights, expected a repository", manifest.name));
}

Status RequireEngineSettings(const ServeProfile& profile) {
  const char* missing = !profile.max_num_seqs ? "max_num_seqs" : !profile.block_size ? "block_size" : nullptr;
  if (!missing) return {};
  return Fail(Code::kInvalidRequest,
              fmt::format("serve profile {} sets no {}, which its kind needs", PythonQuote(profile.name), missing));
}

Result<Words> PluginCommand(const WireManifest& manifest, const ServeProfile& profile) {
  SIGHTLINE_RETURN_IF_ERROR(RequireEngineSettings(profile));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string weights, WeightsOf(manifest));
  Words words = {"vllm", "serve", weights};
  AppendOption(words, "--max-model-len", profile.max_model_len);
  AppendOption(words, "--max-num-seqs", profile.max_num_seqs);
  AppendOption(words, "--block-size", profile.block_size);
  if (!profile.additional_config.AsMap()->empty()) {
    Append(words, {"--additional-config", ToJson(profile.additional_config, -1)});
  }
  Append(words, CapabilityFlags(profile));
  Append(words, FlatArgs(profile));
  Append(words, {"--port", PortOf(profile)});
  return words;
}

bool IsTrue(const Value* value) {
  if (!value || value->IsNull()) return false;
  if (value->AsMap()) return !value->AsMap()->empty();
  return true;
}

Result<Words> ForkCommand(const WireManifest& manifest, const ServeProfile& profile) {
  SIGHTLINE_RETURN_IF_ERROR(RequireEngineSettings(profile));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string weights, WeightsOf(manifest));
  SIGHTLINE_ASSIGN_OR_RETURN(const MeshShape mesh, ParseMeshDevice(profile.mesh_device.value_or("")));
  const auto folder = TextIn(manifest.container->runtime, "model_dir");
  if (!folder)
    return Fail(Code::kInvalidRequest, "kind vllm-fork requires runtime.model_dir, and the package has none");
  Words words = {"python",
                 "-m",
                 "models.common.readiness_check.run_vllm_server",
                 "--stages",
                 "serve",
                 "--model-dir",
                 *folder,
                 "--hf-model",
                 weights,
                 "--mesh-device",
                 fmt::format("({}, {})", mesh.rows, mesh.columns)};
  AppendOption(words, "--max-num-seqs", profile.max_num_seqs);
  AppendOption(words, "--max-model-len", profile.max_model_len);
  AppendOption(words, "--block-size", profile.block_size);
  AppendOption(words, "--server-timeout", profile.server_timeout);
  Append(words, {"--port", PortOf(profile)});
  const Value* config = profile.additional_config.Find("tt");
  if (IsTrue(config)) Append(words, {"--tt-config", ToJson(*config, -1)});
  Words more = FlatArgs(profile);
  Append(more, CapabilityFlags(profile));
  if (!more.empty()) Append(words, {"--additional-server-args", ShellJoin(more)});
  return words;
}

Result<Words> DitCommand(const WireManifest& manifest, const ServeProfile& profile) {
  const auto app = TextIn(manifest.container->runtime, "app");
  if (!app) return Fail(Code::kInvalidRequest, "kind tt-dit-server requires runtime.app, and the package has none");
  Words words = {"python", "-m", "uvicorn", "--host", kEveryAddress, "--port", PortOf(profile), "--lifespan", "on"};
  Append(words, FlatArgs(profile));
  words.push_back(*app);
  return words;
}

void Replace(std::string& word, std::string_view from, std::string_view to) {
  for (size_t at = word.find(from); at != std::string::npos; at = word.find(from, at + to.size())) {
    word.replace(at, from.size(), to);
  }
}

Result<Words> HttpCommand(const WireManifest& manifest, const ServeProfile& profile) {
  const Value* command = manifest.container->runtime.Find("command");
  if (!command || !command->AsList() || command->AsList()->empty()) {
    return Fail(Code::kInvalidRequest, "kind http-server requires runtime.command, and the package has none");
  }
  Words words;
  for (const Value& item : *command->AsList()) {
    if (!item.AsText()) return Fail(Code::kInvalidRequest, "runtime.command is expected to be a list of text");
    std::string word = *item.AsText();
    Replace(word, "{host}", kEveryAddress);
    Replace(word, "{port}", PortOf(profile));
    words.push_back(std::move(word));
  }
  Append(words, FlatArgs(profile));
  return words;
}

Result<const KindDescription*> KindOf(const WireManifest& manifest) {
  SIGHTLINE_ASSIGN_OR_RETURN(const WireContainer* container, manifest.RequireContainer());
  if (const KindDescription* kind = FindKind(container->kind)) return kind;
  return Fail(Code::kUnsupported, fmt::format("kind {} is not supported, expected one of {}",
                                              PythonQuote(container->kind), PythonList(KnownKinds())));
}

}  // namespace

int64_t ServerPort(const ServeProfile& profile) { return profile.port.value_or(0) == 0 ? kPortInside : *profile.port; }

Result<std::vector<std::string>> ServeCommand(const WireManifest& manifest, const ServeProfile& profile) {
  SIGHTLINE_ASSIGN_OR_RETURN(const KindDescription* kind, KindOf(manifest));
  switch (kind->kind) {
    case Kind::kVllmPlugin:
      return PluginCommand(manifest, profile);
    case Kind::kVllmFork:
      return ForkCommand(manifest, profile);
    case Kind::kTtDitServer:
      return DitCommand(manifest, profile);
    case Kind::kHttpServer:
      return HttpCommand(manifest, profile);
  }
  return Fail(Code::kInternal, "a kind has no command");
}

Result<std::map<std::string, std::string>> ServeEnvironment(const WireManifest& manifest, const ServeProfile& profile) {
  SIGHTLINE_ASSIGN_OR_RETURN(const KindDescription* kind, KindOf(manifest));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string weights, WeightsOf(manifest));
  std::map<std::string, std::string> environment = {{"HF_MODEL", weights}};
  const std::string mesh_device = profile.mesh_device.value_or("");
  if (kind->kind == Kind::kVllmFork) {
    environment["PYTHONUNBUFFERED"] = "1";  // else its landmark stays in a buffer
  } else if (kind->kind == Kind::kVllmPlugin || !mesh_device.empty()) {
    environment["MESH_DEVICE"] = mesh_device;
  }
  if (kind->kind == Kind::kTtDitServer && !mesh_device.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const MeshShape mesh, ParseMeshDevice(mesh_device));
    environment[MeshShapeVariable(manifest.container->runtime)] = fmt::format("{}x{}", mesh.rows, mesh.columns);
  }
  for (const auto& [name, value] : profile.env) environment[name] = value;
  return environment;
}

Result<std::vector<std::string>> ReadyLandmarks(const WireContainer& container) {
  const KindDescription* kind = FindKind(container.kind);
  if (!kind) return Fail(Code::kUnsupported, fmt::format("kind {} is not supported", PythonQuote(container.kind)));
  switch (kind->kind) {
    // The first is what today's runner prints, the second what older ones did.
    case Kind::kVllmFork:
      return Words{"Server ready after", "Server ready at"};
    case Kind::kHttpServer:
      if (const auto line = TextIn(container.runtime, "ready_line")) return Words{*line};
      return Fail(Code::kInvalidRequest, "kind http-server requires runtime.ready_line, and the package has none");
    default:
      return Words{kStartupComplete};
  }
}

std::string ContainerName(std::string_view name, std::string_view profile) {
  return fmt::format("tt-model-{}-{}", name, profile);
}

}  // namespace sightline
