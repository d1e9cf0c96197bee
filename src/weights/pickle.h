// The part of Python's pickle that describes a dictionary of tensors, as values that never become objects.
// Format: CPython Lib/pickletools.py; records: torch/_utils.py (_rebuild_tensor_v2) and torch/serialization.py.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "tensor/tensor.h"

namespace sightline {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInteger,
    kBigInteger,  // more than 64 bits
    kFloat,
    kString,
    kTuple,
    kList,
    kDict,
    kOrderedDict,
    kSymbol,
    kStorage,
    kTensor,
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;     // kBool, kInteger: the value; kTuple to kTensor: index into a table of Pickle
  std::string_view text;  // kString: UTF-8; kBigInteger: two's complement, little endian; bytes of the file
};
std::string_view NameOf(PickleValue::Kind kind);  // "a list"

// A run of elements that lies outside the pickle, under `key`.
struct PickleStorage {
  DType dtype = DType::kF32;
  std::string_view key;
  int64_t elements = 0;
  // A storage may be a window of the one under `key` (files of torch before 0.4): then not 0 and `elements`.
  int64_t window_offset = 0, window_elements = 0;
};

// Not yet checked against anything.
struct PickleTensor {
  size_t storage = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;
};

struct Pickle {
  PickleValue top;
  std::vector<std::vector<PickleValue>> containers;  // a dictionary is key, value, key, value, ...
  std::vector<PickleStorage> storages;
  std::vector<PickleTensor> tensors;
  size_t size = 0;  // bytes read, up to and with STOP
};

inline constexpr size_t kMaxPickleBytes = 4 << 20;

// Runs the pickle at the front of `bytes`. Time and memory are proportional to its size, whatever it says; containers
// may hold each other in circles. Symbols are looked up in a fixed table and anything else is refused by name.
Result<Pickle> RunPickle(std::span<const std::byte> bytes, std::string_view source);

}  // namespace sightline
