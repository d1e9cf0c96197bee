// Any bytes decode to a picture of the size it says, or to an error; never a crash, never more memory than the limits.
#include <cstdlib>

#include "media/media.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  for (bool reference : {false, true}) {
    const auto decoded =
        sightline::DecodeImage(file, {.reference = reference, .max_pixels = 1 << 20, .max_side = 4096});
    if (!decoded) continue;
    const sightline::Image& image = decoded->image;
    const auto pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    if (pixels == 0 || image.rgb.size() != 3 * pixels) std::abort();
  }
  return 0;
}
