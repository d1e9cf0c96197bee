// The documents of an image layout over any bytes: the index, and through it a manifest and a config of any content.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "oci/oci.h"
#include "tests/support/temporary_folder.h"

namespace sightline {
namespace {

const std::filesystem::path& Folder() {
  static const TemporaryFolder folder;
  static const bool made = [] {
    std::filesystem::create_directories(folder.path() / "blobs/sha256");
    std::ofstream(folder.path() / "oci-layout") << R"({"imageLayoutVersion":"1.0.0"})";
    return true;
  }();
  if (!made) std::abort();
  return folder.path();
}

std::string Describe(const std::string& content, const std::string& type) {
  const std::string hex = Sha256Hex(AsBytes(content));
  std::ofstream(Folder() / "blobs/sha256" / hex, std::ios::binary) << content;
  return R"({"mediaType":")" + type + R"(","digest":"sha256:)" + hex + R"(","size":)" + std::to_string(content.size()) +
         "}";
}

}  // namespace
}  // namespace sightline

// The first byte says which of the three documents the rest is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string index = text;
  if (data[0] % 3 != 0) {
    const bool config = data[0] % 3 == 2;
    const std::string manifest = config ? R"({"schemaVersion":2,"config":)" +
                                              Describe(text, "application/vnd.oci.image.config.v1+json") +
                                              R"(,"layers":[]})"
                                        : text;
    index =
        R"({"schemaVersion":2,"manifests":[)" + Describe(manifest, "application/vnd.oci.image.manifest.v1+json") + "]}";
  }
  std::ofstream(Folder() / "index.json", std::ios::binary) << index;
  const auto layout = OpenOciLayout(Folder());
  if (layout) {
    (void)VerifyOciLayout(*layout);
  } else if (layout.error().code != Code::kInvalidRequest && layout.error().code != Code::kNotFound &&
             layout.error().code != Code::kCorruptWeights) {
    std::abort();
  }
  for (const auto& blob : std::filesystem::directory_iterator(Folder() / "blobs/sha256")) std::filesystem::remove(blob);
  return 0;
}
