// Writes what torch.save writes for a dictionary of float32 tensors.
#include <fmt/format.h>

#include <limits>

#include "weights/byte_writer.h"
#include "weights/checkpoint_formats.h"
#include "weights/weights.h"
#include "weights/zip_reader.h"

namespace sightline {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint64_t kMaxArchive = std::numeric_limits<uint32_t>::max();

class PickleWriter {
 public:
  static std::string StateDict(std::span<const TensorSpec> tensors) {
    PickleWriter writer;
    writer.out_.Text("\x80\x02}(");
    for (size_t i = 0; i < tensors.size(); ++i) writer.Item(tensors[i], i);
    writer.out_.Text("u.");
    return writer.out_.text();
  }

 private:
  void Item(const TensorSpec& tensor, size_t index) {
    String(tensor.name);
    out_.Text("ctorch._utils\n_rebuild_tensor_v2\n((");
    String("storage");
    out_.Text("ctorch\nFloatStorage\n");
    String(std::to_string(index));
    String("cpu");
    Integer(ElementCount(tensor.shape));
    out_.Text("tQ");
    Integer(0);
    Integers(tensor.shape);
    Integers(RowMajorStrides(tensor.shape));
    out_.Text(
        "\x89"
        "ccollections\nOrderedDict\n)RtR");
  }
  void String(std::string_view text) { out_.Text("X").Put(static_cast<uint32_t>(text.size())).Text(text); }
  void Integer(int64_t value) {
    if (value <= std::numeric_limits<int32_t>::max()) {
      out_.Text("J").Put(static_cast<int32_t>(value));
    } else {
      out_.Text("\x8a\x08").Put(value);
    }
  }
  void Integers(const std::vector<int64_t>& values) {
    out_.Text("(");
    for (const int64_t value : values) Integer(value);
    out_.Text("t");
  }

  ByteWriter out_;
};

class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile file) : file_(std::move(file)) {}

  Status Add(const std::string& name, std::span<const std::byte> bytes) {
    const Entry entry{name, ZipCrc32(bytes), static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(file_.size())};
    ByteWriter header;
    header.Put(uint32_t{0x04034b50});
    Describe(entry, &header);
    const size_t padding = Padding(entry);
    header.Put(static_cast<uint16_t>(padding)).Text(name);
    header.Text("FB").Put(static_cast<uint16_t>(padding - 4)).Text(std::string(padding - 4, 'Z'));
    entries_.push_back(entry);
    SIGHTLINE_RETURN_IF_ERROR(file_.Write(AsBytes(header.text())));
    return file_.Write(bytes);
  }

  Status Finish() {
    ByteWriter directory;
    for (const Entry& entry : entries_) {
      directory.Put(uint32_t{0x02014b50}).Put(uint16_t{0});
      Describe(entry, &directory);
      directory.Text(std::string(12, '\0')).Put(entry.offset).Text(entry.name);
    }
    const uint64_t offset = file_.size(), size = directory.text().size(), count = entries_.size();
    // 64-bit end record and its locator, as torch always writes them, then the classic end record.
    directory.Put(uint32_t{0x06064b50}).Put(uint64_t{44}).Put(uint16_t{0}).Put(uint16_t{45}).Put(uint64_t{0});
    directory.Put(count).Put(count).Put(size).Put(offset);
    directory.Put(uint32_t{0x07064b50}).Put(uint32_t{0}).Put(offset + size).Put(uint32_t{1});
    const auto short_count = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
    directory.Put(uint32_t{0x06054b50}).Put(uint32_t{0}).Put(short_count).Put(short_count);
    directory.Put(static_cast<uint32_t>(size)).Put(static_cast<uint32_t>(offset)).Put(uint16_t{0});
    SIGHTLINE_RETURN_IF_ERROR(file_.Write(AsBytes(directory.text())));
    return file_.Commit();
  }

 private:
  struct Entry {
    std::string name;
    uint32_t crc32, size, offset;
  };

  // Version, flags (UTF-8 name), method, time and date, CRC, sizes, length of the name: the same in both headers.
  static void Describe(const Entry& entry, ByteWriter* out) {
    out->Put(uint16_t{0}).Put(uint16_t{0x0800}).Put(uint16_t{0}).Put(uint32_t{0});
    out->Put(entry.crc32).Put(entry.size).Put(entry.size).Put(static_cast<uint16_t>(entry.name.size()));
  }
  // Bytes of the extra field that bring the content to a multiple of 64.
  static size_t Padding(const Entry& entry) {
    const size_t content = entry.offset + 30 + entry.name.size() + 4;
    return 4 + (kAlignment - content % kAlignment) % kAlignment;
  }

  AtomicFile file_;
  std::vector<Entry> entries_;
};

// Room for headers and names included.
Status CheckSize(const std::filesystem::path& path, std::span<const TensorSpec> tensors) {
  uint64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) {
    bytes += static_cast<uint64_t>(ElementCount(tensor.shape)) * sizeof(float) + 2 * tensor.name.size() + 512;
    if (bytes > kMaxArchive) {
      return Fail(Code::kUnsupported,
                  fmt::format("{} would take more than 4 GiB, which this writer does not do", path.string()));
    }
  }
  return {};
}

}  // namespace

Status WriteTorchCheckpoint(const std::filesystem::path& path, std::span<const TensorSpec> tensors,
                            FunctionRef<Status(size_t index, std::span<float> values)> fill, std::string_view note) {
  SIGHTLINE_RETURN_IF_ERROR(CheckSize(path, tensors));
  SIGHTLINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  ZipWriter zip(std::move(file));
  SIGHTLINE_RETURN_IF_ERROR(zip.Add("archive/data.pkl", AsBytes(PickleWriter::StateDict(tensors))));
  SIGHTLINE_RETURN_IF_ERROR(zip.Add("archive/byteorder", AsBytes("little")));
  std::vector<float> values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    values.assign(static_cast<size_t>(ElementCount(tensors[i].shape)), 0.0f);
    SIGHTLINE_RETURN_IF_ERROR(fill(i, values));
    SIGHTLINE_RETURN_IF_ERROR(zip.Add("archive/data/" + std::to_string(i), AsBytes(values)));
  }
  if (!note.empty()) SIGHTLINE_RETURN_IF_ERROR(zip.Add("archive/" + std::string(kNoteEntry), AsBytes(note)));
  SIGHTLINE_RETURN_IF_ERROR(zip.Add("archive/version", AsBytes("3\n")));
  return zip.Finish();
}

}  // namespace sightline
