// Writing an image from folders and files.
#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <set>

#include "oci/blob.h"
#include "oci/documents.h"
#include "oci/tar_writer.h"
#include "oci/tree.h"

namespace sightline {
namespace {

// Compresses into a file, digests on both sides. One thread.
class GzipBlob {
 public:
  static Result<std::unique_ptr<GzipBlob>> Create(const std::filesystem::path& folder) {
    SIGHTLINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder / "layer"));
    auto blob = std::unique_ptr<GzipBlob>(new GzipBlob(std::move(file)));
    archive* writer = blob->writer_.get();
    if (writer == nullptr || archive_write_set_format_raw(writer) != ARCHIVE_OK ||
        archive_write_add_filter_gzip(writer) != ARCHIVE_OK ||
        archive_write_set_filter_option(writer, "gzip", "timestamp", nullptr) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(writer, 1) != ARCHIVE_OK ||  // no padding
        archive_write_open(writer, blob.get(), nullptr, &Append, nullptr) != ARCHIVE_OK) {
      return Fail(Code::kInternal, "libarchive cannot write gzip");
    }
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    if (archive_write_header(writer, entry.get()) != ARCHIVE_OK)
      return Fail(Code::kInternal, "libarchive cannot write gzip");
    return blob;
  }

  Status Write(std::span<const std::byte> bytes) {
    unpacked_.Update(bytes);
    return archive_write_data(writer_.get(), bytes.data(), bytes.size()) < 0 ? Failed() : Status();
  }

  // Gives the blob its name in the layout.
  Result<OciDescriptor> Finish(const std::filesystem::path& layout, std::string* diff_id) {
    if (archive_write_close(writer_.get()) != ARCHIVE_OK) return tl::make_unexpected(Failed().error());
    *diff_id = std::string(kDigestPrefix) + unpacked_.HexDigest();
    OciDescriptor layer{std::string(kLayerType), std::string(kDigestPrefix) + packed_.HexDigest(), file_.size()};
    SIGHTLINE_RETURN_IF_ERROR(file_.Commit());
    std::error_code problem;
    std::filesystem::rename(layout / "blobs/sha256/layer", BlobPath(layout, layer.digest), problem);
    if (problem) return tl::make_unexpected(ErrnoError("write", BlobPath(layout, layer.digest), problem.value()));
    return layer;
  }

 private:
  explicit GzipBlob(AtomicFile file) : file_(std::move(file)), writer_(archive_write_new(), archive_write_free) {}

  static la_ssize_t Append(archive*, void* self, const void* data, size_t size) {
    auto& blob = *static_cast<GzipBlob*>(self);
    const std::span bytes(static_cast<const std::byte*>(data), size);
    blob.packed_.Update(bytes);
    blob.failure_ = blob.failure_ ? blob.file_.Write(bytes) : blob.failure_;
    return blob.failure_ ? static_cast<la_ssize_t>(size) : -1;
  }
  Status Failed() const {
    return failure_ ? Fail(Code::kInternal, fmt::format("gzip: {}", archive_error_string(writer_.get()))) : failure_;
  }

  AtomicFile file_;
  Sha256 unpacked_, packed_;
  Status failure_;
  std::unique_ptr<archive, decltype(&archive_write_free)> writer_;  // last: it writes when it ends
};

struct LayerMember {
  std::string name;  // in the image, without the leading slash
  TreeEntry entry;
};

// "/usr/bin/x" to "usr/bin/x"; kInvalidRequest for "..", relative names and the like.
Result<std::string> NameInImage(const std::string& target) {
  const auto path = std::filesystem::path(target);
  for (const auto& part : path) {
    if (part == ".." || !path.is_absolute()) {
      return Fail(Code::kInvalidRequest, fmt::format("the target {} in the image is not an absolute name", target));
    }
  }
  std::string name = path.lexically_normal().string().substr(1);
  while (name.ends_with('/')) name.pop_back();
  return name;
}

void AddParents(const std::string& name, std::set<std::string>* folders) {
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    folders->insert(name.substr(0, slash));
  }
}

// All members of a layer in order, the folders above the target among them.
Result<std::vector<LayerMember>> MembersOf(const OciLayerSource& source) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string target, NameInImage(source.target));
  std::vector<LayerMember> members;
  std::set<std::string> folders;
  AddParents(target, &folders);
  std::error_code ignored;
  if (std::filesystem::is_directory(source.source, ignored)) {
    SIGHTLINE_ASSIGN_OR_RETURN(std::vector<TreeEntry> entries, ListTree(source.source, Links::kKeep));
    if (!target.empty()) folders.insert(target);
    for (TreeEntry& entry : entries) {
      std::string name = target.empty() ? entry.name : target + "/" + entry.name;
      members.push_back({std::move(name), std::move(entry)});
    }
  } else {
    TreeEntry entry{target, source.source};
    if (target.empty()) return Fail(Code::kInvalidRequest, "a file needs a name in the image, not /");
    std::error_code problem;
    entry.size = std::filesystem::file_size(source.source, problem);
    if (problem) return tl::make_unexpected(ErrnoError("read", source.source, problem.value()));
    using std::filesystem::perms;
    const auto mode = std::filesystem::status(source.source, problem).permissions();
    entry.executable = (mode & perms::owner_exec) != perms::none;
    members.push_back({target, std::move(entry)});
  }
  for (const std::string& folder : folders) {
    members.push_back({folder, TreeEntry{folder, {}, TreeEntry::Kind::kFolder}});
  }
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return members;
}

Status WriteMember(const LayerMember& member, TarWriter* tar, Transfer* transfer) {
  const TreeEntry& entry = member.entry;
  if (entry.kind == TreeEntry::Kind::kFolder) return tar->Folder(member.name);
  if (entry.kind == TreeEntry::Kind::kLink) return tar->Link(member.name, entry.target);
  return tar->File(member.name, entry.path, entry.size, entry.executable,
                   [transfer](uint64_t bytes) { return transfer->Add(bytes); });
}

Result<OciDescriptor> WriteLayer(const std::vector<LayerMember>& members, const std::filesystem::path& layout,
                                 Transfer* transfer, std::string* diff_id) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto blob, GzipBlob::Create(layout / "blobs/sha256"));
  const auto write = [&blob](std::span<const std::byte> bytes) { return blob->Write(bytes); };
  TarWriter tar(write);
  for (const LayerMember& member : members) SIGHTLINE_RETURN_IF_ERROR(WriteMember(member, &tar, transfer));
  SIGHTLINE_RETURN_IF_ERROR(tar.End());
  return blob->Finish(layout, diff_id);
}

Result<OciDescriptor> WriteBlob(const std::filesystem::path& layout, std::string_view media_type,
                                const std::string& content) {
  OciDescriptor blob{std::string(media_type), DigestOf(content), content.size()};
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(BlobPath(layout, blob.digest), content));
  return blob;
}

Status CheckRecipe(const OciImageRecipe& recipe) {
  const std::string& reference = recipe.reference;
  const bool plain = reference.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:") == std::string::npos;
  if (!plain) return Fail(Code::kInvalidRequest, fmt::format("'{}' is no name of an image", reference));
  for (const auto& [name, value] : recipe.runs.environment) {
    if (!name.empty() && name.find('=') == std::string::npos) continue;
    return Fail(Code::kInvalidRequest, fmt::format("'{}' is no name of an environment variable", name));
  }
  return {};
}

}  // namespace

Result<OciImage> WriteOciImage(const OciImageRecipe& recipe, const std::filesystem::path& folder,
                               const TransferOptions& options) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRecipe(recipe));
  SIGHTLINE_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  UnfinishedFolder unfinished(folder);
  std::error_code problem;
  std::filesystem::create_directories(folder / "blobs/sha256", problem);
  if (problem) return tl::make_unexpected(ErrnoError("write", folder, problem.value()));
  std::vector<std::vector<LayerMember>> layers;
  uint64_t total = 0;
  for (const OciLayerSource& source : recipe.layers) {
    SIGHTLINE_ASSIGN_OR_RETURN(layers.emplace_back(), MembersOf(source));
    for (const LayerMember& member : layers.back()) total += member.entry.size;
  }
  Transfer transfer(options, total);
  ManifestDocument manifest;
  ConfigDocument config{recipe.runs, {}};
  for (const auto& members : layers) {
    std::string diff_id;
    SIGHTLINE_ASSIGN_OR_RETURN(OciDescriptor layer, WriteLayer(members, folder, &transfer, &diff_id));
    manifest.layers.push_back(std::move(layer));
    config.diff_ids.push_back(std::move(diff_id));
  }
  manifest.annotations = recipe.annotations;
  SIGHTLINE_ASSIGN_OR_RETURN(manifest.config, WriteBlob(folder, kConfigType, WriteConfig(config)));
  SIGHTLINE_ASSIGN_OR_RETURN(const OciDescriptor written, WriteBlob(folder, kManifestType, WriteManifest(manifest)));
  const std::string docker = WriteDockerManifest(manifest.config, manifest.layers, recipe.reference);
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(folder / "manifest.json", docker));
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(folder / "index.json", WriteIndex(written, recipe.reference, recipe.runs)));
  SIGHTLINE_RETURN_IF_ERROR(WriteDocument(folder / "oci-layout", kLayoutDocument));
  SIGHTLINE_ASSIGN_OR_RETURN(OciLayout layout, OpenOciLayout(folder));
  unfinished.Keep();
  return std::move(layout.images.front());
}

}  // namespace sightline
