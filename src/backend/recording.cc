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

  void Add(std::string line) { lines_.push_back(std::move(line)); }

  std::vector<std::string>& lines_;
};

std::unique_ptr<Backend> MakeRecordingBackend(std::vector<std::string>* lines) {
  return std::make_unique<RecordingBackend>(lines);
}

}  // namespace sightline
