#include "base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace sightline {

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

std::string_view KindUnlessRegular(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Result<RegularFile> OpenRegularFile(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe that nobody writes to would otherwise hold us here for ever. It changes nothing for files.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (descriptor.value() < 0) {
    if (errno == ENXIO) return Fail(Code::kInvalidRequest, "cannot read " + path.string() + ": it is not a file");
    return tl::make_unexpected(ErrnoError("read", path, errno));
  }
  struct stat status;
  if (::fstat(descriptor.value(), &status) != 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  if (const std::string_view kind = KindUnlessRegular(status.st_mode); !kind.empty()) {
    return Fail(Code::kInvalidRequest,
                "cannot read " + path.string() + ": it is " + std::string(kind) + ", expected a file");
  }
  return RegularFile{std::move(descriptor), status};
}

}  // namespace sightline
