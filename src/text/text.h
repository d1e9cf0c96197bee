// text: the byte-level BPE tokenizer of Qwen2 with the added tokens of a model's own files. Immutable after Open; any
// thread may use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

// Whether text that looks like an added token ("<box>", "<|im_end|>", "<5>") becomes that token. User text never does:
// it is encoded as ordinary characters.
enum class AddedTokens { kOrdinaryText, kMatch };

// Text to ids: added tokens first when asked for (leftmost, longest), then for each piece between them NFC, the Qwen2
// pre-tokeniser pattern, and merges by rank over the byte alphabet of GPT-2 (huggingface/transformers
// tokenization_qwen2.py). No token is put before or behind the text.
class Tokenizer {
 public:
  // A model folder: vocab.json, merges.txt and added_tokens.json. A tokenizer.json that stands beside them must carry
  // all of added_tokens.json, or the folder is refused: programs that prefer that file would answer differently.
  // Missing files, ids that collide or leave gaps, merges of unknown tokens: kNotFound or kCorruptWeights with the
  // file's name.
  static Result<Tokenizer> Open(const std::filesystem::path& folder);
  // The three files from memory; `source` stands for the folder in messages.
  static Result<Tokenizer> Parse(std::string_view vocab_json, std::string_view merges_txt,
                                 std::string_view added_tokens_json, std::string source);

  int size() const;  // one more than the largest id
  // kInvalidUtf8 when `text` is not UTF-8, kInvalidRequest when it has more than 16 MiB. Time n log n, memory linear.
  Result<std::vector<TokenId>> Encode(std::string_view text, AddedTokens added) const;
  // Bytes of all tokens joined, added tokens as their text, then decoded: every maximal invalid part becomes one U+FFFD
  // (Unicode 15, 3.9, "substitution of maximal subparts"). Ids out of range are left out.
  std::string Decode(std::span<const TokenId> ids) const;
  // Bytes of one token, possibly part of a character; empty for an unknown id.
  std::string_view Bytes(TokenId id) const;
  std::optional<TokenId> FindAdded(std::string_view text) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// The tokenizer files of LocateAnything that ship with the product: name and contents.
struct TokenizerFile {
  std::string_view name;
  std::string_view contents;
};
// vocab.json, merges.txt, added_tokens.json; and what only other programs read: tokenizer_config.json,
// special_tokens_map.json.
std::span<const TokenizerFile> ShippedTokenizer();

}  // namespace sightline
