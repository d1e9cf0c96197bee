// The authoring manifest. Numbers in names are those of the acceptance cases in the package format's description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "package/package.h"
#include "tests/support/manifest_text.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What is said about a text; empty: it is valid.
std::string Complaint(const std::string& text) {
  const auto manifest = Manifest::Parse(text, "tt-model.yaml");
  return manifest ? "" : manifest.error().message;
}

struct Refusal {
  std::string text, expected;
};
void ExpectRefused(const std::vector<Refusal>& cases) {
  for (const auto& [text, expected] : cases) EXPECT_THAT(Complaint(text), HasSubstr(expected)) << text;
}

std::string Plugin(std::string_view from, std::string_view to) { return With(kPluginManifest, from, to); }
std::string Dit(std::string_view from, std::string_view to) { return With(kDitManifest, from, to); }

constexpr char kProfiles[] = R"(serve_profiles:
  - {name: small, block_size: 32}
  - {name: large, args: [--x]}
)";

TEST(PackageManifest, Case01MinimalIsValidAndHasOneProfile) {
  const Manifest manifest = ParsedManifest(kPluginManifest);
  EXPECT_EQ(manifest.kind, "vllm-plugin");
  EXPECT_EQ(manifest.image_registry, "hf");
  EXPECT_EQ(manifest.DefaultProfileName(), "default");
  for (const std::string_view text : {kForkManifest, kDitManifest, kHttpManifest})
    EXPECT_EQ(Complaint(std::string(text)), "");
}

TEST(PackageManifest, Case02And03ProfilesInheritAndOverride) {
  std::string text = std::string(kPluginManifest) + "  args: [--f, [--o, v]]\n  env: {A: \"1\", B: \"2\"}\n";
  text += "  additional_config: {tt: {mode: all, size: 1}}\n";
  text +=
      "serve_profiles:\n  - {name: one}\n  - name: two\n    block_size: 32\n    port: 0\n    args: []\n"
      "    env: {B: \"3\", C: \"\"}\n    additional_config: {tt: {size: 2, on: null}}\n    capabilities: {tool_parser: "
      "hermes}\n"
      "default_profile: one\n";
  text = With(text, "on: null", "flag: false");
  const Manifest manifest = ParsedManifest(text);
  const auto one = manifest.ResolveProfile();
  const auto two = manifest.ResolveProfile("two");
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->port, 8000);
  EXPECT_EQ(one->block_size, 64);
  EXPECT_THAT(FlatArgs(*one), ElementsAre("--f", "--o", "v"));
  EXPECT_EQ(two->block_size, 32);
  EXPECT_EQ(two->port, 0);
  EXPECT_THAT(FlatArgs(*two), ElementsAre("--f", "--o", "v"));
  EXPECT_THAT(two->env, ElementsAre(std::pair("A", "1"), std::pair("B", "3"), std::pair("C", "")));
  EXPECT_EQ(ToJson(two->additional_config, -1), R"({"tt": {"mode": "all", "size": 2, "flag": false}})");
  EXPECT_EQ(two->capabilities->tool_parser, "hermes");
}

TEST(PackageManifest, FlatArgsAreWrittenAsPythonDoes) {
  const Manifest manifest = ParsedManifest(std::string(kPluginManifest) + "  args: [--a, 8, 1.0, yes, [--b, no, x]]\n");
  EXPECT_THAT(FlatArgs(manifest.serve), ElementsAre("--a", "8", "1.0", "True", "--b", "False", "x"));
}

TEST(PackageManifest, Cases04To11RefuseWrongValues) {
  ExpectRefused({
      {Plugin("arch: blackhole", "arch: grayskull"), "arch must be one of"},
      {Plugin("arch: blackhole", "arch: blackhole\nkind: tensorrt"), "kind must be one of"},
      {Plugin("{version: \"0.24.0\"}", "{repo: a/b, ref: main}"), "vllm-fork"},
      {With(kForkManifest, "{repo: \"https://example.org/vllm\", ref: 0123456789012345678901234567890123456789}",
            "{version: \"0.24.0\"}"),
       "vllm-plugin"},
      {Plugin("you/my-model", "my-model"), "namespaced HF id"},
      {Plugin("org/Weights-7B", "Weights-7B"), "namespaced HF id"},
      {Plugin("org/Weights-7B", "../../etc"), "namespaced HF id"},
      {Plugin("mesh_device: P150x4", "mesh_device: P150x9"), "invalid mesh_device"},
      {Plugin("mesh_device: P150x4", "mesh_device: P150x2"), "implies 4"},
      {Plugin("hardware: p150x4", "hardware: QB2"), "is a mesh_device SKU"},
  });
  for (const char* label : {"wibble", "t3k", "galaxy", "x4", "p150b7", "p150x0", "p150x-1", "p150x4x2", "p1500", "p"}) {
    EXPECT_THAT(Complaint(Plugin("hardware: p150x4", std::string("hardware: ") + label)),
                HasSubstr("not a recognised board label"))
        << label;
  }
}

TEST(PackageManifest, Case12BoardsWithTheirMesh) {
  const std::pair<const char*, const char*> cases[] = {
      {"p150", "P150"},  {"p150x4", "P150x4"},  {"p300x2", "P300x2"},     {"n300x2", "(1, 4)"}, {"P150X4", "P150x4"},
      {"p150a", "P150"}, {"p300c", "P300"},     {"n300x4", "T3K"},        {"p300x2", "QB2"},    {"p150x4", "[2,2]"},
      {"p150x4", "1,4"}, {"p150ax4", "P150x4"}, {"p150x32", "BH-Galaxy"},
  };
  for (const auto& [hardware, mesh] : cases) {
    const std::string text = With(Plugin("hardware: p150x4", std::string("hardware: ") + hardware),
                                  "mesh_device: P150x4", "mesh_device: \"" + std::string(mesh) + "\"");
    EXPECT_EQ(Complaint(text), "") << hardware << " " << mesh;
  }
}

TEST(PackageManifest, Case13ChipsOfBoards) {
  EXPECT_EQ(ChipsOfHardware("p150"), 1);
  EXPECT_EQ(ChipsOfHardware("p150x4"), 4);
  EXPECT_EQ(ChipsOfHardware("p300"), 2);
  EXPECT_EQ(ChipsOfHardware(" P300X2 "), 4);
  EXPECT_EQ(ChipsOfHardware("n300"), 2);
  EXPECT_EQ(ChipsOfHardware("wibble"), std::nullopt);
  EXPECT_EQ(ChipsOfHardware("p150x99999999999999999999"), std::nullopt);
}

TEST(PackageManifest, Case14RequiredAfterMerging) {
  for (const char* field : {"hardware", "mesh_device", "max_num_seqs", "block_size"}) {
    std::string text(kPluginManifest);
    const size_t start = text.find(std::string("  ") + field);
    text.erase(start, text.find('\n', start) + 1 - start);
    EXPECT_THAT(Complaint(text), HasSubstr(std::string(field) + " is required"));
  }
}

TEST(PackageManifest, Case15ProfilesAndTheirDefault) {
  const std::string two = std::string(kPluginManifest) + kProfiles;
  ExpectRefused({
      {two, "must name a default_profile"},
      {two + "default_profile: nope\n", "names no profile"},
      {With(two, "large", "small") + "default_profile: small\n", "duplicate serve profile"},
      {With(two, "name: small", "name: ../x") + "default_profile: large\n", "letters, digits"},
  });
  EXPECT_EQ(Complaint(two + "default_profile: large\n"), "");
}

TEST(PackageManifest, Case16PathsStayBelowTheirRoot) {
  const std::string extra = "  extra_code:\n    - root: code\n      paths: [x]\n  ubuntu";
  ExpectRefused({
      {Plugin("models/common", "/etc/passwd"), "relative"},
      {Plugin("models/common", "../../secrets"), "relative"},
      {With(Plugin("  ubuntu", extra), "paths: [x]", "paths: [a/../../b]"), "relative"},
      {With(Plugin("  ubuntu", extra), "paths: [x]", "paths: []"), "at least one path"},
      {Plugin("[models/common, models/autoports/my_model]", "[]"), "at least one path"},
  });
  EXPECT_EQ(Complaint(Plugin("  ubuntu", extra)), "");
  EXPECT_EQ(Complaint(Plugin("models/common", "models/..common")), "");
}

TEST(PackageManifest, Case17UnknownKeysAreRefusedEverywhere) {
  ExpectRefused({
      {std::string(kPluginManifest) + "serve_profile: []\n",
       "serve_profile is not a known key; did you mean serve_profiles?"},
      {Plugin("  port:", "  server_timeoutt: 1\n  port:"), "serve.server_timeoutt is not a known key"},
      {Plugin("  port:", "  capabilities: {tool_praser: x}\n  port:"), "serve.capabilities.tool_praser"},
      {Plugin("weights: org/Weights-7B", "weights: {repo: a/b, revsion: x}"), "weights.revsion"},
      {Plugin("tt_metal: tt-metal", "tt_metal: {repo: a, ref: b, branch: c}"), "source.tt_metal.branch"},
      {Plugin("  python:", "  pyton: x\n  python:"), "source.pyton"},
      {std::string(kPluginManifest) + "image: {registy: hf}\n", "image.registy"},
      {std::string(kPluginManifest) + "card: {limitation: x}\n", "card.limitation"},
      {std::string(kPluginManifest) + "card: {license: {id: mit, url: x}}\n", "card.license.url"},
      {Plugin("  plugin:", "  pluggin: x\n  plugin:"), "runtime.pluggin"},
  });
}

TEST(PackageManifest, Case18FilesThatAreNoManifest) {
  EXPECT_THAT(Complaint("just a string"), HasSubstr("does not contain a YAML mapping"));
  EXPECT_THAT(Complaint("- a"), HasSubstr("does not contain a YAML mapping"));
  EXPECT_THAT(Complaint(""), HasSubstr("does not contain a YAML mapping"));
  EXPECT_THAT(Complaint("a: [1,"), HasSubstr("not valid YAML"));
  const auto missing = Manifest::Load("/nowhere/tt-model.yaml", false);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("manifest not found"));
}

TEST(PackageManifest, Case19NamesAreSlugs) {
  for (const char* name : {"my-model", "m", "a.b_c-1"}) {
    EXPECT_EQ(Complaint(Plugin("name: my-model", std::string("name: ") + name)), "") << name;
  }
  for (const char* name : {"../../etc", "a/b", "..", "/abs", "Up", "", " x", "a b", "x\\n"}) {
    EXPECT_FALSE(IsSlug(name)) << name;
    EXPECT_THAT(Complaint(Plugin("name: my-model", "name: \"" + std::string(name) + "\"")),
                HasSubstr("not a safe slug"));
  }
}

TEST(PackageManifest, Case20Schema) {
  EXPECT_THAT(Complaint(Plugin("\"5.1\"", "\"1\"")), HasSubstr("unsupported manifest schema"));
  EXPECT_THAT(Complaint(Plugin("\"5.1\"", "5.1")), HasSubstr("schema is expected to be text"));
  EXPECT_EQ(Complaint(Plugin("schema: \"5.1\"\n", "")), "");
}

TEST(PackageManifest, Case22FlatAndExplicitDefaultAreOne) {
  const auto flat = ParsedManifest(kPluginManifest).ResolveProfile();
  const auto listed =
      ParsedManifest(std::string(kPluginManifest) + "serve_profiles: [{name: default}]\n").ResolveProfile();
  ASSERT_TRUE(flat && listed);
  EXPECT_EQ(flat->name, listed->name);
  EXPECT_EQ(flat->hardware, listed->hardware);
  EXPECT_EQ(flat->block_size, listed->block_size);
}

TEST(PackageManifest, Case25AuxiliaryWeights) {
  const std::string list =
      "auxiliary_weights:\n  - org/A\n  - {repo: org/B, revision: abc, ignore_patterns: [\"*.pt\"]}\n";
  const Manifest manifest = ParsedManifest(std::string(kPluginManifest) + list);
  ASSERT_EQ(manifest.auxiliary_weights.size(), 2u);
  EXPECT_EQ(manifest.auxiliary_weights[0].repo, "org/A");
  EXPECT_EQ(manifest.auxiliary_weights[1].revision, "abc");
  EXPECT_THAT(*manifest.auxiliary_weights[1].ignore_patterns, ElementsAre("*.pt"));
  ExpectRefused({
      {std::string(kPluginManifest) + "auxiliary_weights: [Drafter]\n", "namespaced HF id"},
      {std::string(kPluginManifest) + "auxiliary_weights: [a/b, a/b]\n", "duplicate weight repositories"},
      {std::string(kPluginManifest) + "auxiliary_weights: [org/Weights-7B]\n", "duplicate weight repositories"},
      {std::string(kPluginManifest) + "auxiliary_weights: [{repo: a/b, revision: ../../x}]\n",
       "no branch, tag or commit"},
  });
}

TEST(PackageManifest, Case26LicensesAndGaps) {
  const auto with = [](const std::string& license) {
    return std::string(kPluginManifest) + "card:\n  license: " + license + "\n";
  };
  for (const char* id : {"apache-2.0", "openrail++", "cc-by-nc-sa-4.0", "llama2", "mit"}) {
    EXPECT_EQ(Complaint(with(std::string("{id: ") + id + "}")), "") << id;
  }
  ExpectRefused({
      {with("{id: other}"), "card.license.name is required"},
      {with("{id: other, name: \" \"}"), "card.license.name is required"},
      {with("{id: \"Apache 2.0 (see LICENSE)\"}"), "card.license.id"},
      {with("{}"), "card.license.id is required"},
  });
  const Manifest manifest = ParsedManifest(with("{id: \"other\\n\", name: \"Some\\n  License\\n\"}"));
  EXPECT_EQ(manifest.card->license->id, "other");
  EXPECT_EQ(manifest.card->license->name, "Some License");
  Card card;
  EXPECT_THAT(PublishGaps(card), ElementsAre("performance", "limitations"));
  card.performance = "fast";
  card.limitations = " \n";
  EXPECT_THAT(PublishGaps(card), ElementsAre("limitations"));
  EXPECT_THAT(PublishGaps(std::nullopt), IsEmpty());
}

TEST(PackageManifest, Case27RuntimeOfADitServer) {
  const std::string app = "  app: \"pkg.server.app:app\"";
  ExpectRefused({
      {Dit("runtime:\n" + app, "runtime: {}"), "requires runtime.app"},
      {Dit(app, "  app: pkg.server"), "requires runtime.app"},
      {Dit("[pkg/server]", "[other]"), "no allowlist entry"},
      {Dit(app, app + "\n  vllm: {version: \"1\"}"), "not valid for kind"},
  });
  const std::string extra = "[other]\n  extra_code: [{root: code, paths: [pkg]}]";
  EXPECT_EQ(Complaint(Dit("[pkg/server]", extra)), "");
}

TEST(PackageManifest, Case28MeshShapeVariable) {
  const std::string app = "  app: \"pkg.server.app:app\"";
  for (const char* name : {"2MESH", "a-b", "\"has space\"", "\"\"", "x=y", "7"}) {
    EXPECT_THAT(Complaint(Dit(app, app + "\n  mesh_shape_env: " + name)), HasSubstr("environment variable name"))
        << name;
  }
  EXPECT_EQ(Complaint(Dit(app, app + "\n  mesh_shape_env: _Mesh2")), "");
}

TEST(PackageManifest, Case29MeshPresets) {
  const std::tuple<const char*, int, int> cases[] = {{"QB2", 2, 2},    {"P300x2", 1, 4},    {"T3K", 1, 8},
                                                     {"TG", 4, 8},     {"BH-Galaxy", 4, 8}, {"N150", 1, 1},
                                                     {"(1, 4)", 1, 4}, {"[1,4]", 1, 4},     {" 2 , 2 ", 2, 2}};
  for (const auto& [name, rows, columns] : cases) {
    const auto mesh = ParseMeshDevice(name);
    ASSERT_TRUE(mesh.has_value()) << name;
    EXPECT_EQ(mesh->rows, rows) << name;
    EXPECT_EQ(mesh->columns, columns) << name;
  }
  for (const char* name :
       {"", "p150", "P150x9", "(1, 2, 3)", "(1,)", "1", "(0, 4)", "(-1, 4)", "(1, 99999999999999999999)"}) {
    EXPECT_FALSE(ParseMeshDevice(name).has_value()) << name;
  }
}

TEST(PackageManifest, Case30SourcesMustExist) {
  const TemporaryFolder folder;
  const auto metal = folder.path() / "tt-metal";
  std::filesystem::create_directories(metal / "models/common");
  std::filesystem::create_directories(metal / "models/autoports/my_model");
  std::filesystem::create_directories(folder.path() / "code");
  std::string text = Plugin("tt_metal: tt-metal", "tt_metal: " + metal.string());
  const auto write = [&](const std::string& content) {
    std::ofstream(folder.path() / "tt-model.yaml") << content;
    return Manifest::Load(folder.path() / "tt-model.yaml", true);
  };
  EXPECT_TRUE(write(text).has_value());
  const std::string extra =
      With(text, "  ubuntu",
           "  extra_code: [{root: " + (folder.path() / "code").string() + ", paths: [missing]}]\n  ubuntu");
  EXPECT_THAT(write(extra).error().message, HasSubstr("source.extra_code lists 1 path"));
  EXPECT_TRUE(write(With(extra, "root: " + (folder.path() / "code").string(), "root: {repo: a, ref: b}")).has_value());
  EXPECT_THAT(write(With(text, "models/common", "models/comon")).error().message,
              HasSubstr("source.code lists 1 path"));
  EXPECT_TRUE(Manifest::Load(folder.path() / "tt-model.yaml", false).has_value());
}

TEST(PackageManifest, ScalarsKeepTheirTypes) {
  ExpectRefused({
      {Plugin("python: \"3.12\"", "python: 3.12"), "source.python is expected to be text, got a number with a point"},
      {Plugin("weights: org/Weights-7B", "weights: {repo: a/b, revision: 1234567}"),
       "weights.revision is expected to be text"},
      {Plugin("  port:", "  env: {X: 1}\n  port:"), "serve.env.X is expected to be text"},
      {Plugin("  port:", "  env: {X: on}\n  port:"), "serve.env.X is expected to be text"},
      {Plugin("  port:", "  env: {\"A B\": x}\n  port:"), "environment variable"},
      {Plugin("port: 8000", "port: many"), "serve.port is expected to be a whole number"},
      {Plugin("port: 8000", "port: 8000.5"), "serve.port is expected to be a whole number"},
      {Plugin("port: 8000", "port: 70000"), "serve.port"},
      {Plugin("  port:", "  additional_config: {a: .inf}\n  port:"), "infinity"},
      {Plugin("version: \"0.24.0\"", "version: 0.24"), "runtime.vllm.version is expected to be text"},
  });
  EXPECT_EQ(ParsedManifest(Plugin("port: 8000", "port: \"8000\"")).serve.port, 8000);
  EXPECT_EQ(ParsedManifest(Plugin("port: 8000", "port: 8000.0")).serve.port, 8000);
}

TEST(PackageManifest, RuntimeOfPluginAndFork) {
  const std::string plugin = "plugin: {path: vllm-tt-plugin}";
  ExpectRefused({
      {Plugin("{version: \"0.24.0\"}", "{version: \"1\", path: x}"), "exactly one of version, wheel and path"},
      {Plugin("  vllm: {version: \"0.24.0\"}\n", ""), "requires runtime.vllm"},
      {Plugin("  " + plugin + "\n", ""), "requires runtime.plugin"},
      {Plugin(plugin, "plugin: {path: x, version: \"1\"}"), "exactly one of path"},
      {Plugin(plugin, "plugin: {repo: x}"), "requires runtime.plugin"},
      {Plugin(plugin, plugin + "\n  extra_models_dir: models/other"), "not covered by source.code"},
      {With(kForkManifest, "  model_dir: models/autoports/my_model\n", ""), "requires runtime.model_dir"},
      {With(kForkManifest, "model_dir: models/autoports/my_model", "model_dir: models/autoports/my_model2"),
       "not covered"},
      {With(kForkManifest, "runtime:", "runtime:\n  plugin: {path: x}"), "takes no runtime.plugin"},
      {With(kHttpManifest, "  ready_line: '\"event\": \"ready\"'\n", ""), "requires runtime.ready_line"},
      {With(kHttpManifest, "command: [python, server.py, --host, \"{host}\", \"--port={port}\"]", "command: []"),
       "requires runtime.command"},
  });
  EXPECT_EQ(Complaint(Plugin(plugin, plugin + "\n  extra_models_dir: models/autoports/my_model/bundle")), "");
}

TEST(PackageManifest, ErrorsNameFileLineAndKey) {
  const auto manifest = Manifest::Parse(Plugin("port: 8000", "port: many"), "tt-model.yaml");
  ASSERT_FALSE(manifest.has_value());
  EXPECT_THAT(manifest.error().message, HasSubstr("tt-model.yaml:17: failed validation: serve.port"));
  EXPECT_EQ(manifest.error().param, "serve.port");
}

TEST(PackageManifest, TheFirstProblemIsTheOriginals) {
  // Shape before rules, schema before arch before kind, profile by profile.
  EXPECT_THAT(Complaint(With(Plugin("arch: blackhole", "arch: x"), "port: 8000", "port: many")),
              HasSubstr("serve.port"));
  EXPECT_THAT(Complaint(With(Plugin("\"5.1\"", "\"1\""), "arch: blackhole", "arch: x\nkind: y")), HasSubstr("schema"));
  EXPECT_THAT(Complaint(Plugin("arch: blackhole", "arch: x\nkind: y")), HasSubstr("arch must"));
}

TEST(PackageManifest, FindProblemsListsAll) {
  std::string text = Plugin("arch: blackhole", "arch: x\nkind: y");
  text = With(text, "port: 8000", "port: many\n  bogus: 1");
  text = With(text, "hardware: p150x4", "hardware: wibble");
  text = With(text, "you/my-model", "mine");
  std::vector<std::string> paths;
  for (const ManifestProblem& problem : FindProblemsInText(text, "x")) paths.push_back(problem.path);
  EXPECT_THAT(paths, ElementsAre("serve.port", "serve.bogus", "arch", "kind", "repo", "serve.hardware"));
  EXPECT_THAT(FindProblemsInText(kPluginManifest, "x"), IsEmpty());
  EXPECT_EQ(FindProblemsInText("- a", "x").size(), 1u);
}

TEST(PackageManifest, AProblemOfAnInheritedFieldPointsWhereItStands) {
  const std::string text =
      Plugin("mesh_device: P150x4", "mesh_device: P150x2") + kProfiles + "default_profile: small\n";
  const auto problems = FindProblemsInText(text, "x");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].path, "serve.mesh_device");
  EXPECT_EQ(problems[0].line, 16);
}

}  // namespace
}  // namespace sightline
