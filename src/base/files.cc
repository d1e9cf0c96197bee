#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/base.h"
#include "base/regular_file.h"

namespace sightline {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;

Error TooLarge(const std::filesystem::path& path, size_t limit) {
  const std::string name = path == "-" ? "standard input" : path.string();
  return Error{Code::kBodyTooLarge, name + " holds more than the limit of " + std::to_string(limit) + " bytes", {}};
}

// Reads to the end. Sizes are not believed: files under /proc say 0, and a file may grow while it is read.
Result<std::vector<std::byte>> ReadDescriptor(int descriptor, const std::filesystem::path& path, size_t limit) {
  std::vector<std::byte> bytes;
  size_t used = 0;
  while (true) {
    if (bytes.size() - used < kChunkBytes) bytes.resize(std::max(used + kChunkBytes, used * 2));
    const ssize_t count = ::read(descriptor, bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::make_unexpected(ErrnoError("read", path, errno));
    if (count == 0) break;
    used += static_cast<size_t>(count);
    if (used > limit) return tl::make_unexpected(TooLarge(path, limit));
  }
  bytes.resize(used);
  return bytes;
}

Result<std::vector<std::byte>> ReadPipe(const std::filesystem::path& path, size_t limit) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.value() < 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  return ReadDescriptor(descriptor.value(), path, limit);
}

Result<std::vector<std::byte>> ReadWhole(const std::filesystem::path& path, size_t limit, Pipes pipes) {
  if (path == "-") return ReadDescriptor(STDIN_FILENO, path, limit);
  std::error_code not_there;
  if (pipes == Pipes::kRead && std::filesystem::is_fifo(path, not_there)) return ReadPipe(path, limit);
  SIGHTLINE_ASSIGN_OR_RETURN(const RegularFile file, OpenRegularFile(path));
  if (static_cast<uint64_t>(file.status.st_size) > limit) return tl::make_unexpected(TooLarge(path, limit));
  return ReadDescriptor(file.descriptor.value(), path, limit);
}

}  // namespace

std::string EnvironmentVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::vector<std::byte>> ReadFile(const std::filesystem::path& path, size_t limit, Pipes pipes) {
  try {
    return ReadWhole(path, limit, pipes);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kOutOfMemory, "cannot read " + path.string() + ": not enough memory for its content");
  }
}

Result<std::filesystem::path> CacheFolder() {
  if (const std::string own = EnvironmentVariable("SIGHTLINE_CACHE"); !own.empty()) return std::filesystem::path(own);
  // The XDG specification has relative values ignored.
  const std::filesystem::path xdg = EnvironmentVariable("XDG_CACHE_HOME");
  if (xdg.is_absolute()) return xdg / "sightline";
  if (const std::string home = EnvironmentVariable("HOME"); !home.empty()) {
    return std::filesystem::path(home) / ".cache" / "sightline";
  }
  return Fail(Code::kUsage, "cache folder: none is known, expected SIGHTLINE_CACHE, XDG_CACHE_HOME or HOME to be set");
}

}  // namespace sightline
