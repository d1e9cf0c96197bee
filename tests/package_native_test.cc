// sightline.yaml, and the packages that travel inside the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "package/package.h"
#include "tests/support/manifest_text.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kNative[] = R"(schema: "1"
model: locate-anything
weights:
  repo: nvidia/LocateAnything-3B
  revision: c32291ca5e996f5a7a485845b4f57a233936bba0
precision: int8
serve: {port: 20000, grid: 24x44, in_token_limit: 1024, max_new_tokens: 128}
license: {id: other, name: NVIDIA License, link: "https://a.b"}
)";

std::string Complaint(const std::string& text) {
  const auto package = NativePackage::Parse(text, "sightline.yaml");
  return package ? "" : package.error().message;
}

TEST(PackageNative, IsRead) {
  const NativePackage package = NativePackage::Parse(kNative, "x").value();
  EXPECT_EQ(package.model, "locate-anything");
  EXPECT_EQ(package.precision, "int8");
  EXPECT_EQ(package.serve.port, 20000);
  EXPECT_EQ(package.serve.grid, "24x44");
  EXPECT_EQ(package.license.name, "NVIDIA License");
}

TEST(PackageNative, IsStrict) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"\"1\"", "1", "schema is expected to be text"},
      {"\"1\"", "\"2\"", "schema is '2', expected '1'"},
      {"model: locate-anything", "model: yolo", "model is 'yolo', expected one of gaze-lle, locate-anything"},
      {"model: locate-anything", "model: gaze-lle", "precision is 'int8', expected one of f32, bf16"},
      {"c32291ca5e996f5a7a485845b4f57a233936bba0", "main", "weights.revision is 'main'"},
      {"nvidia/LocateAnything-3B", "LocateAnything", "weights.repo must be"},
      {"precision: int8", "precision: int2", "precision is 'int2'"},
      {"precision: int8", "precison: int8", "did you mean precision?"},
      {"precision: int8", "colour: red", "; expected schema, model, weights, precision, serve, license"},
      {"24x44", "24x45", "serve.grid"},
      {"port: 20000", "port: 0", "serve.port is 0, expected 1 to 65535"},
      {"grid: 24x44", "max_heads: 3", "serve.max_heads is not a known key"},
      {"license: {id: other, name: NVIDIA License, link: \"https://a.b\"}", "", "license is required"},
      {", name: NVIDIA License", "", "license.name is required"},
  };
  for (const auto& [from, to, expected] : cases) {
    EXPECT_THAT(Complaint(With(kNative, from, to)), HasSubstr(expected)) << to;
  }
  EXPECT_THAT(Complaint(With(kNative, "24x44", "24x45")), HasSubstr("sightline.yaml:7: "));
}

TEST(PackageNative, OurPackagesAreValid) {
  ASSERT_EQ(BuiltInPackages().size(), 2u);
  for (const BuiltInPackage& package : BuiltInPackages()) {
    EXPECT_THAT(FindProblemsInText(package.tt_model_yaml, package.name), IsEmpty()) << package.name;
    const Manifest manifest = ParsedManifest(package.tt_model_yaml);
    EXPECT_EQ(manifest.weights.repo, package.native.weights.repo);
    EXPECT_EQ(manifest.weights.revision, package.native.weights.revision);
    EXPECT_THAT(PublishGaps(manifest.card), IsEmpty());
    EXPECT_EQ(package.native.model, package.name);
    EXPECT_TRUE(ServeCommand(WireOf(manifest), manifest.ResolveProfile().value()).has_value());
  }
}

TEST(PackageNative, WrongVariantsOfOurPackagesAreNot) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"\"5.1\"", "5.1", "schema"},
      {"arch: blackhole", "arch: grayskull", "arch"},
      {"kind: tt-dit-server", "kind: vllm-plugin", "serve.max_num_seqs"},
      {"hardware: p150", "hardware: p300", "serve.mesh_device"},
      {"mesh_device: P150", "mesh_device: p150", "serve.mesh_device"},
      {"mesh_shape_env: TT_MESH_SHAPE", "mesh_shape_env: TT-MESH", "runtime.mesh_shape_env"},
      {"python: \"3.12\"", "python: 3.12", "source.python"},
      {"TT_METAL_VISIBLE_DEVICES: \"0\"", "TT_METAL_VISIBLE_DEVICES: 0", "serve.env.TT_METAL_VISIBLE_DEVICES"},
      {"  limitations:", "  limitation:", "card.limitation"},
      {"models/common", "../models/common", "source.code[0]"},
      {"serve:\n", "precision: int8\nserve:\n", "precision"},
  };
  for (const BuiltInPackage& package : BuiltInPackages()) {
    for (const auto& [from, to, path] : cases) {
      const auto problems = FindProblemsInText(With(package.tt_model_yaml, from, to), package.name);
      ASSERT_FALSE(problems.empty()) << package.name << ": " << to;
      EXPECT_EQ(problems.front().path, path) << package.name;
    }
  }
}

TEST(PackageNative, PackagesAreFoundByNameAndByWeights) {
  EXPECT_EQ(FindBuiltInPackage("gaze-lle")->native.weights.revision, "f83e53f0f17dd2175f31ceaf9fa650044147ada1");
  EXPECT_EQ(FindBuiltInPackage("locate-anything")->native.weights.revision, "c32291ca5e996f5a7a485845b4f57a233936bba0");
  EXPECT_EQ(FindBuiltInPackage("gaze"), nullptr);
  EXPECT_EQ(FindPackageByWeights("changh95/gaze-lle-weights")->native.model, "gaze-lle");
  EXPECT_EQ(FindPackageByWeights("nvidia/LocateAnything-3B")->native.model, "locate-anything");
  EXPECT_EQ(FindPackageByWeights("org/Weights-7B"), nullptr);
}

}  // namespace
}  // namespace sightline
