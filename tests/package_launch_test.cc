// What starts a package: commands inside of the container, and `docker run` around them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "package/package.h"
#include "tests/support/manifest_text.h"

namespace sightline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

using Words = std::vector<std::string>;

struct Launched {
  WireManifest manifest;
  ServeProfile profile;
};
Launched Launch(std::string_view text) {
  Launched launched{WireOf(ParsedManifest(text)), {}};
  launched.profile = launched.manifest.container->ResolveProfile().value();
  return launched;
}

std::string Command(std::string_view text) {
  const Launched launched = Launch(text);
  const auto words = ServeCommand(launched.manifest, launched.profile);
  return words ? ShellJoin(*words) : words.error().message;
}

std::map<std::string, std::string> Environment(std::string_view text) {
  const Launched launched = Launch(text);
  return ServeEnvironment(launched.manifest, launched.profile).value();
}

TEST(PackageLaunch, Case31Plugin) {
  EXPECT_EQ(Command(kPluginManifest),
            "vllm serve org/Weights-7B --max-model-len 131072 --max-num-seqs 32 --block-size 64 --port 8000");
  EXPECT_THAT(Environment(kPluginManifest),
              ElementsAre(Pair("HF_MODEL", "org/Weights-7B"), Pair("MESH_DEVICE", "P150x4")));
}

TEST(PackageLaunch, Case32Fork) {
  EXPECT_EQ(
      Command(kForkManifest),
      "python -m models.common.readiness_check.run_vllm_server --stages serve --model-dir models/autoports/my_model "
      "--hf-model org/Weights-7B --mesh-device '(1, 4)' --max-num-seqs 32 --max-model-len 131072 --block-size 64 "
      "--port 8000");
  EXPECT_THAT(Environment(kForkManifest),
              ElementsAre(Pair("HF_MODEL", "org/Weights-7B"), Pair("PYTHONUNBUFFERED", "1")));
}

TEST(PackageLaunch, Case33Dit) {
  EXPECT_EQ(Command(kDitManifest), "python -m uvicorn --host 0.0.0.0 --port 8000 --lifespan on pkg.server.app:app");
  const std::string square =
      With(With(kDitManifest, "hardware: p150", "hardware: p300x2"), "mesh_device: P150", "mesh_device: QB2");
  EXPECT_THAT(Environment(square),
              ElementsAre(Pair("FLUX2_MESH_SHAPE", "2x2"), Pair("HF_MODEL", "org/W"), Pair("MESH_DEVICE", "QB2")));
  const auto other = Environment(With(kDitManifest, "runtime:", "runtime:\n  mesh_shape_env: OTHER"));
  EXPECT_THAT(other, Contains(Pair("OTHER", "1x1")));
  EXPECT_THAT(other, Not(Contains(Key("FLUX2_MESH_SHAPE"))));
}

TEST(PackageLaunch, HttpServerGetsHostPortAndArgs) {
  EXPECT_EQ(Command(kHttpManifest), "python server.py --host 0.0.0.0 --port=8000 --lanes 4");
}

TEST(PackageLaunch, Case39CapabilitiesAndConfiguration) {
  const std::string more =
      "  capabilities: {tool_parser: hermes, reasoning_parser: deepseek_r1}\n"
      "  additional_config: {tt: {temperature: 0, name: ü}}\n  args: [[--override, '{\"temperature\": 0}']]\n";
  EXPECT_EQ(
      Command(std::string(kPluginManifest) + more),
      "vllm serve org/Weights-7B --max-model-len 131072 --max-num-seqs 32 --block-size 64 --additional-config "
      "'{\"tt\": {\"temperature\": 0, \"name\": \"\\u00fc\"}}' --enable-auto-tool-choice --tool-call-parser hermes "
      "--reasoning_parser deepseek_r1 --override '{\"temperature\": 0}' --port 8000");
  const Launched fork = Launch(std::string(kForkManifest) + more);
  const Words words = ServeCommand(fork.manifest, fork.profile).value();
  EXPECT_EQ(words.back(),
            "--override '{\"temperature\": 0}' --enable-auto-tool-choice --tool-call-parser hermes "
            "--reasoning_parser deepseek_r1");
  EXPECT_THAT(words, Contains("{\"temperature\": 0, \"name\": \"\\u00fc\"}"));
}

TEST(PackageLaunch, ServeEnvAlwaysWins) {
  const auto environment = Environment(std::string(kPluginManifest) + "  env: {HF_MODEL: mine, X: \"\"}\n");
  EXPECT_THAT(environment, ElementsAre(Pair("HF_MODEL", "mine"), Pair("MESH_DEVICE", "P150x4"), Pair("X", "")));
}

TEST(PackageLaunch, Landmarks) {
  const auto of = [](std::string_view text) { return ReadyLandmarks(*WireOf(ParsedManifest(text)).container).value(); };
  EXPECT_THAT(of(kPluginManifest), ElementsAre("Application startup complete"));
  EXPECT_THAT(of(kDitManifest), ElementsAre("Application startup complete"));
  EXPECT_THAT(of(kForkManifest), Contains("Server ready after"));
  EXPECT_THAT(of(kHttpManifest), ElementsAre("\"event\": \"ready\""));
}

TEST(PackageLaunch, UnknownKindsOfTheWireAreRefused) {
  Launched launched = Launch(kDitManifest);
  launched.manifest.container->kind = "novel";
  EXPECT_THAT(ServeCommand(launched.manifest, launched.profile).error().message, HasSubstr("novel"));
  EXPECT_FALSE(ReadyLandmarks(*launched.manifest.container).has_value());
}

class DockerRun : public ::testing::Test {
 protected:
  DockerRun() { Use(kDitManifest); }
  void Use(std::string_view text) {
    launched_ = Launch(text);
    input_.manifest = &launched_.manifest;
    input_.profile = launched_.profile;
    input_.devices = {DeviceGrant::Kind::kChips, {0}};
    input_.user = input_.group = 1000;
    input_.hf_home = "/home/u/.cache/huggingface";
    input_.hub_cache = "/home/u/.cache/huggingface/hub";
    input_.cache_folder = "/home/u/.cache/tt-model/my-dit";
  }
  std::string Line() {
    const auto words = DockerRunCommand(input_);
    return words ? ShellJoin(*words) : "refused: " + words.error().message;
  }
  Words Split() { return DockerRunCommand(input_).value(); }

  Launched launched_;
  DockerRunInput input_;
};

// The description's example, with the labels and variables of later versions.
TEST_F(DockerRun, Golden) {
  EXPECT_EQ(
      Line(),
      "docker run --name tt-model-my-dit-default --user 1000:1000 --label org.tenstorrent.tt-model=my-dit --label "
      "org.tenstorrent.tt-model.profile=default --label tt.model.kind=tt-dit-server --label "
      "tt.model.openai_compatible=false --label tt.model.tool_calling=false --label tt.model.reasoning=false --label "
      "tt.model.port=20000 --label tt.model.manifest_schema=5.1 --label org.tenstorrent.tt-model.devices=0 --device "
      "/dev/tenstorrent/0:/dev/tenstorrent/0 --ipc host --mount "
      "type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G --volume /home/u/.cache/huggingface:/hf --env HF_HOME=/hf "
      "--volume /home/u/.cache/tt-model/my-dit/cache:/cache --env TT_METAL_CACHE=/cache --volume "
      "/home/u/.cache/tt-model/my-dit/weights:/weight-cache --env TT_DIT_CACHE_DIR=/weight-cache --volume "
      "/home/u/.cache/tt-model/my-dit/tensors:/tensor-cache --env TT_CACHE_PATH=/tensor-cache --publish 20000:20000 "
      "--env FLUX2_MESH_SHAPE=1x1 --env HF_MODEL=/hf/hub/models--org--W/snapshots/abc123 --env MESH_DEVICE=P150 --env "
      "TT_MESH_GRAPH_DESC_PATH=/opt/tt-metal/tt_metal/fabric/mesh_graph_descriptors/"
      "p150_mesh_graph_descriptor.textproto --env TT_MODEL_WEIGHTS_REVISION=abc123 --env TT_WEIGHTS_REVISION=abc123 "
      "tt-model/my-dit:0123456789ab python -m uvicorn --host 0.0.0.0 --port 20000 "
      "--lifespan on pkg.server.app:app");
}

TEST_F(DockerRun, Case34PortAndOrder) {
  input_.port = 8000;
  input_.detach = true;
  input_.arguments = {"--workers", "1"};
  const std::string line = Line();
  EXPECT_THAT(line, HasSubstr("docker run --detach --name"));
  EXPECT_THAT(line, HasSubstr("--publish 8000:8000"));
  EXPECT_THAT(line, HasSubstr("--mount type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G"));
  EXPECT_LT(line.find("tt-model/my-dit:0123456789ab"), line.find("uvicorn"));
  EXPECT_TRUE(line.ends_with("pkg.server.app:app --workers 1"));
}

TEST_F(DockerRun, Case35TokenByNameOnly) {
  EXPECT_THAT(Line(), Not(HasSubstr("HF_TOKEN")));
  input_.token_is_set = true;
  EXPECT_THAT(Line(), HasSubstr("--env HF_TOKEN --env"));
}

TEST_F(DockerRun, Case36RootlessUser) {
  input_.user = input_.group = 0;
  EXPECT_THAT(Line(), HasSubstr("--user 0:0 "));
}

TEST_F(DockerRun, Case37EveryVolumeHasAVariable) {
  input_.hub_cache = "/elsewhere/hub";
  const Words words = Split();
  for (size_t i = 0; i + 3 < words.size(); ++i) {
    if (words[i] != "--volume") continue;
    const std::string inside = words[i + 1].substr(words[i + 1].find(':') + 1);
    EXPECT_EQ(words[i + 2], "--env");
    EXPECT_TRUE(words[i + 3].ends_with("=" + inside)) << words[i + 3];
  }
}

TEST_F(DockerRun, Case38HubCacheOutsideOfTheHome) {
  EXPECT_THAT(Line(), Not(HasSubstr("/hf-hub")));
  input_.hub_cache = "/elsewhere/hub";
  EXPECT_THAT(Line(), HasSubstr("--volume /elsewhere/hub:/hf-hub --env HF_HUB_CACHE=/hf-hub"));
  EXPECT_THAT(Line(), HasSubstr("HF_MODEL=/hf-hub/models--org--W/snapshots/abc123"));
  input_.hub_cache = "/home/u/.cache/huggingface2/hub";
  EXPECT_THAT(Line(), HasSubstr("/hf-hub"));
}

TEST_F(DockerRun, Case40DescriptorLabels) {
  input_.port = 8001;
  EXPECT_THAT(Line(),
              HasSubstr("--label tt.model.kind=tt-dit-server --label tt.model.openai_compatible=false --label "
                        "tt.model.tool_calling=false --label tt.model.reasoning=false --label tt.model.port=8001 "
                        "--label tt.model.manifest_schema=5.1"));
  Use(std::string(kPluginManifest) + "  capabilities: {tool_parser: hermes}\n");
  EXPECT_THAT(Line(), HasSubstr("tt.model.openai_compatible=true --label tt.model.tool_calling=true"));
}

TEST_F(DockerRun, PinOfWeightsReachesServersThatAreNotVllm) {
  EXPECT_THAT(Line(), HasSubstr("--env TT_MODEL_WEIGHTS_REVISION=abc123 --env TT_WEIGHTS_REVISION=abc123"));
  Use(With(kPluginManifest, "weights: org/Weights-7B", "weights: {repo: org/W, revision: abc123}"));
  EXPECT_THAT(Line(), Not(HasSubstr("WEIGHTS_REVISION")));
  EXPECT_THAT(Line(), HasSubstr("HF_MODEL=/hf/hub/models--org--W/snapshots/abc123"));
}

TEST_F(DockerRun, Grants) {
  input_.devices = {DeviceGrant::Kind::kChips, {2, 0}};
  EXPECT_THAT(Line(), HasSubstr("devices=2,0 --device /dev/tenstorrent/2:/dev/tenstorrent/2 --device "
                                "/dev/tenstorrent/0:/dev/tenstorrent/0 --ipc"));
  EXPECT_THAT(Line(), Not(HasSubstr("TT_MESH_GRAPH_DESC_PATH")));
  input_.devices = {};
  EXPECT_THAT(Line(), HasSubstr("--device /dev/tenstorrent --ipc host"));
  EXPECT_THAT(Line(), Not(HasSubstr("tt-model.devices")));
  input_.devices.kind = DeviceGrant::Kind::kNone;
  for (const char* absent : {"--device", "--ipc", "hugepages"}) EXPECT_THAT(Line(), Not(HasSubstr(absent)));
  input_.devices = {DeviceGrant::Kind::kChips, {}};
  EXPECT_THAT(Line(), HasSubstr("refused"));
}

TEST_F(DockerRun, AnotherProgramWithOptions) {
  input_.program = "podman";
  input_.run_options = {"--runtime", "runc"};
  EXPECT_TRUE(Line().starts_with("podman run --runtime runc --name "));
}

TEST_F(DockerRun, NothingOfAPackageBecomesAnOption) {
  input_.image = "--privileged";
  EXPECT_THAT(Line(), HasSubstr("refused: image"));
  input_.image = "";
  input_.profile.name = "x --privileged";
  EXPECT_THAT(Line(), HasSubstr("refused: serve profile"));
  input_.profile.name = "default";
  launched_.manifest.name = "../x";
  EXPECT_THAT(Line(), HasSubstr("refused: name"));
  launched_.manifest.name = "my-dit";
  input_.hf_home = "/a:b";
  EXPECT_THAT(Line(), HasSubstr("refused: folder"));
  input_.hf_home = "relative";
  EXPECT_THAT(Line(), HasSubstr("refused: folder"));
}

}  // namespace
}  // namespace sightline
