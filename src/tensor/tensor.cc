#include "tensor/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sightline {
namespace {

struct DTypeRow {
  std::string_view name;
  size_t size;
};

// In the order of the enum.
constexpr std::array<DTypeRow, 10> kDTypes = {{
    {"float64", 8},
    {"float32", 4},
    {"float16", 2},
    {"bfloat16", 2},
    {"int64", 8},
    {"int32", 4},
    {"int16", 2},
    {"int8", 1},
    {"uint8", 1},
    {"bool", 1},
}};
static_assert(kDTypes.size() == static_cast<size_t>(DType::kBool) + 1);

// Equally spaced elements.
struct Row {
  const std::byte* first;
  int64_t stride;  // bytes from one element to the next
  int64_t count;
};

// Calls visit(row) for the innermost dimension at every place of the outer ones, in row-major order.
void ForEachRow(const TensorView& view, FunctionRef<void(const Row&)> visit) {
  const auto element = static_cast<int64_t>(SizeOf(view.dtype));
  if (ElementCount(view.shape) == 0) return;
  if (view.contiguous()) return visit({view.data, element, ElementCount(view.shape)});
  const size_t inner = view.shape.size() - 1;  // a scalar is contiguous
  std::vector<int64_t> index(inner, 0);
  int64_t offset = 0;
  while (true) {
    visit({view.data + offset * element, view.strides[inner] * element, view.shape[inner]});
    size_t axis = inner;
    while (axis > 0 && index[axis - 1] + 1 == view.shape[axis - 1]) {
      --axis;
      offset -= index[axis] * view.strides[axis];
      index[axis] = 0;
    }
    if (axis == 0) return;
    ++index[axis - 1];
    offset += view.strides[axis - 1];
  }
}

// Elements may lie at any address.
template <typename T>
T Load(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <typename Stored, typename Convert>
void ConvertRows(const TensorView& view, std::span<float> out, Convert convert) {
  float* next = out.data();
  ForEachRow(view, [&](const Row& row) {
    for (int64_t i = 0; i < row.count; ++i) *next++ = convert(Load<Stored>(row.first + i * row.stride));
  });
}

}  // namespace

size_t SizeOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size; }
std::string_view NameOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  return text + "]";
}

int64_t ElementCount(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

bool TensorView::contiguous() const {
  if (ElementCount(shape) == 0) return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;  // one element has no distance to a next
    expected *= shape[axis];
  }
  return true;
}

Status CopyAsFloat(const TensorView& view, std::span<float> out) {
  SIGHTLINE_CHECK(static_cast<int64_t>(out.size()) == ElementCount(view.shape));
  switch (view.dtype) {
    case DType::kF64:
      ConvertRows<double>(view, out, [](double value) { return static_cast<float>(value); });
      return {};
    case DType::kF32:
      ConvertRows<float>(view, out, [](float value) { return value; });
      return {};
    case DType::kF16:
      ConvertRows<uint16_t>(view, out, FloatFromF16);
      return {};
    case DType::kBF16:
      ConvertRows<uint16_t>(view, out, FloatFromBF16);
      return {};
    default:
      return Fail(Code::kCorruptWeights, "tensor has dtype " + std::string(NameOf(view.dtype)) +
                                             ", expected float16, bfloat16, float32 or float64");
  }
}

std::vector<std::byte> CopyAsStored(const TensorView& view) {
  const size_t element = SizeOf(view.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(ElementCount(view.shape)) * element);
  std::byte* next = bytes.data();
  ForEachRow(view, [&](const Row& row) {
    const size_t length = static_cast<size_t>(row.count) * element;
    if (row.stride == static_cast<int64_t>(element)) {
      std::memcpy(next, row.first, length);
      next += length;
      return;
    }
    for (int64_t i = 0; i < row.count; ++i, next += element) {
      std::memcpy(next, row.first + i * row.stride, element);
    }
  });
  return bytes;
}

}  // namespace sightline
