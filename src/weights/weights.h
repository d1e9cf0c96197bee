// weights: checkpoints as they are published (torch .pt/.pth, safetensors), the packed file that keeps prepared weights
// between runs, and seeded synthetic tensors. Files are mapped, never executed, never trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "tensor/tensor.h"

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// Checkpoints

// A file of named tensors, opened by content: torch zip archives (restricted pickle, stored entries), the older torch
// layout without zip, safetensors. Views stay valid as long as one copy of the Checkpoint lives. Immutable: any thread.
//
// A pickle may only name the handful of torch and collections symbols that build tensors; each is treated as a marker.
// Anything else is refused by name (kCorruptWeights) and nothing is ever called. Every offset, size, stride, count and
// depth is checked against the file before memory is taken.
class Checkpoint {
 public:
  static Result<Checkpoint> Open(const std::filesystem::path& path);
  // From memory that outlives the Checkpoint; `name` stands for the path in messages.
  static Result<Checkpoint> FromBytes(std::span<const std::byte> bytes, std::string name);

  const std::vector<std::string>& names() const;        // in file order
  const TensorView* Find(std::string_view name) const;  // null when absent
  const std::string& source() const;                    // path or name
  // What tells this file from another without reading it all: path, size and time of change; for memory, its SHA-256.
  std::string identity() const;
  std::span<const std::byte> bytes() const;  // the whole file
  const std::string& note() const;           // what the writers below were told to note, else empty
  // Reads everything and compares the CRC-32 of every zip entry that has one (kCorruptWeights). The other formats
  // record no checksums.
  Status Verify() const;

 private:
  struct State;
  static Result<Checkpoint> Read(MappedFile file, std::span<const std::byte> bytes, std::string source);
  std::shared_ptr<const State> state_;
};

// The safetensors of a model folder as one set of named tensors: model.safetensors, or else the shards that
// model.safetensors.index.json lists (each name must be in the shard that the index says; a shard that is missing, a
// name in two shards, or an index that leaves out a tensor is kCorruptWeights with both sides). Opening maps, reads
// headers only. Immutable: any thread.
class CheckpointFolder {
 public:
  static Result<CheckpointFolder> Open(const std::filesystem::path& folder);

  const std::vector<std::string>& names() const;        // in file order, shard after shard
  const TensorView* Find(std::string_view name) const;  // null when absent
  const std::string& source() const;                    // the folder
  std::string identity() const;                         // of all shards, as Checkpoint::identity
  const std::string& note() const;                      // "note" in the metadata of the first shard, else empty
  uint64_t tensor_bytes() const;                        // of all tensors

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// A tensor that must be in a checkpoint.
struct TensorSpec {
  std::string name;
  Shape shape;
};
// Fails with kCorruptWeights unless `checkpoint` holds exactly these tensors with these shapes in a floating-point
// type, up to the names in `optional` (which may be absent) . The message names the file and both sides, and lists up
// to three more faults: "x.pth: norm.bias has shape [3], expected [768]; missing: ...; unexpected: ...".
Status CheckTensors(const Checkpoint& checkpoint, std::span<const TensorSpec> specs,
                    std::span<const std::string> optional = {});

// The same for a folder.
Status CheckTensors(const CheckpointFolder& folder, std::span<const TensorSpec> specs,
                    std::span<const std::string> optional = {});

// Writes `tensors` as bfloat16 safetensors, in shards of at most `shard_bytes` named model-0000i-of-0000n.safetensors
// with their index (metadata.total_size), or as one model.safetensors without an index when `shard_bytes` is 0. `fill`
// appends the values of one tensor piece by piece, so that no tensor is in memory as a whole. `note` goes into the
// metadata of every file. Each file appears whole or not at all; the index is written last, and an old one goes first.
// Names and note are printable ASCII without quotes and backslashes. Shards beside an old model.safetensors, which
// readers would prefer, are kInvalidRequest.
using PieceSink = FunctionRef<Status(std::span<const float> values)>;
Status WriteSafetensors(const std::filesystem::path& folder, std::span<const TensorSpec> tensors, uint64_t shard_bytes,
                        FunctionRef<Status(size_t index, PieceSink sink)> fill, std::string_view note = {});

// Writes `tensors` (float32, row-major) as torch.save writes a plain dict: zip with stored, 64-byte aligned entries and
// a protocol-2 pickle. `fill` is called once per tensor, in order. Loads in torch >= 1.6, also with weights_only=True.
// `note` goes into an entry of its own, which torch does not read.
Status WriteTorchCheckpoint(const std::filesystem::path& path, std::span<const TensorSpec> tensors,
                            FunctionRef<Status(size_t index, std::span<float> values)> fill,
                            std::string_view note = {});

// ---------------------------------------------------------------------------------------------------------------------
// Packed file: weights folded and laid out for one kind of processor, written once and mapped ever after.
//
//   header   magic "SLPACK01", SHA-256 of the rest of the header, sizes, SHA-256 of the payload, key, entry table
//   (name,
//            layout, shape, offset, bytes)
//   payload  entries, each on a 4096-byte boundary
//
// The file may be removed at any time; it is made again. Two processes may make it at once: each writes a file of its
// own name and renames it, and the contents are the same.
class PackedFile {
 public:
  struct Entry {
    std::string name;
    std::string layout;  // the backend's tag of how the bytes are arranged
    Shape shape;
    std::span<const std::byte> bytes;
  };

  // Maps `path` and checks the header: magic, table inside the file, `key` equal. kNotFound when there is none or it
  // was made for another key; kCorruptWeights when damaged.
  static Result<PackedFile> Open(const std::filesystem::path& path, std::string_view key);
  // The same for bytes in memory that `owner` keeps alive, of whatever key. `path` stands for them in messages.
  static Result<PackedFile> FromBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                      std::filesystem::path path);

  const Entry* Find(std::string_view name) const;
  const std::vector<Entry>& entries() const;
  const std::string& key() const;
  const std::filesystem::path& path() const;
  std::shared_ptr<const void> owner() const;  // keeps the mapping alive
  // Reads everything and compares the stored SHA-256 (kCorruptWeights).
  Status Verify() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// One entry to be written; `fill` gets exactly `bytes` zeroed bytes.
struct PackedEntrySpec {
  std::string name;
  std::string layout;
  Shape shape;
  size_t bytes = 0;
  std::function<Status(std::span<std::byte>)> fill;
};
// Writes the entries one after the other, holding one in memory at a time.
Status WritePackedFile(const std::filesystem::path& path, std::string_view key,
                       std::span<const PackedEntrySpec> entries);
// Told after every entry that was packed how many bytes are done, of all.
using PackingProgress = std::function<void(size_t done, size_t total)>;
// Opens the packed file of `key` at `path`, making it first when it is missing, damaged or of another key or other
// entries; removes what writers that were killed have left in the folder. Where the file cannot be written (no
// permission, disk full), packs into memory instead and logs a warning; an empty path asks for that.
Result<PackedFile> OpenOrWritePackedFile(const std::filesystem::path& path, std::string_view key,
                                         std::span<const PackedEntrySpec> entries,
                                         const PackingProgress& progress = {});
// The names of packed files end in this.
inline constexpr std::string_view kPackedExtension = ".packed";
// Verifies every packed file under `folder`, in the order of their paths; calls `report(path, status)` for each.
Status VerifyPackedFiles(const std::filesystem::path& folder,
                         FunctionRef<void(const std::filesystem::path&, const Status&)> report);

// ---------------------------------------------------------------------------------------------------------------------
// Synthetic tensors: a rule that turns (name, seed) into numbers, the same bits in any language.
//
//   key   = mix(FNV-1a64(name) xor seed * 0x9E3779B97F4A7C15)         mix = splitmix64 finaliser
//   z_i   = mix(key + (i + 1) * 0x9E3779B97F4A7C15)
//   v_i   = ((z_i >> 40) - 2^23) / 2^23                               float32, in [-1, 1)
//   value = centre + amplitude * v_i                                  float32, rounded after each operation
void SyntheticTensor(std::string_view name, uint64_t seed, float centre, float amplitude, std::span<float> values);
// Elements [first, first + values.size()) of the same tensor.
void SyntheticPiece(std::string_view name, uint64_t seed, uint64_t first, float centre, float amplitude,
                    std::span<float> values);
// gain * sqrt(3 / fan_in), computed in double.
float SyntheticAmplitude(double gain, double fan_in);
// Synthetic picture, 3 bytes a pixel, row by row: four octaves of square cells (edges 64, 16, 4, 1; weights 9, 4, 2, 1
// of 16), every cell an 8-bit number from stream "rgb_noise.<edge>".
std::vector<uint8_t> SyntheticRgb(uint64_t seed, int width, int height);

// Centre and amplitude of every tensor by name pattern, from a JSON file; the default set is built in.
class SynthesisRules {
 public:
  struct Size {
    int embed_dim = 0, depth = 0, heads = 0;
  };
  static Result<SynthesisRules> Default();
  static Result<SynthesisRules> Open(const std::filesystem::path& path);
  static Result<SynthesisRules> Parse(std::string_view json, std::string source);

  Result<Size> FindSize(std::string_view size) const;
  // Fills one tensor of part "backbone" or "decoder". Rows under calibration "<size>/<seed>" win for the decoder.
  Status Fill(std::string_view part, const TensorSpec& tensor, std::string_view size, uint64_t seed,
              std::span<float> values) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace sightline
