// Private: device memory of the CPU backend.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"

namespace sightline::cpu {

// Blocks by size class. A block whose last handle goes returns here and is handed out again, never to the system: fresh
// memory costs more than any operation on it. Blocks start on a cache line; big ones lie in huge pages. Not
// thread-safe. Handles may outlive the pool.
class MemoryPool {
 public:
  MemoryPool();

  // At least `bytes`; contents are undefined. Throws std::bad_alloc where the system refuses.
  std::shared_ptr<DeviceBlock> Take(size_t bytes);
  // Ever taken from the system.
  size_t allocated_bytes() const;

 private:
  class Block;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sightline::cpu
