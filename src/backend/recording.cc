#include <algorithm>

#include "backend/backend.h"

namespace sightline {
namespace {

class EmptyBlock : public DeviceBlock {
 public:
  explicit EmptyBlock(size_t size) { bytes = size; }
};

std::string NameOf(Storage storage) { return storage == Storage::kStream ? "stream" : "operand"; }

std::string ShapeText(std::string_view name, int64_t rows, int64_t columns) {
  return std::string(name) + "[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
}

std::string ShapeText(std::string_view name, const Rows& rows) { return ShapeText(name, rows.rows, rows.columns); }

std::string HeadsText(int heads, int key_heads, int head_size) {
  return "heads " + std::to_string(heads) + "/" + std::to_string(key_heads) + " head_size " + std::to_string(head_size);
}

std::string MaskText(const Mask& mask) {
  std::string text = "keys " + std::to_string(mask.keys);
  if (mask.causal_rows > 0) {
    text += " causal " + std::to_string(mask.causal_rows) + " from " + std::to_string(mask.first_key);
  }
  if (mask.hidden_key) text += " hidden " + std::to_string(*mask.hidden_key);
  return text;
}

std::string_view RopeText(const Rope& rope) {
  if (rope.cosine.empty()) return "";
  return rope.pairs == RopePairs::kNeighbours ? " rope neighbours" : " rope halves";
}

std::string ShapeText(const AttentionShape& shape) {
  return "sequences " + std::to_string(shape.sequences) + " length " + std::to_string(shape.length) + " heads " +
         std::to_string(shape.heads) + " head_size " + std::to_string(shape.head_size);
}

}  // namespace

class RecordingBackend : public Backend {
 public:
  explicit RecordingBackend(std::vector<std::string>* lines) : lines_(*lines) {}

  std::string name() const override { return "recorder"; }
  std::string isa() const override { return "none"; }
  int threads() const override { return 1; }
  Precision preferred_precision() const override { return Precision::kF32; }
  size_t allocated_bytes() const override { return 0; }

  // Weights have a shape here, but no contents.
  std::string PackedLayout(Precision precision) const override {
    return std::string(sightline::NameOf(precision)) + "-shape";
  }
  size_t PackedBytes(Precision, int64_t, int64_t) const override { return 0; }
  void Pack(Precision, std::span<const float> weight, int64_t outputs, int64_t inputs,
            std::span<std::byte>) const override {
    SIGHTLINE_CHECK(static_cast<int64_t>(weight.size()) == outputs * inputs);
  }

 private:
  std::shared_ptr<DeviceBlock> Allocate(size_t bytes) override { return std::make_shared<EmptyBlock>(bytes); }

  Storage DoOperandStorage(Precision precision) const override {
    const bool integers = precision == Precision::kInt8 || precision == Precision::kInt4;
    return integers ? Storage::kOperandInt8 : DoAttentionStorage(precision);
  }

  Storage DoAttentionStorage(Precision precision) const override {
    return precision == Precision::kF32 ? Storage::kOperandF32 : Storage::kOperandBF16;
  }

  void DoUpload(std::span<const float>, const Rows& to) override {
    Add("upload " + ShapeText("x", to) + " -> " + NameOf(to.storage));
  }

  void DoDownload(const Rows& from, std::span<float> values) override {
    std::ranges::fill(values, 0.0f);
    Add("download " + ShapeText("x", from));
  }

  void DoCopyRows(const Rows& from, const Rows&) override { Add("copy " + ShapeText("x", from)); }

  void DoLinear(const Rows& x, const WeightMatrix& w, const LinearOptions& options, const Rows& y) override {
    std::string line = "linear " + ShapeText("x", x) + " " + ShapeText("w", w.outputs, w.inputs);
    if (!options.bias.empty()) line += " bias";
    if (options.activation == Activation::kGelu) line += " gelu";
    if (options.activation == Activation::kGeluTanh) line += " gelu_tanh";
    if (options.activation == Activation::kRelu) line += " relu";
    Add(line + (options.add_to != nullptr ? " += " : " -> ") + NameOf(y.storage));
  }

  void DoLayerNorm(const Rows& x, WeightVector, WeightVector, float, const Rows& y) override {
    Add("layer_norm " + ShapeText("x", x) + " -> " + NameOf(y.storage));
  }

  ProjectedHeads DoQkv(const Rows& x, const WeightMatrix& w, WeightVector bias, const AttentionShape& shape) override {
    Add("qkv " + ShapeText("x", x) + " " + ShapeText("w", w.outputs, w.inputs) + (bias.empty() ? "" : " bias") +
        " -> " + ShapeText(shape));
    const auto block = Allocate(0);
    return {block, block, block, shape, x.storage};
  }

  void DoAttention(const ProjectedHeads& projected, const Rows& y) override {
    Add("attention " + ShapeText(projected.shape) + " -> " + NameOf(y.storage));
  }

  void DoConvert(const Rows& x, const Rows& y) override {
    Add("convert " + ShapeText("x", x) + " -> " + NameOf(y.storage));
  }

  KeyValues DoEmptyKeyValues(int64_t capacity, int heads, int head_size, Storage storage) override {
    return {Allocate(0), Allocate(0), capacity, heads, head_size, storage};
  }

  void DoCopyKeyValues(const KeyValues& from, int64_t count, const KeyValues&) override {
    Add("copy key_values[" + std::to_string(count) + "] " + HeadsText(from.heads, from.heads, from.head_size));
  }

  void DoRmsNorm(const Rows& x, WeightVector, float, const Rows& y) override {
    Add("rms_norm " + ShapeText("x", x) + " -> " + NameOf(y.storage));
  }

  void DoSwiGlu(const Rows& x, const Rows& y) override {
    Add("swiglu " + ShapeText("x", x) + " -> " + NameOf(y.storage));
  }

  Queries DoSplitHeads(const Rows& projected, int heads, const Rope& rope, int64_t position,
                       const KeyValues& cache) override {
    Add("split_heads " + ShapeText("x", projected) + " " + HeadsText(heads, cache.heads, cache.head_size) +
        std::string(RopeText(rope)) + " -> positions from " + std::to_string(position));
    return {Allocate(0), projected.rows, heads, cache.head_size, cache.storage};
  }

  void DoMaskedAttention(const Queries& queries, const KeyValues& cache, const Mask& mask, const Rows& y) override {
    Add("attention q[" + std::to_string(queries.rows) + "] " + HeadsText(queries.heads, cache.heads, cache.head_size) +
        " " + MaskText(mask) + " -> " + NameOf(y.storage));
  }

  void Add(std::string line) { lines_.push_back(std::move(line)); }

  std::vector<std::string>& lines_;
};

std::unique_ptr<Backend> MakeRecordingBackend(std::vector<std::string>* lines) {
  return std::make_unique<RecordingBackend>(lines);
}

}  // namespace sightline
