// safetensors: the length of the header (u64), the header (JSON) and the elements.
// Format: https://github.com/huggingface/safetensors#format
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <unordered_set>

#include "weights/byte_cursor.h"
#include "weights/checkpoint_formats.h"

namespace sightline {
namespace {

constexpr uint64_t kMaxHeader = 16 << 20;  // a model of 3 billion parameters has 0.1 MB
constexpr int kMaxJsonDepth = 16;

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr DTypeName kDTypes[] = {
    {"F64", DType::kF64}, {"F32", DType::kF32}, {"F16", DType::kF16}, {"BF16", DType::kBF16}, {"I64", DType::kI64},
    {"I32", DType::kI32}, {"I16", DType::kI16}, {"I8", DType::kI8},   {"U8", DType::kU8},     {"BOOL", DType::kBool}};

struct Row {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

class SafetensorsFile {
 public:
  SafetensorsFile(std::span<const std::byte> file, std::string_view source) : file_(file), source_(source) {}

  Result<CheckpointContent> Read() {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view header, Header());
    CheckpointContent content;
    SIGHTLINE_ASSIGN_OR_RETURN(std::vector<Row> rows, ReadRows(header, &content.note));
    std::ranges::stable_sort(rows, {}, [](const Row& row) { return std::pair(row.begin, row.end); });
    SIGHTLINE_RETURN_IF_ERROR(CheckCoverage(rows));
    for (Row& row : rows) {
      TensorView view{data_.data() + row.begin, row.dtype, row.shape, RowMajorStrides(row.shape)};
      content.tensors.push_back({std::move(row.name), std::move(view)});
    }
    return content;
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const {
    return Corrupt(source_, fmt::format("the safetensors header {}", what));
  }
  tl::unexpected<Error> BadRow(std::string_view name, std::string_view what) const {
    return Corrupt(source_, fmt::format("{} {}", Printable(name), what));
  }

  Result<std::string_view> Header() {
    ByteCursor cursor(file_);
    uint64_t size = 0;
    std::string_view header;
    if (!cursor.Read(&size) || !cursor.Take(size, &header)) {
      return Bad(fmt::format("has {} bytes in a file of {}; the file is cut short or damaged", size, file_.size()));
    }
    if (size > kMaxHeader) return Bad(fmt::format("has {} bytes, at most {} are read", size, kMaxHeader));
    data_ = file_.subspan(cursor.position());
    return header;
  }

  Result<std::vector<Row>> ReadRows(std::string_view header, std::string* note) const {
    simdjson::dom::parser parser(kMaxHeader + simdjson::SIMDJSON_PADDING);
    simdjson::dom::object object;
    auto error = parser.allocate(header.size(), kMaxJsonDepth);
    if (!error) error = parser.parse(header.data(), header.size()).get(object);
    if (error) return Bad(fmt::format("is not a JSON object: {}", simdjson::error_message(error)));
    std::vector<Row> rows;
    std::unordered_set<std::string_view> names;
    for (const auto& [name, value] : object) {
      if (!names.insert(name).second) return Bad(fmt::format("has {} twice", Printable(name)));
      if (name == "__metadata__") {
        std::string_view text;
        if (!value["note"].get(text)) *note = text.substr(0, kMaxNoteBytes);
        continue;
      }
      if (rows.size() >= kMaxTensors) return Bad(fmt::format("has more than {} tensors", kMaxTensors));
      SIGHTLINE_ASSIGN_OR_RETURN(Row row, ReadRow(name, value));
      rows.push_back(std::move(row));
    }
    return rows;
  }

  Result<Row> ReadRow(std::string_view name, simdjson::dom::element value) const {
    Row row;
    row.name = name;
    std::string_view dtype;
    simdjson::dom::array shape, offsets;
    if (name.size() > kMaxNameBytes) return BadRow(name, fmt::format("has a name of {} bytes", name.size()));
    if (value["dtype"].get(dtype) || value["shape"].get(shape) || value["data_offsets"].get(offsets)) {
      return BadRow(name, "has no dtype, shape or data_offsets");
    }
    const auto* known = std::ranges::find(kDTypes, dtype, &DTypeName::name);
    if (known == std::end(kDTypes)) {
      return BadRow(name, fmt::format("has the type {}, which is not read", Printable(dtype)));
    }
    row.dtype = known->dtype;
    if (shape.size() > kMaxRank) return BadRow(name, fmt::format("has {} dimensions", shape.size()));
    for (const auto& item : shape) {
      if (item.get(row.shape.emplace_back())) return BadRow(name, "has a shape that is not whole numbers");
    }
    if (offsets.size() != 2 || offsets.at(0).get(row.begin) || offsets.at(1).get(row.end)) {
      return BadRow(name, "has data_offsets that are not two whole numbers");
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckExtent(row));
    return row;
  }

  Status CheckExtent(const Row& row) const {
    if (row.begin > row.end || row.end > data_.size()) {
      return BadRow(row.name, fmt::format("lies at bytes {} to {} of {}; the file is cut short or damaged", row.begin,
                                          row.end, data_.size()));
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckElementCount(row.shape, row.dtype, file_.size(), source_, row.name));
    const uint64_t expected = static_cast<uint64_t>(ElementCount(row.shape)) * SizeOf(row.dtype);
    if (row.end - row.begin == expected) return {};
    return BadRow(row.name, fmt::format("has {} bytes, expected {} for {} of {}", row.end - row.begin, expected,
                                        ToString(row.shape), NameOf(row.dtype)));
  }

  // The format forbids gaps and overlaps.
  Status CheckCoverage(std::span<const Row> rows) const {
    uint64_t end = 0;
    for (const Row& row : rows) {
      if (row.begin != end) {
        return BadRow(row.name,
                      fmt::format("begins at byte {}, expected {} where the tensor before it ends", row.begin, end));
      }
      end = row.end;
    }
    if (end == data_.size()) return {};
    return Bad(fmt::format("describes {} bytes of elements, the file has {}", end, data_.size()));
  }

  std::span<const std::byte> file_, data_;
  std::string_view source_;
};

}  // namespace

bool LooksLikeSafetensors(std::span<const std::byte> file) {
  uint64_t size = 0;
  uint8_t brace = 0;
  // Text that has a brace there gives an absurd size.
  return ByteCursor(file).Read(&size, &brace) && brace == '{' && size <= UINT32_MAX;
}

Result<CheckpointContent> ReadSafetensors(std::span<const std::byte> file, std::string_view source) {
  return SafetensorsFile(file, source).Read();
}

}  // namespace sightline
