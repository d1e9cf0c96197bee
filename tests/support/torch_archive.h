// Builds torch checkpoints byte by byte, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace sightline {

template <typename Integer>
std::string LittleEndian(Integer value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

struct ArchiveEntry {
  std::string name, content;
};

// A zip archive with stored entries, no CRCs, sizes in both headers.
class ArchiveBuilder {
 public:
  std::string comment;
  bool zip64_sizes = false;  // directory rows say all ones and have a 64-bit extra field
  bool zip64 = false;        // writes the 64-bit end record, and all ones in the classic one
  uint16_t flags = 0;        // of every entry
  std::string extra = "FB"   // padding as torch writes it: in the local header only
                      + LittleEndian<uint16_t>(3) + "ZZZ";

  std::string Build(const std::vector<ArchiveEntry>& entries) const {
    std::string file, directory;
    for (const ArchiveEntry& entry : entries) {
      const auto offset = static_cast<uint32_t>(file.size());
      file += LittleEndian(0x04034b50u) + Fields(entry) + LittleEndian(static_cast<uint16_t>(extra.size())) +
              entry.name + extra + entry.content;
      directory += LittleEndian(0x02014b50u) + std::string(2, '\0') + Row(entry, offset);
    }
    const uint64_t start = file.size(), size = directory.size(), count = entries.size();
    file += directory;
    if (zip64) {
      file += LittleEndian(0x06064b50u) + LittleEndian<uint64_t>(44) + std::string(12, '\0') + LittleEndian(count) +
              LittleEndian(count) + LittleEndian(size) + LittleEndian(start);
      file += LittleEndian(0x07064b50u) + LittleEndian(0u) + LittleEndian(start + size) + LittleEndian(1u);
    }
    file += LittleEndian(0x06054b50u) + std::string(4, '\0');
    file += zip64 ? std::string(12, '\xff')
                  : LittleEndian(static_cast<uint16_t>(count)) + LittleEndian(static_cast<uint16_t>(count)) +
                        LittleEndian(static_cast<uint32_t>(size)) + LittleEndian(static_cast<uint32_t>(start));
    return file + LittleEndian(static_cast<uint16_t>(comment.size())) + comment;
  }

 private:
  // From the flags to the end of a directory row.
  std::string Row(const ArchiveEntry& entry, uint32_t offset) const {
    const std::string fields = Fields(entry), zeros(10, '\0');
    if (!zip64_sizes) return fields + std::string(2, '\0') + zeros + LittleEndian(offset) + entry.name;
    const auto size = LittleEndian(uint64_t{entry.content.size()});
    return fields.substr(0, 14) + std::string(8, '\xff') + fields.substr(22) + LittleEndian(uint16_t{36}) + zeros +
           std::string(4, '\xff') + entry.name + LittleEndian(uint16_t{9}) + LittleEndian(uint16_t{4}) + "skip" +
           LittleEndian(uint16_t{1}) + LittleEndian(uint16_t{24}) + size + size + LittleEndian(uint64_t{offset});
  }
  // From the version to the length of the name: the same in both headers.
  std::string Fields(const ArchiveEntry& entry) const {
    const auto size = LittleEndian(static_cast<uint32_t>(entry.content.size()));
    return std::string(2, '\0') + LittleEndian(flags) + std::string(10, '\0') + size + size +
           LittleEndian(static_cast<uint16_t>(entry.name.size()));
  }
};

inline std::string PickledString(std::string_view text) {
  return "X" + LittleEndian(static_cast<uint32_t>(text.size())) + std::string(text);
}
inline std::string PickledInteger(int64_t value) { return "\x8a\x08" + LittleEndian(value); }
inline std::string PickledTuple(const std::vector<int64_t>& values) {
  std::string text = "(";
  for (const int64_t value : values) text += PickledInteger(value);
  return text + "t";
}

struct PickledTensor {
  std::string storage_class = "FloatStorage", key = "0";
  int64_t elements = 6, offset = 0;
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
  std::string more_arguments;

  std::string Record() const {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + PickledString("storage") + "ctorch\n" + storage_class + "\n" +
           PickledString(key) + PickledString("cpu") + PickledInteger(elements) + "tQ" + PickledInteger(offset) +
           PickledTuple(shape) + PickledTuple(strides) + "\x89" + "ccollections\nOrderedDict\n)R" + more_arguments +
           "tR";
  }
};

// A dictionary with the items that `items` pushes: key, value, key, value, ...
inline std::string PickledDictionary(const std::string& items) { return "\x80\x02}(" + items + "u."; }

// A file whose dictionary is {"w": tensor}; `storage` is what lies under key 0.
inline std::string ArchiveOf(const PickledTensor& tensor, const std::string& storage = std::string(24, 'A')) {
  const std::string pickle = PickledDictionary(PickledString("w") + tensor.Record());
  return ArchiveBuilder().Build({{"m/data.pkl", pickle}, {"m/data/0", storage}, {"m/version", "3\n"}});
}
// A file with that pickle and a storage of 6 floats under key 0.
inline std::string ArchiveOfPickle(const std::string& pickle) {
  return ArchiveBuilder().Build({{"m/data.pkl", pickle}, {"m/data/0", std::string(24, 'A')}});
}

}  // namespace sightline
