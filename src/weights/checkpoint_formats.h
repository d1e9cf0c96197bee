// The formats behind Checkpoint. Each reader gets the whole file and gives views into it; `source` names the file in
// messages. Whatever is wrong with the content is kCorruptWeights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "tensor/tensor.h"

namespace sightline {

struct NamedTensor {
  std::string name;
  TensorView view;
};

// Bytes whose CRC-32 the file records.
struct ChecksummedBytes {
  std::string_view name;
  std::span<const std::byte> bytes;
  uint32_t crc32 = 0;
};

struct CheckpointContent {
  std::vector<NamedTensor> tensors;  // in file order, names unique
  std::vector<ChecksummedBytes> checksums;
  std::string note;  // of kNoteEntry, or "note" in the metadata of safetensors
};

// Entry of a torch archive that says where the numbers come from; ours alone.
inline constexpr std::string_view kNoteEntry = "sightline_note";
inline constexpr size_t kMaxNoteBytes = 1024;

// What a model folder calls its safetensors (huggingface_hub).
inline constexpr std::string_view kWholeModelFile = "model.safetensors";
inline constexpr std::string_view kModelIndexFile = "model.safetensors.index.json";

inline constexpr size_t kMaxTensors = 1 << 16;
inline constexpr size_t kMaxNameBytes = 1024;

Result<CheckpointContent> ReadTorchZip(std::span<const std::byte> file, std::string_view source);
// The layout of torch.save before 1.6: five pickles, then the storages.
Result<CheckpointContent> ReadTorchLegacy(std::span<const std::byte> file, std::string_view source);
Result<CheckpointContent> ReadSafetensors(std::span<const std::byte> file, std::string_view source);

bool LooksLikeSafetensors(std::span<const std::byte> file);

// kCorruptWeights with "<source>: <what>".
tl::unexpected<Error> Corrupt(std::string_view source, std::string_view what);
// Text of a file that is not trusted, fit for a message: printable ASCII, at most 80 characters.
std::string Printable(std::string_view text);

// Strides of a tensor without gaps, last dimension fastest.
std::vector<int64_t> RowMajorStrides(const Shape& shape);

// Fails when the number of elements overflows, or when they would take unreasonably more bytes than the file they come
// from has (repeated elements, stride 0), so that nobody allocates it.
Status CheckElementCount(const Shape& shape, DType dtype, size_t file_bytes, std::string_view source,
                         std::string_view name);

}  // namespace sightline
