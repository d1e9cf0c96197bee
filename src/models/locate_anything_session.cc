// The Qwen2 decoder over a cache of keys and values: modeling_qwen2.py and mask_sdpa_utils.py of NVlabs/Eagle 783f656.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/locate_anything_weights.h"
#include "models/models.h"
#include "models/rotary.h"

namespace sightline {
namespace {

// Rows that go through the layers together; long prompts are taken in parts. Results do not depend on it.
constexpr int64_t kPartRows = 1024;

using Layer = LocateAnything::Weights::Layer;

}  // namespace

std::unique_ptr<LocateAnything::Session> LocateAnything::NewSession(int64_t capacity) {
  return std::unique_ptr<Session>(new Session(*this, capacity));
}

LocateAnything::Session::Session(LocateAnything& model, int64_t capacity) : model_(model), capacity_(capacity) {
  const LocateConfig::Language& language = model.config_.language;
  const Storage storage = model.backend_.AttentionStorage(model.precision_.language);
  for (int i = 0; i < language.layers; ++i) {
    layers_.push_back(
        model.backend_.EmptyKeyValues(capacity + kWindow, language.kv_heads, language.head_size, storage));
  }
}

LocateAnything::Session::~Session() = default;

void LocateAnything::Session::SetImages(std::shared_ptr<const std::vector<float>> rows) { images_ = std::move(rows); }

void LocateAnything::Session::CopyPrefix(const Session& from, int64_t tokens) {
  SIGHTLINE_CHECK(&from.model_ == &model_ && tokens <= from.length() && tokens <= capacity_);
  for (size_t i = 0; i < layers_.size(); ++i) model_.backend_.CopyKeyValues(from.layers_[i], tokens, layers_[i]);
  tokens_.assign(from.tokens_.begin(), from.tokens_.begin() + tokens);
  images_ = from.images_;
}

size_t LocateAnything::Session::bytes() const {
  return std::accumulate(layers_.begin(), layers_.end(), size_t{0}, [](size_t sum, const KeyValues& layer) {
    return sum + layer.keys->bytes + layer.values->bytes;
  });
}

int LocateAnything::Session::vocabulary() const { return model_.config_.language.vocabulary; }

void LocateAnything::Session::Crop(int64_t tokens) {
  SIGHTLINE_CHECK(tokens >= 0 && tokens <= length());
  tokens_.resize(static_cast<size_t>(tokens));
}

std::vector<float> LocateAnything::Session::Embed(std::span<const TokenId> ids) const {
  const TensorView& table = *model_.weights_->embedding;
  const auto hidden = static_cast<size_t>(model_.config_.language.hidden);
  const TokenId image = model_.config_.tokens.image;
  auto image_row = static_cast<size_t>(std::ranges::count(tokens_, image));
  std::vector<float> rows(ids.size() * hidden);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> to = std::span(rows).subspan(i * hidden, hidden);
    if (ids[i] == image && images_ != nullptr && (image_row + 1) * hidden <= images_->size()) {
      std::copy_n(&(*images_)[image_row++ * hidden], hidden, to.begin());
      continue;
    }
    TensorView row = table;
    row.data += static_cast<size_t>(ids[i]) * static_cast<size_t>(table.strides[0]) * SizeOf(table.dtype);
    row.shape = {static_cast<int64_t>(hidden)};
    row.strides = {table.strides[1]};
    SIGHTLINE_CHECK(CopyAsFloat(row, to).has_value());
  }
  return rows;
}

Status LocateAnything::Session::Forward(const Step& step, std::stop_token stop, std::vector<float>* logits) {
  const auto fed = static_cast<int64_t>(step.ids.size());
  SIGHTLINE_CHECK(length() + fed <= capacity_ && step.logit_rows <= fed && (fed > 0 || step.window));
  SIGHTLINE_CHECK(std::ranges::all_of(step.ids, [&](TokenId id) { return id >= 0 && id < vocabulary(); }));
  // All but the last part of a long prompt only leaves keys and values behind.
  int64_t done = 0;
  for (; fed - done > step.logit_rows + kPartRows; done += kPartRows) {
    SIGHTLINE_RETURN_IF_ERROR(
        RunPart({.ids = step.ids.subspan(static_cast<size_t>(done), kPartRows), .logit_rows = 0}, stop, logits));
  }
  Step last = step;
  last.ids = step.ids.subspan(static_cast<size_t>(done));
  return RunPart(last, stop, logits);
}

Status LocateAnything::Session::RunPart(const Step& step, std::stop_token stop, std::vector<float>* logits) {
  const auto fed = static_cast<int64_t>(step.ids.size());
  const int64_t before = length(), after = before + fed;
  std::vector<TokenId> ids(step.ids.begin(), step.ids.end());
  std::vector<int64_t> positions(step.ids.size());
  std::iota(positions.begin(), positions.end(), before);
  Mask mask{.keys = after, .causal_rows = fed, .first_key = before};
  if (step.window) {
    // The last token once more, so that it can see the masks behind it; nobody in the window sees the first of the two.
    ids.push_back(step.last);
    ids.resize(ids.size() + kWindow - 1, model_.config_.tokens.mask);
    for (int i = 0; i < kWindow; ++i) positions.push_back(after - 1 + i);
    mask.keys += kWindow;
    mask.hidden_key = after - 1;
  }
  const std::vector<float> embedded = Embed(ids);
  if (tap_ != nullptr) {
    (*tap_)("l.embeds", embedded, {static_cast<int64_t>(ids.size()), model_.config_.language.hidden});
  }
  SIGHTLINE_RETURN_IF_ERROR(
      RunLayers(embedded, positions, mask, step.logit_rows + (step.window ? kWindow : 0), stop, logits));
  tokens_.insert(tokens_.end(), step.ids.begin(), step.ids.end());
  return {};
}

Status LocateAnything::Session::RunLayers(std::span<const float> embedded, std::span<const int64_t> positions,
                                          const Mask& mask, int64_t wanted, std::stop_token stop,
                                          std::vector<float>* logits) {
  Backend& backend = model_.backend_;
  const LocateConfig::Language& language = model_.config_.language;
  const auto count = static_cast<int64_t>(positions.size());
  const int pairs = language.head_size / 2;
  const std::vector<float> frequencies = RotaryFrequencies(language.rope_theta, language.head_size, 2, pairs);
  RotaryTable rotary(positions.size(), static_cast<size_t>(pairs));
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t pair = 0; pair < frequencies.size(); ++pair) {
      rotary.Set(row, pair, static_cast<float>(positions[row]) * frequencies[pair]);
    }
  }
  if (tap_ != nullptr) {
    (*tap_)("l.rope_cos", rotary.cosine(), {count, pairs});
    (*tap_)("l.rope_sin", rotary.sine(), {count, pairs});
  }
  Rows x = backend.Upload(embedded, count, language.hidden, Storage::kStream);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "locate: the request was cancelled");
    // What nobody reads is not computed: behind the last keys and values only the rows with logits go on.
    const int64_t kept = i + 1 == layers_.size() && tap_ == nullptr ? wanted : count;
    x = RunLayer(i, x, rotary.Rows(RopePairs::kHalves, 0, count), mask, kept);
  }
  if (wanted == 0) return {};
  return ReadLogits(x, wanted, logits);
}

Rows LocateAnything::Session::RunLayer(size_t index, const Rows& x, const Rope& rope, const Mask& mask, int64_t kept) {
  Backend& backend = model_.backend_;
  const Layer& layer = model_.weights_->layers[index];
  const LocateConfig::Language& language = model_.config_.language;
  const auto epsilon = static_cast<float>(language.norm_epsilon);
  const Storage operand = backend.OperandStorage(model_.precision_.language);
  const std::string name = tap_ == nullptr ? std::string() : fmt::format("l.{}.", index);
  const auto give = [&](std::string_view stage, const Rows& rows) {
    if (tap_ != nullptr) (*tap_)(name + std::string(stage), backend.Download(rows), {rows.rows, rows.columns});
  };

  Rows normed = backend.RmsNorm(x, layer.input_norm, epsilon, operand);
  give("norm0", normed);
  const Rows qkv = backend.Linear(normed, layer.qkv.matrix, {.bias = layer.qkv.bias, .stream_output = true});
  give("qkv", qkv);
  const Queries queries = backend.SplitHeads(qkv, language.heads, rope, mask.first_key, layers_[index]);
  if (kept == 0) return x;
  const Rows attended = backend.Attention(queries, layers_[index], mask, operand);
  give("attn", attended);

  const Rows rest = Backend::Slice(x, x.rows - kept, kept);
  backend.Linear(Backend::Slice(attended, x.rows - kept, kept), layer.o.matrix, {.add_to = &rest});
  normed = backend.RmsNorm(rest, layer.post_attention_norm, epsilon, operand);
  give("norm1", normed);
  const Rows gate_up = backend.Linear(normed, layer.gate_up.matrix, {.stream_output = true});
  const Rows hidden = backend.SwiGlu(gate_up, operand);
  give("act", hidden);
  backend.Linear(hidden, layer.down.matrix, {.add_to = &rest});
  give("out", rest);
  return rest;
}

Status LocateAnything::Session::ReadLogits(const Rows& x, int64_t wanted, std::vector<float>* logits) {
  Backend& backend = model_.backend_;
  const auto epsilon = static_cast<float>(model_.config_.language.norm_epsilon);
  if (tap_ != nullptr) {
    const Rows all = backend.RmsNorm(x, model_.weights_->norm, epsilon, Storage::kStream);
    (*tap_)("l.norm", backend.Download(all), {x.rows, x.columns});
  }
  const Rows normed = backend.RmsNorm(Backend::Slice(x, x.rows - wanted, wanted), model_.weights_->norm, epsilon,
                                      backend.OperandStorage(model_.precision_.language));
  *logits = backend.Download(backend.Linear(normed, model_.weights_->head.matrix, {.stream_output = true}));
  if (!std::ranges::all_of(*logits, [](float v) { return std::isfinite(v); })) {
    return Fail(Code::kNumeric, "locate: the decoder gives values that are not finite; the weights are damaged");
  }
  return {};
}

}  // namespace sightline
