// The files that a tokenizer is made of. `source` names the file in messages; whatever is wrong with the content is
// kCorruptWeights.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base.h"
#include "text/text_index.h"

namespace sightline {

inline constexpr size_t kMaxTokenizerFile = 64 << 20;  // bytes
inline constexpr size_t kMaxTokens = 1 << 20;
inline constexpr size_t kMaxTokenBytes = 1024;

struct NamedToken {
  NamedToken(std::string t, TokenId i) : text(std::move(t)), id(i) {}
  std::string text;
  TokenId id;
};

// An object of texts and ids, in its order. No text and no id stands there twice.
struct TokenTable {
  std::vector<NamedToken> tokens;
  TextIndex ids{0};  // of their texts; lives as long as they do
};

// vocab.json and added_tokens.json.
Result<TokenTable> ReadTokenTable(std::string_view json, const std::string& source);

// merges.txt: one merge a line, "left right", lowest rank first. Views into `text`.
Result<std::vector<std::pair<std::string_view, std::string_view>>> ReadMerges(std::string_view text,
                                                                              const std::string& source);

// A tokenizer.json must carry all of `added`, text and id.
Status CheckTokenizerJson(std::string_view json, const std::vector<NamedToken>& added, const std::string& source);

// kCorruptWeights with "<source>: <what>".
tl::unexpected<Error> CorruptTokenizer(const std::string& source, std::string_view what);
// Text of a file that is not trusted, fit for a message.
std::string Shown(std::string_view text);

}  // namespace sightline
