// Private: how the blocks of a product are handed out.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/base.h"

namespace sightline::cpu {

// Every member of a team goes through a part of its own from one end to the other, so that it finds its rows in its
// cache and reads its own part of the weights as it lies; then through what others have left.
class BlockShares {
 public:
  explicit BlockShares(int members) : shares_(static_cast<size_t>(members)) {}

  // Shares out blocks [0, blocks). No member may be taking any.
  void Start(int64_t blocks) {
    const auto members = static_cast<int64_t>(shares_.size());
    for (int64_t i = 0; i < members; ++i) {
      Share& share = shares_[static_cast<size_t>(i)];
      share.next.store(blocks * i / members, std::memory_order_relaxed);
      share.end = blocks * (i + 1) / members;
      share.rows_in_tiles = -1;
    }
  }

  // A block, each once. Any member; in all at most as often as there are blocks.
  int64_t Take(int member) {
    for (size_t i = 0; i < shares_.size(); ++i) {
      Share& share = shares_[(static_cast<size_t>(member) + i) % shares_.size()];
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      const int64_t block = share.next.fetch_add(1, std::memory_order_relaxed);
      if (block < share.end) return block;
    }
    SIGHTLINE_CHECK(false);
    return 0;
  }

  // The block of rows that this member has in tiles, -1: none. Only for the member itself.
  int64_t& rows_in_tiles(int member) { return shares_[static_cast<size_t>(member)].rows_in_tiles; }

 private:
  // Two cache lines, because processors fetch them in pairs.
  struct alignas(128) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
    int64_t rows_in_tiles = -1;
  };
  std::vector<Share> shares_;
};

}  // namespace sightline::cpu
