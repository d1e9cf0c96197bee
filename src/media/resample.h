// Separable resampling with a window of inputs for each output.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "media/media.h"

namespace sightline {

// A filter along one axis: output i is the weighted sum of the inputs [first, first + count), with the weights from
// `weights[begin]` on.
template <typename Weight>
struct Axis {
  struct Window {
    int first;
    int count;
    size_t begin;
  };
  std::vector<Window> windows;
  std::vector<Weight> weights;

  int size() const { return static_cast<int>(windows.size()); }
  std::span<const Weight> WeightsOf(const Window& window) const {
    return std::span(weights).subspan(window.begin, static_cast<size_t>(window.count));
  }
};

// Triangle of half width 1.
template <typename Real>
Real Triangle(Real x) {
  x = x < 0 ? -x : x;
  return x < 1 ? 1 - x : 0;
}

// Calls horizontal(y, row) once for every input row in order, and vertical(i, rows) for every output row i with the
// rows its window covers. Only the rows of one window are kept.
template <typename Sample, typename Weight, typename Horizontal, typename Vertical>
void ResizeRows(const Axis<Weight>& axis, size_t samples_per_row, Horizontal horizontal, Vertical vertical) {
  int kept = 0;
  for (const auto& window : axis.windows) kept = std::max(kept, window.count);
  std::vector<Sample> ring(static_cast<size_t>(kept) * samples_per_row);
  const auto row_of = [&](int y) { return ring.data() + static_cast<size_t>(y % kept) * samples_per_row; };

  int done = 0;
  std::vector<const Sample*> rows;
  for (int i = 0; i < axis.size(); ++i) {
    const auto& window = axis.windows[static_cast<size_t>(i)];
    for (; done < window.first + window.count; ++done) horizontal(done, row_of(done));
    rows.clear();
    for (int j = 0; j < window.count; ++j) rows.push_back(row_of(window.first + j));
    vertical(i, rows);
  }
}

inline void CheckImage(const Image& image) {
  SIGHTLINE_CHECK(image.width > 0 && image.height > 0);
  SIGHTLINE_CHECK(image.rgb.size() == static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
}

inline const uint8_t* RowOf(const Image& image, int y) {
  return image.rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(image.width) * 3;
}

}  // namespace sightline
