// Six rows of probabilities to six tokens, and six tokens to what the answer gets: the decoding rules of LocateAnything
// (generate_utils.py: sample_tokens, decode_bbox_avg, decode_ref, handle_pattern). Pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "models/logits.h"
#include "models/models.h"

namespace sightline {

using Block = std::array<TokenId, kWindow>;

// Stands in a block for a coordinate that hybrid decoding does not trust.
inline constexpr TokenId kAmbiguousCoordinate = 0;

// What the rows look like as a whole: "<box>None</box>", a box or anything else with an end, or neither.
enum class Frame { kEmpty, kLegal, kIllegal };
Frame TestFrame(std::span<const Distribution> rows, const LocateTokens& tokens);

// Coordinates from the four most probable tokens of rows 1 to 4; none when a row has no coordinate there. In hybrid
// mode a coordinate is ambiguous below a probability of 0.9 when others among the four lie more than 60 away.
std::optional<Block> DecodeBox(std::span<const Distribution> rows, DecodingMode mode, const LocateTokens& tokens);

// "<ref>" and the most probable token of each row that is no coordinate; none when <ref> is not likely or a row has
// only coordinates among its five most probable tokens.
std::optional<Block> DecodeLabel(std::span<const Distribution> rows, const LocateTokens& tokens);

struct BlockChoice {
  Block block;
  BlockSource source;
};
// `chosen` are the tokens of the rows by themselves.
BlockChoice ChooseBlock(std::span<const Distribution> rows, const Block& chosen, DecodingMode mode,
                        const LocateTokens& tokens);

// What the answer gets from a block: its type and the first `count` of `tokens`. kEnd ends the answer, kBrokenBox
// leaves windows for single tokens.
struct Continuation {
  StepType type;
  Block tokens;
  size_t count;
};
Continuation ContinueWith(const Block& block, DecodingMode mode, const LocateTokens& tokens);

}  // namespace sightline
