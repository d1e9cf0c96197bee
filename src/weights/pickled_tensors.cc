#include "weights/pickled_tensors.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>

namespace sightline {
namespace {

using Kind = PickleValue::Kind;

// {"checkpoint": {"model": {"0": ...}}} is three; a walk of at most so many entries ends soon even where dictionaries
// hold each other.
constexpr int kMaxDepth = 8;
constexpr size_t kMaxVisits = 1 << 20;

class TensorNamer {
 public:
  TensorNamer(const Pickle& pickle, std::span<const std::span<const std::byte>> storages, size_t file_bytes,
              std::string_view source)
      : pickle_(pickle), storages_(storages), file_bytes_(file_bytes), source_(source) {}

  Result<std::vector<NamedTensor>> Run() {
    if (!IsDictionary(pickle_.top)) {
      return Corrupt(source_,
                     fmt::format("the pickle holds {}, expected a dictionary of tensors", NameOf(pickle_.top.kind)));
    }
    SIGHTLINE_RETURN_IF_ERROR(Walk(pickle_.top, "", 1));
    return std::move(tensors_);
  }

 private:
  static bool IsDictionary(const PickleValue& value) {
    return value.kind == Kind::kDict || value.kind == Kind::kOrderedDict;
  }

  Status Walk(const PickleValue& dictionary, const std::string& prefix, int depth) {
    if (depth > kMaxDepth) return Corrupt(source_, fmt::format("dictionaries are nested more than {} deep", kMaxDepth));
    const std::vector<PickleValue>& items = pickle_.containers[static_cast<size_t>(dictionary.number)];
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (++visits_ > kMaxVisits) return Corrupt(source_, fmt::format("has more than {} entries", kMaxVisits));
      const bool is_tensor = items[i + 1].kind == Kind::kTensor;
      if (!is_tensor && !IsDictionary(items[i + 1])) continue;
      SIGHTLINE_ASSIGN_OR_RETURN(std::string name, Name(items[i], prefix, is_tensor));
      if (is_tensor) {
        SIGHTLINE_RETURN_IF_ERROR(Add(std::move(name), pickle_.tensors[static_cast<size_t>(items[i + 1].number)]));
      } else {
        SIGHTLINE_RETURN_IF_ERROR(Walk(items[i + 1], name + ".", depth + 1));
      }
    }
    return {};
  }

  // Optimizers number what they hold, so an integer may stand on the way to a tensor but not for its own name.
  Result<std::string> Name(const PickleValue& key, const std::string& prefix, bool is_tensor) const {
    const bool numbered = key.kind == Kind::kInteger && !is_tensor;
    if (key.kind != Kind::kString && !numbered) {
      return Corrupt(source_, fmt::format("{} is the name of {}, expected a string", NameOf(key.kind),
                                          is_tensor ? "a tensor" : "a dictionary"));
    }
    if (prefix.size() + key.text.size() > kMaxNameBytes) {
      return Corrupt(source_, fmt::format("has a name of {} bytes, at most {} are read",
                                          prefix.size() + key.text.size(), kMaxNameBytes));
    }
    return prefix + (numbered ? std::to_string(key.number) : std::string(key.text));
  }

  Status Add(std::string name, const PickleTensor& tensor) {
    if (tensors_.size() >= kMaxTensors) return Corrupt(source_, fmt::format("has more than {} tensors", kMaxTensors));
    if (!names_.insert(name).second) return Corrupt(source_, fmt::format("has {} twice", Printable(name)));
    SIGHTLINE_RETURN_IF_ERROR(CheckBounds(name, tensor));
    const PickleStorage& storage = pickle_.storages[tensor.storage];
    // Torch writes any offset for a tensor without elements.
    const size_t first = ElementCount(tensor.shape) == 0 ? 0 : static_cast<size_t>(tensor.offset);
    const std::byte* data = storages_[tensor.storage].data() + first * SizeOf(storage.dtype);
    tensors_.push_back({std::move(name), TensorView{data, storage.dtype, tensor.shape, tensor.strides}});
    return {};
  }

  Status CheckBounds(std::string_view name, const PickleTensor& tensor) const {
    const PickleStorage& storage = pickle_.storages[tensor.storage];
    const auto bad = [&](std::string_view what) {
      return Corrupt(source_, fmt::format("{} {}", Printable(name), what));
    };
    if (tensor.shape.size() != tensor.strides.size()) {
      return bad(fmt::format("has {} sizes and {} strides", tensor.shape.size(), tensor.strides.size()));
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckElementCount(tensor.shape, storage.dtype, file_bytes_, source_, name));
    if (tensor.offset < 0) return bad(fmt::format("starts at element {}", tensor.offset));
    int64_t last = tensor.offset;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      int64_t reach = 0;
      if (tensor.strides[i] < 0) return bad(fmt::format("has strides {}", ToString(tensor.strides)));
      if (tensor.shape[i] > 0 && (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
                                  __builtin_add_overflow(last, reach, &last))) {
        return bad(fmt::format("has strides {} that overflow from offset {}", ToString(tensor.strides), tensor.offset));
      }
    }
    if (ElementCount(tensor.shape) > 0 && last >= storage.window_elements) {
      return bad(fmt::format("reaches to element {} of a storage of {}", last, storage.window_elements));
    }
    return {};
  }

  const Pickle& pickle_;
  std::span<const std::span<const std::byte>> storages_;
  size_t file_bytes_;
  std::string_view source_;
  std::vector<NamedTensor> tensors_;
  std::unordered_set<std::string> names_;
  size_t visits_ = 0;
};

}  // namespace

Result<std::vector<NamedTensor>> NameTensors(const Pickle& pickle, std::span<const std::span<const std::byte>> storages,
                                             size_t file_bytes, std::string_view source) {
  return TensorNamer(pickle, storages, file_bytes, source).Run();
}

Result<std::span<const std::byte>> StorageBytes(const PickleStorage& storage, std::span<const std::byte> bytes,
                                                std::string_view source) {
  const size_t element = SizeOf(storage.dtype);
  // Divided, not multiplied: the count is not trusted.
  if (bytes.size() % element != 0 || bytes.size() / element != static_cast<uint64_t>(storage.elements)) {
    return Corrupt(source, fmt::format("storage {} has {} bytes, expected {} elements of {}", Printable(storage.key),
                                       bytes.size(), storage.elements, NameOf(storage.dtype)));
  }
  return bytes.subspan(static_cast<size_t>(storage.window_offset) * element,
                       static_cast<size_t>(storage.window_elements) * element);
}

}  // namespace sightline
