// Checkpoint over any bytes, and over a pickle wrapped in an archive, so that mutations reach the pickle reader instead
// of breaking the zip around it.
#include <cstdlib>

#include "tests/support/torch_archive.h"
#include "weights/weights.h"

namespace sightline {
namespace {

// Reads every element of every view; the sanitizer watches.
void Exercise(std::span<const std::byte> file) {
  const auto checkpoint = Checkpoint::FromBytes(file, "x.pt");
  if (!checkpoint) {
    if (checkpoint.error().code != Code::kCorruptWeights) std::abort();
    return;
  }
  static_cast<void>(checkpoint->Verify());
  static_cast<void>(CheckTensors(*checkpoint, std::vector<TensorSpec>{{"w", {2, 3}}}));
  size_t budget = 1 << 20;  // elements may be repeated many times, which takes long and shows nothing
  for (const std::string& name : checkpoint->names()) {
    const TensorView& view = *checkpoint->Find(name);
    const size_t bytes = static_cast<size_t>(ElementCount(view.shape)) * SizeOf(view.dtype);
    if (bytes > budget) break;
    budget -= bytes;
    static_cast<void>(CopyAsStored(view));
  }
}

}  // namespace
}  // namespace sightline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("\x80\x02}") || text.starts_with("\x80\x04\x95")) {
    Exercise(AsBytes(ArchiveOfPickle(text)));
  }
  Exercise(std::as_bytes(std::span(data, size)));
  return 0;
}
