// Private: sizes of rows by storage.
#pragma once

#include "backend/backend.h"

namespace sightline {

inline size_t ElementBytes(Storage storage) { return storage == Storage::kOperandBF16 ? 2 : 4; }
inline size_t RowBytes(const Rows& rows) { return static_cast<size_t>(rows.columns) * ElementBytes(rows.storage); }
inline std::byte* DataOf(const Rows& rows) { return rows.block->data + rows.offset; }

}  // namespace sightline
