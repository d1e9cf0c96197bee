// Files and command of an image's build.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "package/package.h"
#include "tests/support/manifest_text.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

BuildFiles Files(std::string_view text, const BuildFacts& facts = {}) {
  auto files = GenerateBuildFiles(ParsedManifest(text), facts);
  EXPECT_TRUE(files.has_value()) << (files ? "" : files.error().message);
  return files.value_or(BuildFiles{});
}

constexpr char kHeader[] = "#!/bin/bash\nset -euxo pipefail\n";
constexpr char kPip[] = "uv pip install --python \"$VENV/bin/python\" ";

TEST(PackageBuild, EveryScriptIsValidShell) {
  const TemporaryFolder folder;
  const std::string nasty = "verify: [\"assert 'a' != \\\"b\\\"\\nprint('$(x) `y` \\\\\\\\')\"]\n";
  for (const std::string_view text : {kPluginManifest, kForkManifest, kDitManifest, kHttpManifest}) {
    const BuildFiles files = Files(std::string(text) + nasty);
    for (const std::string& script : {files.install_engine, files.verify, files.serve_default, files.entrypoint}) {
      const auto path = folder.path() / "script.sh";
      std::ofstream(path) << script;
      EXPECT_EQ(std::system(("bash -n '" + path.string() + "'").c_str()), 0) << script;
    }
  }
}

TEST(PackageBuild, PluginFromItsSources) {
  const std::string released = Files(kPluginManifest).install_engine;
  EXPECT_TRUE(released.starts_with(kHeader));
  EXPECT_THAT(released, HasSubstr("printf '%s\\n' 'numpy>=1.24.4,<2' opencv-python-headless==4.11.0.86 >"));
  EXPECT_THAT(released,
              HasSubstr("VLLM_TARGET_DEVICE=empty " + std::string(kPip) + "--no-binary vllm vllm==0.24.0 --override"));
  EXPECT_THAT(released, HasSubstr(std::string(kPip) + "/ctx/plugin-src\n"));
  EXPECT_LT(released.find("torchaudio"), released.find("plugin-src"));
  const std::string locked =
      Files(With(kPluginManifest, "runtime:", "runtime:\n  lock: requirements.lock")).install_engine;
  EXPECT_THAT(locked, HasSubstr("-r /ctx/requirements.lock"));
  EXPECT_THAT(locked, HasSubstr("--no-deps --no-binary vllm vllm==0.24.0\n"));
  const std::pair<const char*, const char*> others[] = {{"{wheel: dist/vllm-1.whl}", "/ctx/wheels/vllm-*.whl"},
                                                        {"{path: vllm}", "/ctx/vllm-src"}};
  for (const auto& [vllm, installed] : others) {
    const std::string manifest = With(kPluginManifest, "{version: \"0.24.0\"}", vllm);
    EXPECT_THAT(Files(manifest).install_engine, HasSubstr(std::string(kPip) + installed + " --torch-backend"));
    EXPECT_THAT(
        Files(With(manifest, "runtime:", "runtime:\n  lock: a.lock")).install_engine,
        AllOf(HasSubstr("-r /ctx/requirements.lock"), HasSubstr(std::string(kPip) + "--no-deps " + installed + "\n")));
  }
  EXPECT_THAT(
      Files(With(kPluginManifest, "{path: vllm-tt-plugin}", "{repo: \"https://a/b\", ref: \"x y\"}")).install_engine,
      HasSubstr("git clone https://a/b /tmp/vllm-tt-plugin && git -C /tmp/vllm-tt-plugin checkout 'x y'"));
}

TEST(PackageBuild, Case63ValuesOfAuthorsAreQuoted) {
  EXPECT_THAT(Files(With(kPluginManifest, "0.24.0", "0.24.0; touch /nowhere/pwned")).install_engine,
              HasSubstr("vllm=='0.24.0; touch /nowhere/pwned'"));
  EXPECT_THAT(Files(With(kPluginManifest, "  port: 8000", "  env: {X: \"$(touch /nowhere/x)\"}")).serve_default,
              HasSubstr("export X='$(touch /nowhere/x)'\n"));
}

TEST(PackageBuild, ForkStaysInTheImage) {
  const std::string script = Files(kForkManifest).install_engine;
  EXPECT_THAT(script, HasSubstr("git clone https://example.org/vllm /opt/vllm"));
  EXPECT_THAT(script, HasSubstr("-e /opt/vllm/plugins/vllm-tt-plugin"));
  EXPECT_THAT(script, HasSubstr("rm -rf /opt/vllm/.git"));
}

TEST(PackageBuild, DitGetsItsHttpStackAndTorch) {
  BuildFacts facts;
  EXPECT_THAT(Files(kDitManifest).install_engine, HasSubstr("torch fastapi uvicorn 'pydantic>=2' pillow"));
  facts.torch_pin = "2.11.0";
  EXPECT_THAT(Files(kDitManifest, facts).install_engine, HasSubstr("torch==2.11.0 fastapi"));
  EXPECT_THAT(Files(kDitManifest, facts).verify, HasSubstr("2.11.0"));
  const auto with = [](const char* packages) {
    return With(kDitManifest, "runtime:", std::string("runtime:\n  ") + packages);
  };
  EXPECT_THAT(Files(with("packages: [aiohttp, torchvision]"), facts).install_engine,
              HasSubstr("torch==2.11.0 aiohttp torchvision"));
  EXPECT_THAT(Files(with("packages: [\"torch==1\"]"), facts).install_engine, Not(HasSubstr("2.11.0")));
  EXPECT_EQ(Files(with("lock: a.lock")).install_engine,
            kHeader + std::string(kPip) +
                "-r /ctx/requirements.lock --torch-backend cpu --index-strategy unsafe-best-match\n");
}

TEST(PackageBuild, VerifyRunsWhatTheAuthorAsserts) {
  const std::string script =
      Files(std::string(kDitManifest) + "verify:\n  - \"assert 1\"\n  - \"print('x')\"\n").verify;
  EXPECT_THAT(script, HasSubstr("importlib.import_module('\"'\"'pkg.server.app'\"'\"')"));
  EXPECT_THAT(script,
              HasSubstr("\"$VENV/bin/python\" -c 'assert 1'\n\"$VENV/bin/python\" -c 'print('\"'\"'x'\"'\"')'\n"));
}

TEST(PackageBuild, ServeDefaultRefusesWithoutDevices) {
  const std::string script = Files(kDitManifest).serve_default;
  EXPECT_THAT(script, HasSubstr("tt-model serve org/my-dit"));
  EXPECT_THAT(script, HasSubstr("--publish 8000:8000 "));
  EXPECT_THAT(Files(kPluginManifest).serve_default, HasSubstr("--publish 8000:8000 "));
  EXPECT_TRUE(
      script.ends_with("export FLUX2_MESH_SHAPE=1x1\nexport HF_MODEL=org/W\nexport MESH_DEVICE=P150\n\n"
                       "exec python -m uvicorn --host 0.0.0.0 --port 8000 --lifespan on pkg.server.app:app\n"))
      << script;
}

TEST(PackageBuild, Command) {
  BuildFacts facts;
  facts.metal.sha = std::string(40, 'a');
  facts.metal.describe = "v0.78.0-dev20260820-25-g8b98410e73";
  facts.metal.scm_version = "0.78.1.dev25";
  const Manifest manifest =
      ParsedManifest(With(kPluginManifest, "runtime:", "runtime:\n  extra_models_dir: models/common/x"));
  const std::string tag = ProvisionalTag(manifest, facts.metal);
  EXPECT_EQ(tag, "tt-model/my-model:build-aaaaaaaaa");
  const auto words = DockerBuildCommand(manifest, facts, tag, "/out/metalsrc", "/out/ctx");
  const std::string line = ShellJoin(words);
  EXPECT_TRUE(
      line.starts_with("docker build --progress=plain --tag tt-model/my-model:build-aaaaaaaaa --build-context "
                       "metalsrc=/out/metalsrc --build-arg BASE_IMAGE="));
  EXPECT_TRUE(line.ends_with(" /out/ctx"));
  for (const char* word :
       {"EXTRA_MODELS_DIR=/opt/tt-metal/models/common/x", "TT_VLLM_BUILTIN_MODELS=0", "METAL_MODE=local",
        "SCM_VERSION=0.78.1.dev25", "MODEL_PROFILES=default", "MODEL_WEIGHTS=org/Weights-7B"}) {
    EXPECT_THAT(words, Contains(word));
  }
  EXPECT_EQ(FinalTag("my-model", "sha256:0123456789abcdef"), "tt-model/my-model:0123456789ab");
}

TEST(PackageBuild, DockerfileTakesEveryArgument) {
  BuildFacts facts;
  facts.metal.mode = "git";
  const std::string dockerfile = Files(kDitManifest).dockerfile;
  const auto words = DockerBuildCommand(ParsedManifest(kDitManifest), facts, "t", "/m", "/c");
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "--build-arg") continue;
    EXPECT_THAT(dockerfile, HasSubstr("ARG " + words[i + 1].substr(0, words[i + 1].find('='))));
  }
}

TEST(PackageBuild, TorchPinOfTtMetal) {
  const TemporaryFolder folder;
  EXPECT_EQ(TorchPin(folder.path()), std::nullopt);
  std::filesystem::create_directories(folder.path() / "tt_metal/python_env");
  std::ofstream(folder.path() / "tt_metal/python_env/requirements-dev.txt")
      << "numpy\ntorch==9 ; platform_machine == 'aarch64'\ntorch==2.11.0 ; platform_machine == 'x86_64'\n";
  EXPECT_EQ(TorchPin(folder.path()), "2.11.0");
}

}  // namespace
}  // namespace sightline
