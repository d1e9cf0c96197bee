// Private: sizes of rows by storage.
#pragma once

#include "backend/backend.h"

namespace sightline {

// Rows of kOperandInt8 are kept in groups of this many values, the last one filled up with zeros. What a group holds
// beside them is the backend's business; the room is the same on all.
inline constexpr int64_t kInt8GroupValues = 128;
inline constexpr size_t kInt8GroupBytes = 432;

inline size_t RowBytes(const Rows& rows) {
  const auto columns = static_cast<size_t>(rows.columns);
  switch (rows.storage) {
    case Storage::kStream:
    case Storage::kOperandF32:
      return columns * 4;
    case Storage::kOperandBF16:
      return columns * 2;
    case Storage::kOperandInt8:
      return (columns + kInt8GroupValues - 1) / kInt8GroupValues * kInt8GroupBytes;
  }
  return 0;
}

inline std::byte* DataOf(const Rows& rows) { return rows.block->data + rows.offset; }

}  // namespace sightline
