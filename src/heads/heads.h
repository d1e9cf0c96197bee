// heads: finds heads in a picture with CenterFace, run by OpenCV's dnn module. Finds faces and widens them to heads;
// heads seen from behind are not found (docs/design.md, "Head detection").
#pragma once

#include <memory>
#include <vector>

#include "base/base.h"
#include "media/media.h"

namespace sightline {

struct Head {
  Box box;               // the head, pixels, inside the picture
  Box face;              // what the detector found, pixels
  double score = 0;      // of the detector, 0..1
  bool clipped = false;  // the head box was cut at the picture's edge
};

struct HeadOptions {
  double threshold = 0.5;
  int max_heads = 10;  // the best by score are kept
};

struct HeadsFound {
  std::vector<Head> heads;  // left to right, then top to bottom
  int above_threshold = 0;  // how many there were before max_heads
};

// Owns the network (built into the program). Detect may be called from any thread; calls run one at a time and use
// DefaultThreadCount() threads of OpenCV's pool, which sleeps between calls. The picture is scaled down (never up) to a
// long side of 960, above 2 megapixels 1280; one with a side below 8 pixels holds no head. Memory: about 30 MB, after a
// picture of the largest kind up to 460 MB.
// Errors: kInvalidRequest (options out of range), kOutOfMemory, kInternal.
class HeadDetector {
 public:
  static Result<std::unique_ptr<HeadDetector>> Load();
  ~HeadDetector();
  Result<HeadsFound> Detect(const Image& image, const HeadOptions& options);

 private:
  HeadDetector();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sightline
