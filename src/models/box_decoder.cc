#include "models/box_decoder.h"

#include <algorithm>

namespace sightline {
namespace {

constexpr size_t kBoxCandidates = 4;
constexpr size_t kLabelCandidates = 5;

// The coordinates among a row's most probable tokens, most probable first.
std::vector<TokenId> LikelyCoordinates(const Distribution& row, const LocateTokens& tokens) {
  std::vector<TokenId> likely = row.Most(kBoxCandidates);
  std::erase_if(likely, [&](TokenId id) { return !tokens.IsCoordinate(id); });
  return likely;
}

bool IsAmbiguous(const Distribution& row, std::span<const TokenId> coordinates) {
  const auto [low, high] = std::ranges::minmax(coordinates);
  return row.Of(coordinates.front()) < 0.9 && coordinates.size() > 1 && high - low > 60;
}

size_t LeadingCoordinates(std::span<const TokenId> ids, const LocateTokens& tokens) {
  const auto end = std::ranges::find_if_not(ids, [&](TokenId id) { return tokens.IsCoordinate(id); });
  return static_cast<size_t>(end - ids.begin());
}

Continuation ContinueBox(const Block& block, DecodingMode mode, const LocateTokens& tokens) {
  const size_t coordinates = LeadingCoordinates(std::span(block).subspan<1, 4>(), tokens);
  if (coordinates == 4 && block[5] == tokens.box_end) return {StepType::kBox, block, 6};
  if (coordinates == 2 && block[3] == tokens.box_end) return {StepType::kPoint, block, 4};
  if (mode == DecodingMode::kFast) return {StepType::kBox, block, 6};
  return {StepType::kBrokenBox, block, 1 + coordinates};
}

Continuation ContinueText(const Block& block, const LocateTokens& tokens) {
  auto count = static_cast<size_t>(std::ranges::find(block, tokens.null) - block.begin());
  if (count >= 2 && block[count - 1] == tokens.ref_end && block[count - 2] == tokens.ref_end) --count;
  return {StepType::kText, block, count};
}

}  // namespace

Frame TestFrame(std::span<const Distribution> rows, const LocateTokens& tokens) {
  const bool empty = rows[0].Of(tokens.box_start) >= 0.7 && rows[1].Of(tokens.none) > 0.2 &&
                     rows[2].Of(tokens.box_end) > 0.2 && rows[3].Of(tokens.null) > 0.1 && rows[4].Of(tokens.null) > 0.1;
  if (empty) return Frame::kEmpty;
  const double end = rows[5].Of(tokens.box_end) + rows[5].Of(tokens.null) + rows[5].Of(tokens.message_end);
  return end >= 0.2 ? Frame::kLegal : Frame::kIllegal;
}

std::optional<Block> DecodeBox(std::span<const Distribution> rows, DecodingMode mode, const LocateTokens& tokens) {
  Block block{tokens.box_start, 0, 0, 0, 0, tokens.box_end};
  for (size_t i = 1; i <= 4; ++i) {
    const std::vector<TokenId> likely = LikelyCoordinates(rows[i], tokens);
    if (likely.empty()) return std::nullopt;
    const bool ambiguous = mode == DecodingMode::kHybrid && IsAmbiguous(rows[i], likely);
    block[i] = ambiguous ? kAmbiguousCoordinate : likely.front();
  }
  return block;
}

std::optional<Block> DecodeLabel(std::span<const Distribution> rows, const LocateTokens& tokens) {
  if (rows[0].Of(tokens.ref_start) < 0.6) return std::nullopt;
  Block block{tokens.ref_start};
  for (size_t i = 1; i < block.size(); ++i) {
    const std::vector<TokenId> likely = rows[i].Most(kLabelCandidates);
    const auto text = std::ranges::find_if_not(likely, [&](TokenId id) { return tokens.IsCoordinate(id); });
    if (text == likely.end()) return std::nullopt;
    block[i] = *text;
  }
  return block;
}

BlockChoice ChooseBlock(std::span<const Distribution> rows, const Block& chosen, DecodingMode mode,
                        const LocateTokens& tokens) {
  const Frame frame = TestFrame(rows, tokens);
  if (frame == Frame::kEmpty) {
    return {{tokens.box_start, tokens.none, tokens.box_end, tokens.null, tokens.null, tokens.null},
            BlockSource::kFrame};
  }
  if (frame == Frame::kLegal) {
    if (const auto box = DecodeBox(rows, mode, tokens)) return {*box, BlockSource::kBox};
  }
  if (const auto label = DecodeLabel(rows, tokens)) return {*label, BlockSource::kLabel};
  return {chosen, BlockSource::kTokens};
}

Continuation ContinueWith(const Block& block, DecodingMode mode, const LocateTokens& tokens) {
  if (block[0] == tokens.null || block[0] == tokens.message_end) return {StepType::kEnd, {tokens.message_end}, 1};
  if (block[0] == tokens.box_start) {
    if (block[1] == tokens.none) return {StepType::kNoBox, {tokens.box_start, tokens.none, tokens.box_end}, 3};
    return ContinueBox(block, mode, tokens);
  }
  return ContinueText(block, tokens);
}

}  // namespace sightline
