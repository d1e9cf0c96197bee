#include "backend/cpu/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace sightline::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallest = 4096;

// Powers of two, so that batches of many sizes share blocks. What a block has too much is never touched, and memory
// that is never touched is address space only.
size_t SizeClass(size_t bytes) { return std::bit_ceil(std::max(bytes, kSmallest)); }

// Memory from the system, returned when this dies.
class SystemMemory {
 public:
  explicit SystemMemory(size_t bytes) : bytes_(bytes) {
    const size_t alignment = bytes < kHugePage ? kCacheLine : kHugePage;
    data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}));
    alignment_ = alignment;
    // Advice only: where huge pages are off, plain ones do.
    if (alignment == kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~SystemMemory() { ::operator delete (data_, std::align_val_t{alignment_}); }
  SystemMemory(const SystemMemory&) = delete;
  SystemMemory& operator=(const SystemMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
  size_t alignment_ = 0;
};

}  // namespace

struct MemoryPool::State {
  std::map<size_t, std::vector<std::unique_ptr<SystemMemory>>> free;  // by size class
  size_t allocated_bytes = 0;
};

class MemoryPool::Block : public DeviceBlock {
 public:
  Block(std::shared_ptr<State> state, std::unique_ptr<SystemMemory> memory)
      : state_(std::move(state)), memory_(std::move(memory)) {
    data = memory_->data();
    bytes = memory_->bytes();
  }
  ~Block() override { state_->free[memory_->bytes()].push_back(std::move(memory_)); }

 private:
  std::shared_ptr<State> state_;
  std::unique_ptr<SystemMemory> memory_;
};

MemoryPool::MemoryPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<DeviceBlock> MemoryPool::Take(size_t bytes) {
  const size_t size = SizeClass(bytes);
  auto& free = state_->free[size];
  std::unique_ptr<SystemMemory> memory;
  if (free.empty()) {
    memory = std::make_unique<SystemMemory>(size);
    state_->allocated_bytes += size;
  } else {
    memory = std::move(free.back());
    free.pop_back();
  }
  return std::make_shared<Block>(state_, std::move(memory));
}

size_t MemoryPool::allocated_bytes() const { return state_->allocated_bytes; }

}  // namespace sightline::cpu
