// torch.save since 1.6: a zip archive with <folder>/data.pkl and one entry <folder>/data/<key> per storage.
// Source: pytorch torch/serialization.py (_save, _load) and caffe2/serialize/inline_container.cc.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "weights/checkpoint_formats.h"
#include "weights/pickle.h"
#include "weights/pickled_tensors.h"
#include "weights/zip_reader.h"

namespace sightline {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

class TorchArchive {
 public:
  TorchArchive(std::vector<ZipEntry> entries, size_t file_bytes, std::string_view source)
      : entries_(std::move(entries)), file_bytes_(file_bytes), source_(source) {
    for (const ZipEntry& entry : entries_) by_name_.emplace(entry.name, &entry);
  }

  Result<CheckpointContent> Read() {
    SIGHTLINE_RETURN_IF_ERROR(FindFolder());
    SIGHTLINE_RETURN_IF_ERROR(CheckKind());
    const ZipEntry& entry = *Find("data.pkl");
    SIGHTLINE_RETURN_IF_ERROR(CheckCrc(entry));
    SIGHTLINE_ASSIGN_OR_RETURN(const Pickle pickle, RunPickle(entry.bytes, source_));
    if (pickle.size != entry.bytes.size()) {
      return Corrupt(source_,
                     fmt::format("the pickle ends {} bytes before data.pkl does", entry.bytes.size() - pickle.size));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const auto storages, FindStorages(pickle));
    CheckpointContent content;
    SIGHTLINE_ASSIGN_OR_RETURN(content.tensors, NameTensors(pickle, storages, file_bytes_, source_));
    for (const ZipEntry& part : entries_) content.checksums.push_back({part.name, part.bytes, part.crc32});
    if (const ZipEntry* note = Find(kNoteEntry); note != nullptr && note->bytes.size() <= kMaxNoteBytes) {
      content.note.assign(reinterpret_cast<const char*>(note->bytes.data()), note->bytes.size());
    }
    return content;
  }

 private:
  const ZipEntry* Find(std::string_view name) const {
    const auto found = by_name_.find(folder_ + std::string(name));
    return found == by_name_.end() ? nullptr : found->second;
  }

  // The folder has the name of the file when it was saved, which may be anything.
  Status FindFolder() {
    const auto is_pickle = [](const ZipEntry& entry) { return entry.name.ends_with(kPickleName); };
    const auto count = std::ranges::count_if(entries_, is_pickle);
    if (count != 1) {
      return Corrupt(source_, fmt::format("the zip archive has {} entries named data.pkl in a folder, expected one as "
                                          "in torch checkpoints",
                                          count));
    }
    const std::string_view name = std::ranges::find_if(entries_, is_pickle)->name;
    folder_ = name.substr(0, name.size() - kPickleName.size() + 1);
    return {};
  }

  Status CheckKind() const {
    if (Find("constants.pkl") != nullptr) {
      return Corrupt(source_, "is a TorchScript program, expected a checkpoint (a dictionary of tensors)");
    }
    const ZipEntry* order = Find("byteorder");
    if (order == nullptr) return {};  // torch before 2.1
    const std::string_view text(reinterpret_cast<const char*>(order->bytes.data()), order->bytes.size());
    if (text == "little") return {};
    return Corrupt(source_, fmt::format("has byte order {}, expected little", Printable(text)));
  }

  Status CheckCrc(const ZipEntry& entry) const {
    if (entry.crc32 == 0 || ZipCrc32(entry.bytes) == entry.crc32) return {};
    return Corrupt(source_,
                   fmt::format("{} does not have the CRC-32 that the zip directory says", Printable(entry.name)));
  }

  Result<std::vector<std::span<const std::byte>>> FindStorages(const Pickle& pickle) const {
    std::vector<std::span<const std::byte>> storages;
    storages.reserve(pickle.storages.size());
    for (const PickleStorage& storage : pickle.storages) {
      const ZipEntry* entry = Find("data/" + std::string(storage.key));
      if (storage.key.find_first_of("/\\") != storage.key.npos || entry == nullptr) {
        return Corrupt(source_, fmt::format("the zip archive has no storage {}", Printable(storage.key)));
      }
      SIGHTLINE_ASSIGN_OR_RETURN(const auto bytes, StorageBytes(storage, entry->bytes, source_));
      storages.push_back(bytes);
    }
    return storages;
  }

  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, const ZipEntry*> by_name_;
  std::string folder_;
  size_t file_bytes_;
  std::string_view source_;
};

}  // namespace

Result<CheckpointContent> ReadTorchZip(std::span<const std::byte> file, std::string_view source) {
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<ZipEntry> entries, ReadZip(file, source));
  return TorchArchive(std::move(entries), file.size(), source).Read();
}

}  // namespace sightline
