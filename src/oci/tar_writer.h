// Writes tar so that the same members give the same bytes: POSIX.1-1988 headers (ustar), with a pax header only where a
// name or a size does not fit; time 0, owner 0:0, no names of owners.
#pragma once

#include "oci/oci.h"

namespace sightline {

// Not thread-safe; lives no longer than the sink's callable.
class TarWriter {
 public:
  explicit TarWriter(ByteSink sink) : sink_(sink) {}
  Status Folder(const std::string& name);  // without the trailing slash
  Status Link(const std::string& name, const std::string& target);
  Status Content(const std::string& name, std::string_view content);
  // The whole file, which must have exactly `size` bytes.
  Status File(const std::string& name, const std::filesystem::path& path, uint64_t size, bool executable,
              const std::function<Status(uint64_t bytes)>& progress = {});
  Status End();

 private:
  Status Header(const std::string& name, char type, uint64_t size, unsigned mode, const std::string& target);
  Status Pad(uint64_t size);

  ByteSink sink_;
};

}  // namespace sightline
