// One file that carries a folder.
#include <fmt/format.h>

#include <set>

#include "oci/blob.h"
#include "oci/export_list.h"
#include "oci/tar_writer.h"
#include "oci/tree.h"

namespace sightline {
namespace {

constexpr const char* kListName = "sightline-export.json";
constexpr size_t kMaxListBytes = 256u << 20;

Result<ExportList> ListFolder(const std::filesystem::path& folder, const std::vector<TreeEntry>& entries,
                              Transfer* transfer) {
  ExportList list;
  for (const TreeEntry& entry : entries) {
    if (entry.name == kListName) {
      return Fail(Code::kInvalidRequest,
                  fmt::format("{}: a file of this name has no place in an export", entry.path.string()));
    }
    if (entry.kind != TreeEntry::Kind::kFile) continue;
    Sha256 sha;
    uint64_t size = 0;
    SIGHTLINE_RETURN_IF_ERROR(ReadPieces(entry.path, [&](std::span<const std::byte> bytes) {
      sha.Update(bytes);
      size += bytes.size();
      return transfer->Add(bytes.size());
    }));
    list.files.push_back({entry.name, std::string(kDigestPrefix) + sha.HexDigest(), size});
  }
  if (list.files.empty()) {
    return Fail(Code::kInvalidRequest, fmt::format("{}: holds no file to export", folder.string()));
  }
  return list;
}

Status CheckFiles(const ExportList& list, const std::filesystem::path& folder, const TransferOptions& options) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TreeEntry> entries, ListTree(folder, Links::kKeep));
  std::map<std::string, const ExportedFile*> expected;
  uint64_t total = 0;
  for (const ExportedFile& file : list.files) {
    expected.emplace(file.name, &file);
    total += file.size;
  }
  Transfer transfer(options, total);
  for (const TreeEntry& entry : entries) {
    if (entry.kind == TreeEntry::Kind::kFolder || entry.name == kListName) continue;
    const auto found = expected.find(entry.name);
    if (found == expected.end() || entry.kind == TreeEntry::Kind::kLink) {
      return Fail(Code::kInvalidRequest, fmt::format("export: {} is not in its list of files", entry.name));
    }
    const OciDescriptor blob{"", found->second->digest, found->second->size};
    SIGHTLINE_RETURN_IF_ERROR(CheckBlob(entry.path, blob, &transfer));
    expected.erase(found);
  }
  if (expected.empty()) return {};
  return Fail(Code::kInvalidRequest, fmt::format("export: {} is missing", expected.begin()->first));
}

}  // namespace

Status ExportFolder(const std::filesystem::path& folder, const std::filesystem::path& file,
                    const std::map<std::string, std::string>& notes, const TransferOptions& options) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TreeEntry> entries, ListTree(folder, Links::kFollow));
  uint64_t bytes = 0;
  for (const TreeEntry& entry : entries) bytes += entry.size;
  Transfer transfer(options, 2 * bytes);  // each file is read for its digest, and again
  SIGHTLINE_ASSIGN_OR_RETURN(ExportList list, ListFolder(folder, entries, &transfer));
  list.notes = notes;
  SIGHTLINE_ASSIGN_OR_RETURN(AtomicFile output, AtomicFile::Create(file));
  const auto sink = [&output](std::span<const std::byte> piece) { return output.Write(piece); };
  TarWriter tar(sink);
  SIGHTLINE_RETURN_IF_ERROR(tar.Content(kListName, WriteExportList(list)));
  for (const TreeEntry& entry : entries) {
    if (entry.kind == TreeEntry::Kind::kFolder) {
      SIGHTLINE_RETURN_IF_ERROR(tar.Folder(entry.name));
      continue;
    }
    SIGHTLINE_RETURN_IF_ERROR(tar.File(entry.name, entry.path, entry.size, entry.executable,
                                       [&transfer](uint64_t count) { return transfer.Add(count); }));
  }
  SIGHTLINE_RETURN_IF_ERROR(tar.End());
  return output.Commit();
}

Result<std::map<std::string, std::string>> ImportFolder(const std::filesystem::path& file,
                                                        const std::filesystem::path& folder,
                                                        const TransferOptions& options) {
  SIGHTLINE_RETURN_IF_ERROR(ReadExportNotes(file));  // before anything is written
  SIGHTLINE_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  UnfinishedFolder unfinished(folder);
  TransferOptions unpacking;
  unpacking.stop = options.stop;
  SIGHTLINE_RETURN_IF_ERROR(UnpackArchiveFile(file, folder, {}, unpacking));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(folder / kListName, kMaxListBytes));
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  SIGHTLINE_ASSIGN_OR_RETURN(const ExportList list, ParseExportList(json, file.string()));
  SIGHTLINE_RETURN_IF_ERROR(CheckFiles(list, folder, options));
  std::error_code problem;
  std::filesystem::remove(folder / kListName, problem);
  if (problem) return tl::make_unexpected(ErrnoError("write", folder / kListName, problem.value()));
  unfinished.Keep();
  return list.notes;
}

Result<std::map<std::string, std::string>> ReadExportNotes(const std::filesystem::path& file) {
  SIGHTLINE_ASSIGN_OR_RETURN(FileSource source, FileSource::Open(file));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string json, ReadFirstMember(source, kListName, kMaxListBytes, file.string()));
  SIGHTLINE_ASSIGN_OR_RETURN(ExportList list, ParseExportList(json, file.string()));
  return std::move(list.notes);
}

}  // namespace sightline
