#include "heads/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <tuple>

#include "heads/centerface.h"
#include "heads/face_decoder.h"

namespace sightline {
namespace {

// The network finds no face of fewer than about 10 pixels.
constexpr int kSmallestSide = 8;
constexpr double kOverlapLimit = 0.3;  // IoU, as in the reference

// Large pictures tend to hold many small faces: a longer side finds them, at the price of time.
constexpr int64_t kLargePicture = 2'000'000;  // pixels
constexpr int64_t kLongSide = 960;
constexpr int64_t kLongSideOfLarge = 1280;

struct Size {
  int width = 0;
  int height = 0;
};

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Scaled down (never up) to the long side, then each side up to the multiple that the network needs.
Size InputSize(const Image& image) {
  const int64_t pixels = static_cast<int64_t>(image.width) * image.height;
  const int64_t longest = std::max(image.width, image.height);
  const int64_t target = std::min(longest, pixels > kLargePicture ? kLongSideOfLarge : kLongSide);
  const auto side = [&](int64_t length) {
    const int64_t scaled = DivideUp(length * target, longest);
    return static_cast<int>(DivideUp(scaled, CenterFace::kSideMultiple) * CenterFace::kSideMultiple);
  };
  return {side(image.width), side(image.height)};
}

Status CheckOptions(const HeadOptions& options) {
  if (!(options.threshold >= 0 && options.threshold <= 1)) {
    return Fail(Code::kInvalidRequest, fmt::format("head threshold is {}, expected 0 to 1", options.threshold));
  }
  if (options.max_heads < 0) {
    return Fail(Code::kInvalidRequest, fmt::format("max_heads is {}, expected 0 or more", options.max_heads));
  }
  return {};
}

bool LeftThenTop(const Head& a, const Head& b) {
  return std::tie(a.box.x1, a.box.y1, a.box.x2, a.box.y2) < std::tie(b.box.x1, b.box.y1, b.box.x2, b.box.y2);
}

}  // namespace

struct HeadDetector::State {
  std::mutex mutex;
  std::unique_ptr<CenterFace> center_face;  // guarded by mutex
};

HeadDetector::HeadDetector() : state_(std::make_unique<State>()) {}
HeadDetector::~HeadDetector() = default;

Result<std::unique_ptr<HeadDetector>> HeadDetector::Load() {
  std::unique_ptr<HeadDetector> detector(new HeadDetector);
  SIGHTLINE_ASSIGN_OR_RETURN(detector->state_->center_face, CenterFace::Load());
  return detector;
}

Result<HeadsFound> HeadDetector::Detect(const Image& image, const HeadOptions& options) {
  SIGHTLINE_RETURN_IF_ERROR(CheckOptions(options));
  if (std::min(image.width, image.height) < kSmallestSide) return HeadsFound{};

  const Size size = InputSize(image);
  const Image input = ResizePillowBilinear(image, size.width, size.height);
  FaceMaps maps;
  {
    const std::lock_guard lock(state_->mutex);
    SIGHTLINE_ASSIGN_OR_RETURN(maps, state_->center_face->Run(input));
  }

  const auto all = DecodeFaces(maps, options.threshold, image.width, image.height);
  const auto faces = SuppressOverlaps(all, kOverlapLimit);
  HeadsFound found;
  found.above_threshold = static_cast<int>(faces.size());
  for (const Face& face : faces) {
    if (std::ssize(found.heads) == options.max_heads) break;
    found.heads.push_back(WidenToHead(face, image.width, image.height));
  }
  std::sort(found.heads.begin(), found.heads.end(), LeftThenTop);
  return found;
}

}  // namespace sightline
