// torch.save before 1.6: a magic number, a protocol number, a description of the machine, the object and the list of
// storage keys, each a pickle of its own; then for every key the number of elements (int64) and the elements.
// Source: pytorch torch/serialization.py (_legacy_save, _legacy_load).
#include <fmt/format.h>

#include <unordered_map>

#include "weights/byte_cursor.h"
#include "weights/checkpoint_formats.h"
#include "weights/pickle.h"
#include "weights/pickled_tensors.h"

namespace sightline {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";  // 0x1950a86a20f9469cfc6c
constexpr int64_t kProtocol = 1001;

class LegacyFile {
 public:
  LegacyFile(std::span<const std::byte> file, std::string_view source) : file_(file), rest_(file), source_(source) {}

  Result<CheckpointContent> Read() {
    SIGHTLINE_RETURN_IF_ERROR(ReadPreamble());
    SIGHTLINE_ASSIGN_OR_RETURN(const Pickle object, Next());
    SIGHTLINE_ASSIGN_OR_RETURN(const Pickle keys, Next());
    SIGHTLINE_ASSIGN_OR_RETURN(const auto storages, ReadStorages(object, keys));
    CheckpointContent content;
    SIGHTLINE_ASSIGN_OR_RETURN(content.tensors, NameTensors(object, storages, file_.size(), source_));
    return content;
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const {
    return Corrupt(source_, fmt::format("in the torch format before 1.6, {}", what));
  }

  Result<Pickle> Next() {
    SIGHTLINE_ASSIGN_OR_RETURN(Pickle pickle, RunPickle(rest_, source_));
    rest_ = rest_.subspan(pickle.size);
    return pickle;
  }

  Status ReadPreamble() {
    SIGHTLINE_ASSIGN_OR_RETURN(const Pickle magic, Next());
    if (magic.top.kind != Kind::kBigInteger || magic.top.text != kMagic) {
      return Corrupt(source_, "is an ordinary pickle, expected a torch checkpoint");
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const Pickle protocol, Next());
    if (protocol.top.kind != Kind::kInteger || protocol.top.number != kProtocol) {
      return Bad(fmt::format("the protocol is not {}", kProtocol));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const Pickle machine, Next());
    if (machine.top.kind != Kind::kDict) return Bad("the description of the machine is no dictionary");
    const auto& items = machine.containers[static_cast<size_t>(machine.top.number)];
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].text == "little_endian" && items[i + 1].number == 0) return Bad("the byte order is big");
    }
    return {};
  }

  // Every key of the list is a storage of the object and the other way round.
  Result<std::vector<std::span<const std::byte>>> ReadStorages(const Pickle& object, const Pickle& keys) const {
    std::unordered_map<std::string_view, DType> dtypes;
    for (const PickleStorage& storage : object.storages) dtypes.emplace(storage.key, storage.dtype);
    if (keys.top.kind != Kind::kList) return Bad("the list of storages is no list");
    std::unordered_map<std::string_view, std::span<const std::byte>> by_key;
    ByteCursor cursor(rest_);
    for (const PickleValue& key : keys.containers[static_cast<size_t>(keys.top.number)]) {
      const auto dtype = dtypes.find(key.text);
      if (dtype == dtypes.end()) return Bad(fmt::format("no tensor uses storage {}", Printable(key.text)));
      int64_t count = 0;
      std::span<const std::byte> bytes;
      if (!cursor.Read(&count) || count < 0 || static_cast<uint64_t>(count) > cursor.remaining() ||
          !cursor.Take(static_cast<uint64_t>(count) * SizeOf(dtype->second), &bytes)) {
        return Bad(
            fmt::format("storage {} reaches past the end; the file is cut short or damaged", Printable(key.text)));
      }
      if (!by_key.emplace(key.text, bytes).second) {
        return Bad(fmt::format("storage {} is there twice", Printable(key.text)));
      }
    }
    if (cursor.remaining() != 0) return Bad(fmt::format("{} bytes follow the last storage", cursor.remaining()));
    return Match(object, by_key);
  }

  Result<std::vector<std::span<const std::byte>>> Match(
      const Pickle& object, const std::unordered_map<std::string_view, std::span<const std::byte>>& by_key) const {
    std::vector<std::span<const std::byte>> storages;
    storages.reserve(object.storages.size());
    for (const PickleStorage& storage : object.storages) {
      const auto found = by_key.find(storage.key);
      if (found == by_key.end()) return Bad(fmt::format("storage {} is missing", Printable(storage.key)));
      SIGHTLINE_ASSIGN_OR_RETURN(const auto bytes, StorageBytes(storage, found->second, source_));
      storages.push_back(bytes);
    }
    return storages;
  }

  std::span<const std::byte> file_, rest_;
  std::string_view source_;
};

}  // namespace

Result<CheckpointContent> ReadTorchLegacy(std::span<const std::byte> file, std::string_view source) {
  return LegacyFile(file, source).Read();
}

}  // namespace sightline
