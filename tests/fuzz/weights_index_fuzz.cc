// The index of a model folder over any bytes, beside one good shard.
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "tests/support/temporary_folder.h"
#include "tests/support/torch_archive.h"
#include "weights/weights.h"

namespace sightline {
namespace {

const std::filesystem::path& Folder() {
  static const TemporaryFolder folder;
  static const bool made = [] {
    const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    std::ofstream(folder.path() / "s.safetensors") << LittleEndian<uint64_t>(header.size()) << header << 'x';
    return true;
  }();
  if (!made) std::abort();
  return folder.path();
}

}  // namespace
}  // namespace sightline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  std::ofstream(Folder() / "model.safetensors.index.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto folder = CheckpointFolder::Open(Folder());
  if (!folder && folder.error().code != Code::kCorruptWeights) std::abort();
  if (folder && folder->names().size() > 1) std::abort();
  return 0;
}
