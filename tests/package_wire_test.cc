// The wire manifest: what is published, byte for byte, and what is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "package/package.h"
#include "tests/support/manifest_text.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWire[] = R"({
  "schema_version": "5.1",
  "name": "my-dit",
  "tt_metal_version": "0.78.1.dev25",
  "arch": "blackhole",
  "device_count": 1,
  "producer": {
    "tt_kernel_version": "0.1.0",
    "created_at": "2026-09-13T15:37:45.123456+00:00",
    "hostname": null
  },
  "weights": {
    "repo_id": "org/W",
    "revision": "abc123",
    "allow_patterns": null,
    "ignore_patterns": [
      "*.pt"
    ],
    "repo_type": "model"
  },
  "auxiliary_weights": [],
  "mesh": null,
  "entrypoint": null,
  "resources": null,
  "capabilities": null,
  "env": {},
  "bundled": null,
  "deps": null,
  "container": {
    "image": {
      "registry": "hf",
      "repository": "my-dit",
      "tag": "tt-model/my-dit:0123456789ab",
      "digest": "sha256:00"
    },
    "kind": "tt-dit-server",
    "runtime": {
      "app": "pkg.server.app:app"
    },
    "serve": {
      "hardware": "p150",
      "mesh_device": "P150",
      "port": null,
      "max_model_len": null,
      "max_num_seqs": null,
      "block_size": null,
      "server_timeout": null,
      "capabilities": null,
      "additional_config": {},
      "args": [],
      "env": {
        "GRÜSSE": "größer"
      }
    },
    "serve_profiles": [
      {
        "hardware": null,
        "mesh_device": null,
        "port": null,
        "max_model_len": null,
        "max_num_seqs": null,
        "block_size": null,
        "server_timeout": null,
        "capabilities": null,
        "additional_config": {},
        "args": [],
        "env": {},
        "name": "default",
        "description": null
      }
    ],
    "default_profile": null,
    "code_dir": "code",
    "verify": [],
    "built": {
      "repo": "org/my-dit"
    },
    "card": null
  }
})";

std::string Wire() { return With(kWire, "GRÜSSE", "GREETING"); }

std::string Complaint(const std::string& text) {
  const auto manifest = WireManifest::Parse(text, "tt_kernel_manifest.json");
  return manifest ? "" : manifest.error().message;
}

WireManifest Parsed(const std::string& text) {
  auto manifest = WireManifest::Parse(text, "x");
  EXPECT_TRUE(manifest.has_value()) << (manifest ? "" : manifest.error().message);
  return manifest.value_or(WireManifest{});
}

TEST(PackageWire, IsWrittenAsPublished) {
  Manifest manifest =
      ParsedManifest(With(With(kDitManifest, "revision: abc123", "revision: abc123, ignore_patterns: [\"*.pt\"]"),
                          "  mesh_device: P150\n", "  mesh_device: P150\n  env: {GREETING: größer}\n"));
  WireFacts facts;
  facts.image_tag = "tt-model/my-dit:0123456789ab";
  facts.image_digest = "sha256:00";
  facts.tt_metal_version = "0.78.1.dev25";
  facts.created_at = "2026-09-13T15:37:45.123456+00:00";
  facts.runtime = manifest.runtime;
  facts.built.Set("repo", Value{std::string("org/my-dit")});
  EXPECT_EQ(ToWire(manifest, facts).ToJson(), Wire());
}

TEST(PackageWire, ReadsBackWhatItWrites) { EXPECT_EQ(Parsed(Wire()).ToJson(), Wire()); }

TEST(PackageWire, CardIsCarried) {
  const std::string card = "card:\n  description: d\n  license: {id: mit}\n  base_model: [a/b]\n";
  const std::string text = WireOf(ParsedManifest(std::string(kDitManifest) + card)).ToJson();
  EXPECT_THAT(
      text,
      HasSubstr("\"license\": {\n        \"id\": \"mit\",\n        \"name\": null,\n        \"link\": null\n      }"));
  EXPECT_EQ(Parsed(text).ToJson(), text);
}

TEST(PackageWire, Case20SchemaGate) {
  for (const char* schema : {"5", "5.1", "6"})
    EXPECT_EQ(Complaint(With(Wire(), "\"5.1\"", "\"" + std::string(schema) + "\"")), "");
  EXPECT_THAT(Complaint(With(Wire(), "\"5.1\"", "\"7\"")), HasSubstr("Unsupported bundle schema_version"));
  EXPECT_THAT(Complaint(With(Wire(), "\"5.1\"", "\"4\"")), HasSubstr("re-publish"));
}

TEST(PackageWire, Case21FlatManifestHasOneProfileAndItsChips) {
  const WireManifest wire = WireOf(ParsedManifest(kPluginManifest));
  EXPECT_THAT(wire.container->ProfileNames(), ElementsAre("default"));
  EXPECT_EQ(wire.device_count, 4);
}

TEST(PackageWire, Case23PullReferences) {
  WireImage image;
  image.tag = "tt-model/my-model:abc";
  EXPECT_EQ(image.PullReference(), std::nullopt);
  image.registry = "ghcr.io/tenstorrent/";
  EXPECT_EQ(image.PullReference(), "ghcr.io/tenstorrent/my-model:abc");
  image.repository = "laguna";
  image.digest = "sha256:12";
  EXPECT_EQ(image.PullReference(), "ghcr.io/tenstorrent/laguna@sha256:12");
}

TEST(PackageWire, Case24ZeroProfiles) {
  WireManifest wire = Parsed(Wire());
  wire.container->serve_profiles.clear();
  const auto profile = wire.container->ResolveProfile();
  ASSERT_FALSE(profile.has_value());
  EXPECT_THAT(profile.error().message, HasSubstr("declares no serve profiles"));
}

TEST(PackageWire, Case50UnknownProfileListsWhatThereIs) {
  const auto profile = Parsed(Wire()).container->ResolveProfile("nope");
  ASSERT_FALSE(profile.has_value());
  EXPECT_THAT(profile.error().message, HasSubstr("available: default"));
}

TEST(PackageWire, Case56AndOthersThatAreNoContainer) {
  EXPECT_THAT(Complaint("garbage"), HasSubstr("not valid JSON"));
  EXPECT_THAT(Complaint("[]"), HasSubstr("expected to be a map"));
  std::string text = Wire();
  text = text.substr(0, text.find("\"container\": {")) + "\"container\": null\n}";
  const WireManifest wire = Parsed(With(text, "\"5.1\"", "\"5\""));
  EXPECT_FALSE(wire.RequireContainer().has_value());
}

TEST(PackageWire, Case64HostileNamesAreRefused) {
  for (const char* name : {"../../etc", "/abs", "a/b", "", "--privileged"}) {
    EXPECT_THAT(Complaint(With(Wire(), "\"name\": \"my-dit\"", "\"name\": \"" + std::string(name) + "\"")),
                HasSubstr("slug"));
  }
  EXPECT_THAT(Complaint(With(Wire(), "org/W", "../../x")), HasSubstr("namespaced HF id"));
  EXPECT_THAT(Complaint(With(Wire(), "abc123", "../../../x")), HasSubstr("no branch, tag or commit"));
  EXPECT_THAT(Complaint(With(Wire(), "abc123", "/x")), HasSubstr("no branch, tag or commit"));
}

TEST(PackageWire, UnknownKeysAreToleratedOutsideOfServe) {
  EXPECT_EQ(Complaint(With(Wire(), "\"arch\"", "\"kernel_count\": 0, \"arch\"")), "");
  EXPECT_EQ(Complaint(With(Wire(), "\"kind\"", "\"new\": {}, \"kind\"")), "");
  EXPECT_EQ(Complaint(With(Wire(), "\"registry\"", "\"mirror\": 1, \"registry\"")), "");
  EXPECT_EQ(Complaint(With(Wire(), "\"card\": null", "\"card\": {\"novel\": 1, \"status\": \"s\"}")), "");
  EXPECT_THAT(Complaint(With(Wire(), "\"hardware\": \"p150\"", "\"hardwar\": \"p150\"")),
              HasSubstr("container.serve.hardwar"));
  EXPECT_THAT(Complaint(With(Wire(), "\"name\": \"default\"", "\"name\": \"default\", \"x\": 1")),
              HasSubstr("container.serve_profiles[0].x"));
  EXPECT_THAT(
      Complaint(With(Wire(), "\"capabilities\": null,\n      \"add", "\"capabilities\": {\"tools\": 1},\n      \"add")),
      HasSubstr("capabilities.tools"));
}

TEST(PackageWire, OlderSpellings) {
  const WireManifest wire =
      Parsed(With(With(Wire(), "\"repo_id\"", "\"repo\""), "    \"kind\": \"tt-dit-server\",\n", ""));
  EXPECT_EQ(wire.weights->repo, "org/W");
  EXPECT_EQ(wire.container->kind, "vllm-plugin");
}

TEST(PackageWire, BlocksOfOtherSchemasAreKept) {
  const std::string text =
      With(With(Wire(), "\"mesh\": null", "\"mesh\": {\n    \"devices\": 4\n  }"), "\"5.1\"", "\"5\"");
  EXPECT_EQ(Parsed(text).ToJson(), text);
}

TEST(PackageWire, EveryTruncationIsRefused) {
  const std::string text = Wire();
  for (size_t size = 0; size < text.size(); ++size) EXPECT_NE(Complaint(text.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace sightline
