// Opening a file for reading without being caught by what else a path can name.
#pragma once

#include <sys/stat.h>

#include <string_view>

#include "base/base.h"

namespace sightline {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int value() const { return value_; }

 private:
  int value_;
};

struct RegularFile {
  Descriptor descriptor;
  struct stat status;
};

// Opens for reading; folders, pipes, sockets and devices are kInvalidRequest, and none of them can block the call.
Result<RegularFile> OpenRegularFile(const std::filesystem::path& path);

// "a folder", "a pipe", "a socket", "a device"; empty for a regular file.
std::string_view KindUnlessRegular(mode_t mode);

}  // namespace sightline
