// The synthesis rules file, and the numbers that come of it.
#include <cstdint>

#include "weights/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const auto rules = SynthesisRules::Parse({reinterpret_cast<const char*>(data), size}, "x.json");
  if (!rules) return 0;
  static_cast<void>(rules->FindSize("tiny"));
  std::vector<float> values(12);
  for (const std::string name : {"blocks.0.norm1.weight", "pos_embed", "a"}) {
    static_cast<void>(rules->Fill("backbone", {name, {2, 6}}, "tiny", 1, values));
    static_cast<void>(rules->Fill("decoder", {name, {2, 6}}, "tiny", 1, values));
  }
  return 0;
}
