#include <fmt/format.h>
#include <fmt/ranges.h>

#include "package/build_scripts.h"
#include "package/kinds.h"

namespace sightline {
namespace {

constexpr char kUsage[] =
    R"usage(This image needs Tenstorrent devices, and there are none at /dev/tenstorrent. It is meant to be started by

    tt-model serve @REPO@

By hand, all of this is needed:

    docker run --rm \
      --device /dev/tenstorrent \
      --ipc host \
      --mount type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G \
      --volume "$HOME/.cache/huggingface:/hf" \
      --volume FOLDER:/cache \
      --user "$(id -u):$(id -g)" \
      --publish @PORT@:@PORT@ \
      IMAGE

The huge pages must be mounted at exactly that path. The weights are not in the image: they are read from the mounted
cache. A rootless daemon needs --user 0:0.
)usage";

// Not fmt: the text is full of the shell's own signs.
std::string UsageOf(const Manifest& manifest, int64_t port) {
  std::string text = kUsage;
  const auto replace = [&](std::string_view from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  };
  replace("@REPO@", manifest.repo);
  replace("@PORT@", std::to_string(port));
  return text;
}

}  // namespace

Result<std::string> ServeDefaultScript(const Manifest& manifest) {
  WireFacts facts;
  facts.runtime = manifest.runtime;
  const WireManifest wire = ToWire(manifest, std::move(facts));
  SIGHTLINE_ASSIGN_OR_RETURN(const ServeProfile profile, manifest.ResolveProfile());
  SIGHTLINE_ASSIGN_OR_RETURN(const auto command, ServeCommand(wire, profile));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto environment, ServeEnvironment(wire, profile));
  std::string script =
      "#!/bin/bash\n# Serves the default profile; any command given to `docker run` replaces this.\n"
      "set -euo pipefail\n\nif [ ! -e /dev/tenstorrent ]; then\n  cat >&2 <<'USAGE'\n";
  script += UsageOf(manifest, ServerPort(profile)) + "USAGE\n  exit 1\nfi\n\n";
  for (const auto& [name, value] : environment) script += fmt::format("export {}={}\n", name, ShellQuote(value));
  return script + "\nexec " + ShellJoin(command) + "\n";
}

Result<BuildFiles> GenerateBuildFiles(const Manifest& manifest, const BuildFacts& facts) {
  BuildFiles files;
  SIGHTLINE_ASSIGN_OR_RETURN(files.serve_default, ServeDefaultScript(manifest));
  files.install_engine = InstallEngineScript(manifest, facts);
  files.verify = VerifyScript(manifest, facts);
  files.dockerfile = DockerfileText();
  files.entrypoint = EntrypointText();
  return files;
}

std::vector<std::string> DockerBuildCommand(const Manifest& manifest, const BuildFacts& facts, const std::string& tag,
                                            const std::filesystem::path& metal, const std::filesystem::path& context) {
  const MetalProvenance& source = facts.metal;
  const std::string models = ExtraModelsFolder(manifest);
  const Value plugin = MapIn(manifest.runtime, "plugin");
  std::vector<std::string> names;
  for (const ServeProfile& profile : manifest.Profiles()) names.push_back(profile.name);
  std::vector<std::pair<std::string, std::string>> arguments = {
      {"BASE_IMAGE",
       fmt::format("ghcr.io/tenstorrent/tt-metal/tt-metalium/ubuntu-{}-dev-amd64:latest", manifest.source.ubuntu)},
      {"UBUNTU_VERSION", manifest.source.ubuntu},
      {"PYTHON_VERSION", manifest.source.python},
      {"METAL_MODE", source.mode},
      {"SCM_VERSION", source.scm_version},
      {"METAL_DESCRIBE", source.describe.value_or("v0.0.0")},
      {"EXTRA_MODELS_DIR", models},
      {"TT_VLLM_BUILTIN_MODELS", models.empty() ? "" : "0"},
      {"TT_MODEL_KIND", manifest.kind},
      {"MODEL_NAME", manifest.name},
      {"MODEL_REPO", manifest.repo},
      {"MODEL_WEIGHTS", manifest.weights.repo},
      {"MODEL_ARCH", manifest.arch},
      {"MODEL_PROFILES", fmt::format("{}", fmt::join(names, ","))},
      {"MODEL_TT_METAL_SHA", source.sha},
      {"MODEL_TT_METAL_DESCRIBE", source.describe.value_or("")},
      {"MODEL_PLUGIN_SHA", TextIn(plugin, "sha").value_or(TextIn(plugin, "version").value_or(""))},
  };
  if (source.mode == "git") {
    arguments.emplace_back("METAL_GIT_REPO", source.remote.value_or(""));
    arguments.emplace_back("METAL_GIT_REF", source.sha);
  }
  std::vector<std::string> words = {"docker", "build",           "--progress=plain",          "--tag",
                                    tag,      "--build-context", "metalsrc=" + metal.string()};
  for (const auto& [name, value] : arguments) {
    words.emplace_back("--build-arg");
    words.push_back(fmt::format("{}={}", name, value));
  }
  words.push_back(context.string());
  return words;
}

std::string ProvisionalTag(const Manifest& manifest, const MetalProvenance& metal) {
  return fmt::format("tt-model/{}:build-{}", manifest.name, metal.sha.empty() ? "dev" : metal.sha.substr(0, 9));
}

std::string FinalTag(std::string_view name, std::string_view image_id) {
  const size_t colon = image_id.find(':');
  if (colon != std::string_view::npos) image_id.remove_prefix(colon + 1);
  return fmt::format("tt-model/{}:{}", name, image_id.substr(0, 12));
}

}  // namespace sightline
