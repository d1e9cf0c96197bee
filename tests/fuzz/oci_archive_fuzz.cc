// Unpacking any bytes: nothing may appear outside the folder, and no link in it may lead out.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "oci/oci.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

bool LeadsOut(const std::filesystem::path& link, const std::filesystem::path& root) {
  const auto target = std::filesystem::read_symlink(link);
  if (target.is_absolute()) return true;
  const auto end = (link.parent_path() / target).lexically_normal().lexically_relative(root.lexically_normal());
  return !end.empty() && *end.begin() == "..";
}

}  // namespace
}  // namespace sightline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const TemporaryFolder outer;
  const auto folder = outer.path() / "inner";
  const auto bytes = std::as_bytes(std::span(data, size));
  size_t at = 0;
  const auto source = [&](std::span<std::byte> to) -> Result<size_t> {
    const size_t count = std::min(to.size(), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, to.begin());
    at += count;
    return count;
  };
  UnpackLimits limits;
  limits.max_bytes = 1 << 20;
  limits.max_entries = 100;
  (void)UnpackArchive(source, folder, limits);
  for (const auto& entry : std::filesystem::directory_iterator(outer.path())) {
    if (entry.path() != folder) std::abort();
  }
  if (!std::filesystem::exists(folder)) return 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_symlink() && LeadsOut(entry.path(), folder)) std::abort();
  }
  return 0;
}
