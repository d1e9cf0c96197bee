// The archives of `docker load` and `docker save`.
#include <fmt/format.h>

#include "oci/blob.h"
#include "oci/documents.h"
#include "oci/tar_writer.h"
#include "oci/tree.h"

namespace sightline {
namespace {

// Documents that stand in the archive in place of the layout's own.
using Replaced = std::map<std::string, std::string>;

Result<Replaced> NameImage(const std::filesystem::path& folder, const std::string& reference) {
  Replaced replaced;
  SIGHTLINE_ASSIGN_OR_RETURN(const OciLayout layout, OpenOciLayout(folder));
  if (reference.empty()) return replaced;
  if (layout.images.size() != 1) {
    return Fail(Code::kInvalidRequest, fmt::format("{}: holds {} images, expected one to be named {}", folder.string(),
                                                   layout.images.size(), reference));
  }
  const OciImage& image = layout.images.front();
  OciDescriptor manifest = image.manifest;
  replaced["index.json"] = WriteIndex(manifest, reference, image.runs);
  replaced["manifest.json"] = WriteDockerManifest(image.config, image.layers, reference);
  return replaced;
}

}  // namespace

Status WriteDockerArchive(const std::filesystem::path& folder, const std::string& reference, ByteSink sink) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Replaced replaced, NameImage(folder, reference));
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<TreeEntry> entries, ListTree(folder, Links::kFollow));
  std::erase_if(entries, [&replaced](const TreeEntry& entry) { return replaced.contains(entry.name); });
  for (const auto& [name, content] : replaced) entries.push_back({name, {}});
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  TarWriter tar(sink);
  for (const TreeEntry& entry : entries) {
    if (const auto document = replaced.find(entry.name); document != replaced.end()) {
      SIGHTLINE_RETURN_IF_ERROR(tar.Content(entry.name, document->second));
    } else if (entry.kind == TreeEntry::Kind::kFolder) {
      SIGHTLINE_RETURN_IF_ERROR(tar.Folder(entry.name));
    } else {
      SIGHTLINE_RETURN_IF_ERROR(tar.File(entry.name, entry.path, entry.size, /*executable=*/false));
    }
  }
  return tar.End();
}

Status ReadDockerArchive(ByteSource source, const std::filesystem::path& folder, const TransferOptions& options) {
  SIGHTLINE_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  UnfinishedFolder unfinished(folder);
  SIGHTLINE_RETURN_IF_ERROR(UnpackArchive(source, folder, {}, options));
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "oci-layout", ignored)) {
    return Fail(Code::kUnsupported,
                "image archive: holds no oci-layout, expected one of Docker 25 or newer, or of "
                "podman save --format oci-archive");
  }
  SIGHTLINE_RETURN_IF_ERROR(OpenOciLayout(folder));
  unfinished.Keep();
  return {};
}

}  // namespace sightline
