// Small tt-model.yaml texts, and changes to them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "package/package.h"

namespace sightline {

// The least that is valid, of kind vllm-plugin.
inline constexpr std::string_view kPluginManifest = R"(schema: "5.1"
repo: you/my-model
name: my-model
weights: org/Weights-7B
arch: blackhole
source:
  tt_metal: tt-metal
  code: [models/common, models/autoports/my_model]
  ubuntu: "22.04"
  python: "3.12"
runtime:
  vllm: {version: "0.24.0"}
  plugin: {path: vllm-tt-plugin}
serve:
  hardware: p150x4
  mesh_device: P150x4
  port: 8000
  max_model_len: 131072
  max_num_seqs: 32
  block_size: 64
)";

inline constexpr std::string_view kForkManifest = R"(schema: "5.1"
repo: you/my-model
name: my-model
weights: org/Weights-7B
kind: vllm-fork
arch: blackhole
source:
  tt_metal: tt-metal
  code: [models/common, models/autoports/my_model]
  ubuntu: "22.04"
  python: "3.12"
runtime:
  vllm: {repo: "https://example.org/vllm", ref: 0123456789012345678901234567890123456789}
  model_dir: models/autoports/my_model
serve:
  hardware: p150x4
  mesh_device: P150x4
  port: 8000
  max_model_len: 131072
  max_num_seqs: 32
  block_size: 64
)";

inline constexpr std::string_view kDitManifest = R"(schema: "5.1"
repo: org/my-dit
name: my-dit
weights: {repo: org/W, revision: abc123}
kind: tt-dit-server
arch: blackhole
source:
  tt_metal: tt-metal
  code: [pkg/server]
  ubuntu: "22.04"
  python: "3.12"
runtime:
  app: "pkg.server.app:app"
serve:
  hardware: p150
  mesh_device: P150
)";

inline constexpr std::string_view kHttpManifest = R"(schema: "5.1"
repo: org/my-http
name: my-http
weights: org/W
kind: http-server
arch: blackhole
source:
  tt_metal: tt-metal
  code: [models/demos]
  ubuntu: "22.04"
  python: "3.12"
runtime:
  command: [python, server.py, --host, "{host}", "--port={port}"]
  ready_line: '"event": "ready"'
serve:
  hardware: p150
  mesh_device: P150
  args: [--lanes, "4"]
)";

// `text` with the first `from` replaced; a test whose change does not apply fails.
inline std::string With(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const size_t at = changed.find(from);
  EXPECT_NE(at, std::string::npos) << "the text has no " << from;
  if (at != std::string::npos) changed.replace(at, from.size(), to);
  return changed;
}

inline Manifest ParsedManifest(std::string_view text) {
  auto manifest = Manifest::Parse(text, "tt-model.yaml");
  EXPECT_TRUE(manifest.has_value()) << (manifest ? "" : manifest.error().message);
  return manifest.value_or(Manifest{});
}

// As it would be published from an image that was built.
inline WireManifest WireOf(const Manifest& manifest) {
  WireFacts facts;
  facts.image_tag = "tt-model/" + manifest.name + ":0123456789ab";
  facts.created_at = "2026-09-13T15:37:45.123456+00:00";
  facts.runtime = manifest.runtime;
  return ToWire(manifest, std::move(facts));
}

}  // namespace sightline
