#include "package/build_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "package/kinds.h"
#include "package/python_text.h"

namespace sightline {
namespace {

constexpr char kHeader[] = "#!/bin/bash\nset -euxo pipefail\n";
constexpr char kInstall[] = "uv pip install --python \"$VENV/bin/python\"";
// Torch for the CPU: the published wheels of everything else ask for gigabytes of CUDA.
constexpr char kIndexes[] = "--torch-backend cpu --index-strategy unsafe-best-match";
constexpr char kEmptyTarget[] = "VLLM_TARGET_DEVICE=empty ";
constexpr char kLock[] = "-r /ctx/requirements.lock";
constexpr char kForkFolder[] = "/opt/vllm";
constexpr char kVllmWheel[] = "/ctx/wheels/vllm-*.whl";
constexpr char kVllmFolder[] = "/ctx/vllm-src";

using Lines = std::vector<std::string>;

std::string Script(const Lines& lines) { return fmt::format("{}{}\n", kHeader, fmt::join(lines, "\n")); }

std::string Text(const Value& map, std::string_view key) { return TextIn(map, key).value_or(""); }

// The commit where it is known, else the reference as written.
std::string Commit(const Value& git) { return TextIn(git, "sha").value_or(Text(git, "ref")); }

std::string CloneAt(const Value& git, std::string_view folder) {
  const std::string repo = Text(git, "repo"), published = WithoutCredentials(repo);
  std::string line = fmt::format("git clone {} {} && git -C {} checkout {}", ShellQuote(repo), folder, folder,
                                 ShellQuote(Commit(git)));
  // The image keeps the clone.
  if (published != repo) line += fmt::format(" && git -C {} remote set-url origin {}", folder, ShellQuote(published));
  return line;
}

// vLLM itself, where a lock has installed all that it depends on.
std::string LockedVllm(const Value& vllm) {
  if (TextIn(vllm, "wheel")) return fmt::format("{} --no-deps {}", kInstall, kVllmWheel);
  if (TextIn(vllm, "path")) return fmt::format("{}{} --no-deps {}", kEmptyTarget, kInstall, kVllmFolder);
  return fmt::format("{}{} --no-deps --no-binary vllm vllm=={}", kEmptyTarget, kInstall,
                     ShellQuote(Text(vllm, "version")));
}

void AddReleasedVllm(const Value& runtime, const std::string& version, Lines& lines) {
  // ttnn needs numpy below 2; this is the last OpenCV that agrees.
  std::vector<std::string> overrides = {"numpy>=1.24.4,<2", "opencv-python-headless==4.11.0.86"};
  for (const std::string& more : TextsIn(runtime, "overrides")) overrides.push_back(more);
  lines.push_back(fmt::format("printf '%s\\n' {} > /tmp/overrides.txt", ShellJoin(overrides)));
  lines.push_back(fmt::format("{}{} --no-binary vllm vllm=={} --override /tmp/overrides.txt {}", kEmptyTarget, kInstall,
                              ShellQuote(version), kIndexes));
}

void AddPlugin(const Value& plugin, Lines& lines) {
  if (const auto version = TextIn(plugin, "version")) {
    lines.push_back(fmt::format("{} vllm-tt-plugin=={}", kInstall, ShellQuote(*version)));
  } else if (TextIn(plugin, "path")) {
    lines.push_back(fmt::format("{} /ctx/plugin-src", kInstall));
  } else {
    lines.push_back(fmt::format("{} && {} /tmp/vllm-tt-plugin && rm -rf /tmp/vllm-tt-plugin",
                                CloneAt(plugin, "/tmp/vllm-tt-plugin"), kInstall));
  }
}

void AddExtension(const Value& runtime, Lines& lines) {
  const auto extension = TextIn(runtime, "extension");
  if (extension) lines.push_back(fmt::format("{} {}", kInstall, ShellQuote("/opt/tt-metal/" + *extension)));
}

Lines InstallPlugin(const Value& runtime) {
  Lines lines;
  const Value vllm = MapIn(runtime, "vllm");
  if (TextIn(runtime, "lock")) {
    lines.push_back(fmt::format("{} {} {}", kInstall, kLock, kIndexes));
    lines.push_back(LockedVllm(vllm));
  } else if (TextIn(vllm, "wheel")) {
    lines.push_back(fmt::format("{} {} {}", kInstall, kVllmWheel, kIndexes));
  } else if (TextIn(vllm, "path")) {
    lines.push_back(fmt::format("{}{} {} {}", kEmptyTarget, kInstall, kVllmFolder, kIndexes));
  } else {
    AddReleasedVllm(runtime, Text(vllm, "version"), lines);
  }
  // transformers imports torchaudio wherever it is installed, and this one cannot be loaded.
  lines.emplace_back("uv pip uninstall --python \"$VENV/bin/python\" torchaudio || true");
  AddPlugin(MapIn(runtime, "plugin"), lines);
  AddExtension(runtime, lines);
  if (!TextsIn(runtime, "wheels").empty()) lines.push_back(fmt::format("{} /ctx/wheels/*.whl", kInstall));
  return lines;
}

Lines InstallFork(const Value& runtime) {
  Lines lines = {CloneAt(MapIn(runtime, "vllm"), kForkFolder)};
  const bool locked = TextIn(runtime, "lock").has_value();
  if (locked) lines.push_back(fmt::format("{} {} {}", kInstall, kLock, kIndexes));
  lines.push_back(
      fmt::format("{}{} {}-e {} {}", kEmptyTarget, kInstall, locked ? "--no-deps " : "", kForkFolder, kIndexes));
  lines.push_back(fmt::format("{} -e {}/plugins/vllm-tt-plugin", kInstall, kForkFolder));
  lines.push_back(fmt::format("rm -rf {}/.git", kForkFolder));
  AddExtension(runtime, lines);
  return lines;
}

bool IsTorch(const std::string& package) {
  const auto continues = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return package.starts_with("torch") && (package.size() == 5 || !continues(package[5]));
}

// The HTTP stack of a server that is no engine. Nothing in it depends on torch, which ttnn needs.
Lines InstallPackages(const Value& runtime, std::vector<std::string> packages, const BuildFacts& facts) {
  if (TextIn(runtime, "lock")) return {fmt::format("{} {} {}", kInstall, kLock, kIndexes)};
  if (std::none_of(packages.begin(), packages.end(), IsTorch)) {
    packages.insert(packages.begin(), facts.torch_pin ? "torch==" + *facts.torch_pin : "torch");
  }
  return {fmt::format("{} {} {}", kInstall, ShellJoin(packages), kIndexes)};
}

std::vector<std::string> DitPackages(const Value& runtime) {
  std::vector<std::string> packages = TextsIn(runtime, "packages");
  if (packages.empty()) packages = {"fastapi", "uvicorn", "pydantic>=2", "pillow"};
  return packages;
}

std::string PythonLine(const std::string& program) {
  return fmt::format("\"$VENV/bin/python\" -c {}", ShellQuote(program));
}

// One Python statement a line.
std::string TorchChecks(const BuildFacts& facts) {
  std::string program = "import torch\nassert torch.__version__.endswith('+cpu'), torch.__version__\n";
  if (facts.torch_pin) {
    program += fmt::format(
        "pin = {}\nassert torch.__version__.split('+')[0] == pin, "
        "f'torch is {{torch.__version__}}, but tt-metal was built against {{pin}}'\n",
        PythonQuote(*facts.torch_pin));
  }
  return program;
}

std::string AppChecks(const std::string& app) {
  const size_t colon = app.find(':');
  return fmt::format(
      "import importlib\nmodule = importlib.import_module({})\nassert hasattr(module, {}), 'the app is not there'\n",
      PythonQuote(app.substr(0, colon)), PythonQuote(app.substr(std::min(colon, app.size() - 1) + 1)));
}

// Finds every model that the plugin will find, and resolves its class as vLLM will.
constexpr char kResolveModels[] = R"python(import importlib, json, os, sys
root = os.environ['EXTRA_MODELS_DIR']
count = 0
for entry in sorted(os.listdir(root)):
    folder = os.path.join(root, entry)
    path = os.path.join(folder, 'vllm_metadata.json')
    if not os.path.exists(path):
        continue
    with open(path) as file:
        name = json.load(file)['main_class']
    sys.path.append(folder)
    module, _, attribute = name.replace(':', '.').rpartition('.')
    assert getattr(importlib.import_module(module), attribute) is not None, name
    count += 1
assert count, f'{root} holds no model'
)python";

Lines VerifyKind(const Manifest& manifest, const BuildFacts& facts) {
  const KindDescription* kind = FindKind(manifest.kind);
  std::string program = "import ttnn\n" + TorchChecks(facts);
  switch (kind ? kind->kind : Kind::kHttpServer) {
    case Kind::kVllmPlugin:
      program += "import vllm, vllm_tt_plugin\nassert '/tt-metal/' not in vllm.__file__, vllm.__file__\n";
      break;
    case Kind::kVllmFork:
      program += fmt::format(
          "import vllm, vllm_tt_plugin\nassert vllm.__file__.startswith({}), vllm.__file__\n"
          "import models.common.readiness_check.run_vllm_server\n",
          PythonQuote(kForkFolder));
      break;
    case Kind::kTtDitServer:
      program += "import fastapi, uvicorn, pydantic\n" + AppChecks(Text(manifest.runtime, "app"));
      break;
    case Kind::kHttpServer:
      break;
  }
  Lines lines = {PythonLine(program)};
  if (!ExtraModelsFolder(manifest).empty()) lines.push_back(PythonLine(kResolveModels));
  return lines;
}

}  // namespace

std::string InstallEngineScript(const Manifest& manifest, const BuildFacts& facts) {
  const Value& runtime = manifest.runtime;
  const KindDescription* kind = FindKind(manifest.kind);
  switch (kind ? kind->kind : Kind::kHttpServer) {
    case Kind::kVllmPlugin:
      return Script(InstallPlugin(runtime));
    case Kind::kVllmFork:
      return Script(InstallFork(runtime));
    case Kind::kTtDitServer:
      return Script(InstallPackages(runtime, DitPackages(runtime), facts));
    case Kind::kHttpServer:
      return Script(InstallPackages(runtime, TextsIn(runtime, "packages"), facts));
  }
  return Script({});
}

std::string VerifyScript(const Manifest& manifest, const BuildFacts& facts) {
  Lines lines = VerifyKind(manifest, facts);
  for (const std::string& program : manifest.verify) lines.push_back(PythonLine(program));
  return Script(lines);
}

std::string ExtraModelsFolder(const Manifest& manifest) {
  if (const auto folder = TextIn(manifest.runtime, "extra_models_dir")) return "/opt/tt-metal/" + *folder;
  if (const auto extension = TextIn(manifest.runtime, "extension")) {
    return fmt::format("/opt/tt-metal/{}/extra_models", *extension);
  }
  return {};
}

std::optional<std::string> TorchPin(const std::filesystem::path& tt_metal) {
  std::ifstream file(tt_metal / "tt_metal/python_env/requirements-dev.txt");
  constexpr std::string_view kPin = "torch==";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kPin)) continue;
    const size_t end = line.find_first_of(" \t;#\r", kPin.size());
    const std::string rest = end == std::string::npos ? "" : line.substr(end);
    const bool for_other_machine =
        rest.find("platform_machine") != std::string::npos && rest.find("'x86_64'") == std::string::npos;
    std::string version = line.substr(kPin.size(), end - kPin.size());
    if (!version.empty() && !for_other_machine) return version;
  }
  return std::nullopt;
}

}  // namespace sightline
