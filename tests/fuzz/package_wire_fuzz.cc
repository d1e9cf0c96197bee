// tt_kernel_manifest.json of a stranger: read, written again, described and launched.
#include <cstdint>

#include "package/package.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const auto wire = WireManifest::Parse({reinterpret_cast<const char*>(data), size}, "tt_kernel_manifest.json");
  if (!wire) return 0;
  const std::string text = wire->ToJson();
  SIGHTLINE_CHECK(WireManifest::Parse(text, "again")->ToJson() == text);
  if (!wire->container) return 0;
  static_cast<void>(RepointCard(GenerateCard(*wire), "org/name"));
  static_cast<void>(ReadyLandmarks(*wire->container));
  const auto profile = wire->container->ResolveProfile();
  if (!profile) return 0;
  DockerRunInput input;
  input.manifest = &*wire;
  input.profile = *profile;
  input.hf_home = input.hub_cache = input.cache_folder = "/home/u";
  const auto words = DockerRunCommand(input);
  if (words) static_cast<void>(ShellJoin(*words));
  return 0;
}
