#include "weights/zip_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "weights/byte_cursor.h"
#include "weights/checkpoint_formats.h"

namespace sightline {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50, kDirectorySignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr size_t kLocalSize = 30, kDirectorySize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr size_t kMaxComment = 0xffff;
constexpr uint16_t kZip64Extra = 1;

struct Directory {
  uint64_t entries = 0, size = 0, offset = 0;
  size_t end = 0;  // where the first end record starts
};

// One row of the directory.
struct Row {
  std::string_view name;
  uint16_t flags = 0, method = 0;
  uint32_t crc32 = 0;
  uint64_t packed_size = 0, size = 0, offset = 0;
};

bool Agrees(uint64_t classic, uint64_t saturated, uint64_t value) { return classic == saturated || classic == value; }

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> file, std::string_view source) : file_(file), source_(source) {}

  Result<std::vector<ZipEntry>> Read() {
    SIGHTLINE_ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<Row> rows, ReadRows(directory));
    std::vector<ZipEntry> entries;
    entries.reserve(rows.size());
    for (const Row& row : rows) {
      SIGHTLINE_ASSIGN_OR_RETURN(ZipEntry entry, Locate(row, directory));
      entries.push_back(entry);
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckOverlap(rows, entries));
    return entries;
  }

 private:
  ByteCursor At(uint64_t offset) const { return ByteCursor(file_.subspan(static_cast<size_t>(offset))); }

  Result<Directory> FindDirectory() const {
    const auto end = FindEnd();
    if (!end) return Corrupt(source_, "the zip archive has no end record; the file is cut short or damaged");
    uint32_t signature = 0, size = 0, offset = 0;
    uint16_t disk = 0, first_disk = 0, disk_entries = 0, entries = 0;
    At(*end).Read(&signature, &disk, &first_disk, &disk_entries, &entries, &size, &offset);
    Directory directory{entries, size, offset, *end};
    if (const auto record = FindEnd64(*end)) {
      if (!*record) return tl::make_unexpected(record->error());
      if (!Agrees(entries, 0xffff, (*record)->entries) || !Agrees(size, 0xffffffff, (*record)->size) ||
          !Agrees(offset, 0xffffffff, (*record)->offset)) {
        return Corrupt(source_, "the two end records of the zip archive contradict each other");
      }
      directory = **record;
    } else if (disk != 0 || first_disk != 0 || disk_entries != entries) {
      return Corrupt(source_, "the zip archive is split over several files");
    }
    if (directory.offset > directory.end || directory.size > directory.end - directory.offset) {
      return Corrupt(source_, "the zip directory lies outside the file; the file is cut short or damaged");
    }
    if (directory.entries > directory.size / kDirectorySize) {
      return Corrupt(source_, "the zip directory is too small for its number of entries");
    }
    return directory;
  }

  // The record is the last one whose comment ends with the file.
  std::optional<size_t> FindEnd() const {
    if (file_.size() < kEndSize) return std::nullopt;
    const size_t last = file_.size() - kEndSize;
    for (size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
      uint32_t signature = 0;
      uint16_t comment = 0;
      ByteCursor cursor = At(last - back);
      std::span<const std::byte> skipped;
      if (cursor.Read(&signature) && signature == kEndSignature && cursor.Take(16, &skipped) && cursor.Read(&comment) &&
          comment == back) {
        return last - back;
      }
    }
    return std::nullopt;
  }

  // Nothing when the archive has no such record.
  std::optional<Result<Directory>> FindEnd64(size_t end) const {
    uint32_t signature = 0, disk = 0, first_disk = 0, disks = 0;
    uint64_t offset = 0, record_size = 0, disk_entries = 0;
    uint16_t made = 0, needed = 0;
    if (end < kLocator64Size) return std::nullopt;
    At(end - kLocator64Size).Read(&signature, &disk, &offset, &disks);
    if (signature != kLocator64Signature) return std::nullopt;
    const size_t locator = end - kLocator64Size;
    if (locator < kEnd64Size || offset > locator - kEnd64Size) {
      return Corrupt(source_, "the zip archive's 64-bit end record lies outside the file");
    }
    Directory directory;
    At(offset).Read(&signature, &record_size, &made, &needed, &disk, &first_disk, &disk_entries, &directory.entries,
                    &directory.size, &directory.offset);
    if (signature != kEnd64Signature || disk != 0 || first_disk != 0 || disk_entries != directory.entries) {
      return Corrupt(source_, "the zip archive's 64-bit end record is damaged");
    }
    directory.end = static_cast<size_t>(offset);
    return directory;
  }

  Result<std::vector<Row>> ReadRows(const Directory& directory) const {
    ByteCursor cursor(file_.subspan(static_cast<size_t>(directory.offset), static_cast<size_t>(directory.size)));
    std::vector<Row> rows;
    rows.reserve(static_cast<size_t>(directory.entries));
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < directory.entries; ++i) {
      Row row;
      if (!ReadRow(cursor, &row)) return Corrupt(source_, fmt::format("row {} of the zip directory is damaged", i));
      SIGHTLINE_RETURN_IF_ERROR(CheckRow(row));
      if (!names.insert(row.name).second) {
        return Corrupt(source_, fmt::format("the zip archive has two entries {}", Printable(row.name)));
      }
      rows.push_back(row);
    }
    if (cursor.remaining() != 0) return Corrupt(source_, "the zip directory is longer than its entries");
    return rows;
  }

  static bool ReadRow(ByteCursor& cursor, Row* row) {
    uint32_t signature = 0, packed_size = 0, size = 0, external = 0, offset = 0;
    uint16_t made = 0, needed = 0, time = 0, date = 0, name_size = 0, extra_size = 0, comment_size = 0, disk = 0,
             internal = 0;
    std::span<const std::byte> extra, comment;
    if (!cursor.Read(&signature, &made, &needed, &row->flags, &row->method, &time, &date, &row->crc32, &packed_size,
                     &size, &name_size, &extra_size, &comment_size, &disk, &internal, &external, &offset) ||
        signature != kDirectorySignature || !cursor.Take(name_size, &row->name) || !cursor.Take(extra_size, &extra) ||
        !cursor.Take(comment_size, &comment)) {
      return false;
    }
    row->packed_size = packed_size, row->size = size, row->offset = offset;
    ApplyZip64(extra, row);
    return true;
  }

  // Fields that do not fit 32 bits are all ones in the row and follow, in this order, in an extra field.
  static void ApplyZip64(std::span<const std::byte> extra, Row* row) {
    ByteCursor fields(extra);
    uint16_t id = 0, size = 0;
    std::span<const std::byte> content;
    while (fields.Read(&id, &size) && fields.Take(size, &content)) {
      if (id != kZip64Extra) continue;
      ByteCursor values(content);
      for (uint64_t* field : {&row->size, &row->packed_size, &row->offset}) {
        if (*field == 0xffffffff) values.Read(field);
      }
      return;
    }
  }

  Status CheckRow(const Row& row) const {
    if ((row.flags & 1) != 0) {
      return Corrupt(source_, fmt::format("zip entry {} is encrypted", Printable(row.name)));
    }
    if (row.method != 0) {
      return Corrupt(source_, fmt::format("zip entry {} is compressed (method {}), expected stored entries as torch "
                                          "writes them",
                                          Printable(row.name), row.method));
    }
    if (row.packed_size != row.size) {
      return Corrupt(source_, fmt::format("zip entry {} has {} bytes stored and {} bytes unpacked, expected the same",
                                          Printable(row.name), row.packed_size, row.size));
    }
    return {};
  }

  // Where the content starts follows from the local header: its extra field differs from the directory's.
  Result<ZipEntry> Locate(const Row& row, const Directory& directory) const {
    const auto damaged = [&](std::string_view what) {
      return Corrupt(source_, fmt::format("zip entry {} {}", Printable(row.name), what));
    };
    if (row.offset > directory.offset || directory.offset - row.offset < kLocalSize) {
      return damaged("starts outside the file; the file is cut short or damaged");
    }
    ByteCursor cursor(
        file_.subspan(static_cast<size_t>(row.offset), static_cast<size_t>(directory.offset - row.offset)));
    uint32_t signature = 0, crc = 0, packed_size = 0, size = 0;
    uint16_t needed = 0, flags = 0, method = 0, time = 0, date = 0, name_size = 0, extra_size = 0;
    cursor.Read(&signature, &needed, &flags, &method, &time, &date, &crc, &packed_size, &size, &name_size, &extra_size);
    std::string_view name;
    std::span<const std::byte> extra;
    if (signature != kLocalSignature) return damaged("has no header where the directory says");
    if (!cursor.Take(name_size, &name) || !cursor.Take(extra_size, &extra)) return damaged("has a damaged header");
    if (name != row.name) return damaged(fmt::format("is named {} in its own header", Printable(name)));
    if (method != row.method || (flags & 1) != 0) return damaged("is stored in two ways");
    ZipEntry entry{row.name, {}, row.crc32};
    if (!cursor.Take(row.size, &entry.bytes)) {
      return damaged(fmt::format("has {} bytes, more than the file holds from there", row.size));
    }
    return entry;
  }

  Status CheckOverlap(const std::vector<Row>& rows, const std::vector<ZipEntry>& entries) const {
    std::vector<size_t> order(rows.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return rows[i].offset; });
    uint64_t end = 0;
    for (const size_t i : order) {
      if (rows[i].offset < end) {
        return Corrupt(source_, fmt::format("zip entry {} overlaps another", Printable(rows[i].name)));
      }
      end = static_cast<uint64_t>(entries[i].bytes.data() - file_.data()) + entries[i].bytes.size();
    }
    return {};
  }

  std::span<const std::byte> file_;
  std::string_view source_;
};

}  // namespace

Result<std::vector<ZipEntry>> ReadZip(std::span<const std::byte> file, std::string_view source) {
  return ZipReader(file, source).Read();
}

uint32_t ZipCrc32(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace sightline
