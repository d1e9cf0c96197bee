#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "weights/checkpoint_formats.h"
#include "weights/weights.h"
#include "weights/zip_reader.h"

namespace sightline {
namespace {

constexpr size_t kMaxShownText = 80;
// Elements a tensor may repeat (stride 0) in a small file; beyond that it may not be larger than its file.
constexpr size_t kSmallTensorBytes = 64 << 20;

struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view kind;
};
// What people open by mistake.
constexpr Signature kSignatures[] = {
    {0, "version https://git-lfs", "a Git LFS pointer (the file itself was not downloaded)"},
    {0, "<", "a web page or XML"},
    {0, "{", "JSON"},
    {0, "GGUF", "a GGUF file"},
    {0, "\x89HDF", "an HDF5 file"},
    {0, "\x93NUMPY", "a NumPy array"},
    {0, "\x1f\x8b", "a gzip archive"},
    {0,
     "\xfd"
     "7zXZ",
     "an xz archive"},
    {0, "\x28\xb5\x2f\xfd", "a zstd archive"},
    {0, "\x89PNG", "a PNG picture"},
    {0, "\xff\xd8\xff", "a JPEG picture"},
    {0,
     "\x7f"
     "ELF",
     "a program"},
    {0, "PK", "an empty or damaged zip archive"},
    {0, std::string_view("storages\0", 9), "a tar archive of a very old torch"},
    {0, std::string_view("sys_info\0", 9), "a tar archive of a very old torch"},
    {257, "ustar", "a tar archive"},
};

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<CheckpointContent> Unknown(std::string_view text, std::string_view source) {
  constexpr std::string_view kExpected = "expected a torch checkpoint or safetensors";
  if (text.empty()) return Corrupt(source, fmt::format("is empty, {}", kExpected));
  for (const Signature& signature : kSignatures) {
    if (text.size() > signature.offset && text.substr(signature.offset).starts_with(signature.bytes)) {
      return Corrupt(source, fmt::format("looks like {}, {}", signature.kind, kExpected));
    }
  }
  return Corrupt(source, fmt::format("is of no known format, {}", kExpected));
}

Result<CheckpointContent> ReadAny(std::span<const std::byte> file, std::string_view source) {
  const std::string_view text = AsText(file);
  if (text.starts_with("PK\x03\x04")) return ReadTorchZip(file, source);
  if (text.starts_with("\x80")) return ReadTorchLegacy(file, source);
  if (LooksLikeSafetensors(file)) return ReadSafetensors(file, source);
  return Unknown(text, source);
}

}  // namespace

tl::unexpected<Error> Corrupt(std::string_view source, std::string_view what) {
  return Fail(Code::kCorruptWeights, fmt::format("{}: {}", source, what));
}

std::string Printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kMaxShownText)) shown += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMaxShownText ? shown + "..." : shown;
}

std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

Status CheckElementCount(const Shape& shape, DType dtype, size_t file_bytes, std::string_view source,
                         std::string_view name) {
  // Empty dimensions count as one, so that no partial product overflows either.
  auto bytes = static_cast<int64_t>(SizeOf(dtype));
  bool fits = true, empty = false;
  for (const int64_t size : shape) {
    empty |= size == 0;
    fits = fits && size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  if (fits && (empty || static_cast<uint64_t>(bytes) <= std::max(file_bytes, kSmallTensorBytes))) return {};
  return Corrupt(source, fmt::format("{} has shape {}, which is not possible in a file of {} bytes", Printable(name),
                                     ToString(shape), file_bytes));
}

struct Checkpoint::State {
  MappedFile file;
  std::span<const std::byte> bytes;
  std::string source;
  std::vector<std::string> names;
  std::map<std::string, TensorView, std::less<>> tensors;
  std::vector<ChecksummedBytes> checksums;
  std::string note;
};

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  return Read(std::move(file), bytes, path.string());
}

Result<Checkpoint> Checkpoint::FromBytes(std::span<const std::byte> bytes, std::string name) {
  return Read(MappedFile(), bytes, std::move(name));
}

Result<Checkpoint> Checkpoint::Read(MappedFile file, std::span<const std::byte> bytes, std::string source) {
  SIGHTLINE_ASSIGN_OR_RETURN(CheckpointContent content, ReadAny(bytes, source));
  auto state = std::make_shared<State>();
  state->file = std::move(file);
  state->bytes = bytes;
  state->source = std::move(source);
  state->checksums = std::move(content.checksums);
  state->note = std::move(content.note);
  state->names.reserve(content.tensors.size());
  for (NamedTensor& tensor : content.tensors) {
    state->tensors.emplace(tensor.name, std::move(tensor.view));
    state->names.push_back(std::move(tensor.name));
  }
  Checkpoint checkpoint;
  checkpoint.state_ = std::move(state);
  return checkpoint;
}

const std::vector<std::string>& Checkpoint::names() const { return state_->names; }

const TensorView* Checkpoint::Find(std::string_view name) const {
  const auto found = state_->tensors.find(name);
  return found == state_->tensors.end() ? nullptr : &found->second;
}

const std::string& Checkpoint::note() const { return state_->note; }

const std::string& Checkpoint::source() const { return state_->source; }

std::string Checkpoint::identity() const {
  if (state_->file.path().empty()) return "sha256:" + Sha256Hex(state_->bytes);
  return fmt::format("{}:{}:{}", std::filesystem::absolute(state_->file.path()).string(), state_->bytes.size(),
                     state_->file.modified_ns());
}

std::span<const std::byte> Checkpoint::bytes() const { return state_->bytes; }

Status Checkpoint::Verify() const {
  for (const ChecksummedBytes& part : state_->checksums) {
    if (part.crc32 == 0 || ZipCrc32(part.bytes) == part.crc32) continue;
    return Corrupt(state_->source, fmt::format("{} does not have the CRC-32 that the zip directory says; the file is "
                                               "damaged",
                                               Printable(part.name)));
  }
  return {};
}

}  // namespace sightline
