// A language model without weights: its logits are a hash of all tokens that a row sees. Answers have the grammar of
// LocateAnything with slips, and its windows propose what plain decoding would do, with slips of their own.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "models/models.h"

namespace sightline {

// Ids of the small vocabulary: 0 to 9 are text, 5 is "None".
inline constexpr int kHashVocabulary = 128;
inline LocateTokens HashTokens() {
  LocateTokens tokens;
  tokens.image = 10, tokens.image_start = 11, tokens.image_end = 12;
  tokens.ref_start = 13, tokens.ref_end = 14, tokens.box_start = 15, tokens.box_end = 16;
  tokens.mask = 17, tokens.null = 18, tokens.message_start = 19, tokens.message_end = 20, tokens.none = 5;
  tokens.first_coordinate = 21, tokens.last_coordinate = kHashVocabulary - 1;
  return tokens;
}

class HashModel : public TokenModel {
 public:
  // Slips are percentages.
  struct Traits {
    uint64_t seed = 0;
    uint64_t answer_slips = 5;
    uint64_t window_slips = 15;
    int64_t capacity = 4096;
  };
  explicit HashModel(const Traits& traits) : traits_(traits) {}

  const std::vector<TokenId>& fed() const { return fed_; }
  int64_t widest() const { return widest_; }  // most rows of one pass

  // The logits of plain decoding behind `context`.
  std::vector<float> Row(std::span<const TokenId> context) const {
    const uint64_t hash = Hash(context);
    std::vector<float> row(kHashVocabulary);
    for (size_t id = 0; id < row.size(); ++id) {
      row[id] = static_cast<float>(Mix(hash + id) >> 40) * 0x1p-24f * 4;
    }
    row[static_cast<size_t>(Next(context, hash))] += 6;
    return row;
  }

  int vocabulary() const override { return kHashVocabulary; }
  int64_t length() const override { return std::ssize(fed_); }
  int64_t capacity() const override { return traits_.capacity; }

  void Crop(int64_t tokens) override {
    if (tokens > length()) throw std::logic_error("Crop beyond the tokens that were fed");
    fed_.resize(static_cast<size_t>(tokens));
  }

  Status Forward(const Step& step, std::stop_token stop, std::vector<float>* logits) override {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "language model: was cancelled");
    fed_.insert(fed_.end(), step.ids.begin(), step.ids.end());
    if (length() > capacity() || step.logit_rows > std::ssize(step.ids) || fed_.empty() || step.last != fed_.back() ||
        (step.logit_rows == 0 && !step.window)) {
      throw std::logic_error("a step that no model can take");
    }
    logits->clear();
    for (int64_t rows = step.logit_rows - 1; rows >= 0; --rows) {
      Append(Row(std::span(fed_).first(fed_.size() - static_cast<size_t>(rows))), logits);
    }
    if (step.window) AppendWindow(logits);
    widest_ = std::max(widest_, std::ssize(step.ids) + (step.window ? kWindow : 0));
    return {};
  }

 private:
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t Hash(std::span<const TokenId> context) const {
    uint64_t hash = Mix(traits_.seed + 0x9e3779b97f4a7c15);
    for (const TokenId id : context) hash = Mix(hash + 0x9e3779b97f4a7c15 * static_cast<uint64_t>(id + 1));
    return hash;
  }

  // The likely next token: what the grammar wants, or any.
  TokenId Next(std::span<const TokenId> context, uint64_t hash) const {
    if (hash % 100 < traits_.answer_slips) return static_cast<TokenId>((hash >> 8) % kHashVocabulary);
    const auto dice = static_cast<TokenId>((hash >> 16) % 100);
    const auto start = std::ranges::find_if(context.rbegin(), context.rend(), [this](TokenId id) {
      return id >= tokens_.ref_start && id <= tokens_.box_end;
    });
    const auto inside = start - context.rbegin();
    if (start == context.rend()) return tokens_.ref_start;
    if (*start == tokens_.ref_start) return inside == 0 || dice < 60 ? dice % 5 : tokens_.ref_end;
    if (*start == tokens_.box_start) return NextInBox(inside, dice);
    if (*start == tokens_.ref_end) return tokens_.box_start;
    return dice < 60 ? tokens_.box_start : dice < 85 ? tokens_.ref_start : tokens_.message_end;
  }

  TokenId NextInBox(int64_t inside, TokenId dice) const {
    if (inside == 0 && dice < 8) return tokens_.none;
    if (inside == 4 || (inside == 2 && dice < 15) || (inside == 1 && dice >= 90)) return tokens_.box_end;
    return tokens_.first_coordinate + dice;
  }

  void AppendWindow(std::vector<float>* logits) const {
    std::vector<TokenId> context = fed_;
    for (uint64_t i = 0; i < kWindow; ++i) {
      std::vector<float> row = Row(context);
      const uint64_t hash = Mix(Hash(context) + i);
      context.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
      if (hash % 100 < traits_.window_slips) row[(hash >> 8) % kHashVocabulary] += 8;
      Append(row, logits);
    }
  }

  static void Append(const std::vector<float>& row, std::vector<float>* logits) {
    logits->insert(logits->end(), row.begin(), row.end());
  }

  Traits traits_;
  LocateTokens tokens_ = HashTokens();
  std::vector<TokenId> fed_;
  int64_t widest_ = 0;
};

}  // namespace sightline
