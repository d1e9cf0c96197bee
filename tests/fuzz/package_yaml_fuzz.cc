// tt-model.yaml and sightline.yaml: whatever the text, problems or a manifest from which everything can be generated.
#include <cstdint>

#include "package/package.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(NativePackage::Parse(text, "sightline.yaml"));
  static_cast<void>(FindProblemsInText(text, "tt-model.yaml"));
  const auto manifest = Manifest::Parse(text, "tt-model.yaml");
  if (!manifest) return 0;
  static_cast<void>(GenerateBuildFiles(*manifest, {}));
  WireFacts facts;
  facts.image_tag = "tt-model/x:0";
  facts.runtime = manifest->runtime;
  const WireManifest wire = ToWire(*manifest, facts);
  // What we publish must be what we can read.
  const auto again = WireManifest::Parse(wire.ToJson(), "tt_kernel_manifest.json");
  SIGHTLINE_CHECK(again.has_value());
  SIGHTLINE_CHECK(again->ToJson() == wire.ToJson());
  return 0;
}
