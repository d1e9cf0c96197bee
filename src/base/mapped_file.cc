#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/base.h"
#include "base/regular_file.h"

namespace sightline {

struct MappedFile::Mapping {
  Mapping(std::filesystem::path name, const struct stat& status)
      : path(std::move(name)), modified_ns(status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address != nullptr) ::munmap(address, size);
  }

  std::filesystem::path path;
  int64_t modified_ns;
  void* address = nullptr;
  size_t size = 0;
};

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(const RegularFile file, OpenRegularFile(path));
  auto mapping = std::make_shared<Mapping>(path, file.status);
  if (const auto size = static_cast<size_t>(file.status.st_size); size > 0) {  // mmap refuses zero bytes
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor.value(), 0);
    if (address == MAP_FAILED) return tl::make_unexpected(ErrnoError("map", path, errno));
    ::madvise(address, size, MADV_HUGEPAGE);  // where the kernel has large pages for files, they are read faster
    mapping->address = address;
    mapping->size = size;
  }
  MappedFile mapped;
  mapped.mapping_ = std::move(mapping);
  return mapped;
}

std::span<const std::byte> MappedFile::bytes() const {
  if (mapping_ == nullptr) return {};
  return {static_cast<const std::byte*>(mapping_->address), mapping_->size};
}

const std::filesystem::path& MappedFile::path() const {
  static const std::filesystem::path kNone;
  return mapping_ == nullptr ? kNone : mapping_->path;
}

int64_t MappedFile::modified_ns() const { return mapping_ == nullptr ? 0 : mapping_->modified_ns; }

void MappedFile::Populate() const {
  if (bytes().empty()) return;
  // Before Linux 5.14 there is only the hint.
  if (::madvise(mapping_->address, mapping_->size, MADV_POPULATE_READ) == 0) return;
  ::madvise(mapping_->address, mapping_->size, MADV_WILLNEED);
}

void ReleasePages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  // Whole pages only: the first and the last may hold other people's bytes.
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(mapped.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(mapped.data() + mapped.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::shared_ptr<const void> MappedFile::owner() const { return mapping_; }

}  // namespace sightline
