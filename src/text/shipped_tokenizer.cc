#include <array>

#include "text/text.h"

extern "C" {
extern const std::byte sightline_tokenizer_vocab[], sightline_tokenizer_vocab_end[];
extern const std::byte sightline_tokenizer_merges[], sightline_tokenizer_merges_end[];
extern const std::byte sightline_tokenizer_added_tokens[], sightline_tokenizer_added_tokens_end[];
extern const std::byte sightline_tokenizer_tokenizer_config[], sightline_tokenizer_tokenizer_config_end[];
extern const std::byte sightline_tokenizer_special_tokens_map[], sightline_tokenizer_special_tokens_map_end[];
}

namespace sightline {
namespace {

std::string_view Text(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin)};
}

}  // namespace

std::span<const TokenizerFile> ShippedTokenizer() {
  static const std::array<TokenizerFile, 5> files = {{
      {"vocab.json", Text(sightline_tokenizer_vocab, sightline_tokenizer_vocab_end)},
      {"merges.txt", Text(sightline_tokenizer_merges, sightline_tokenizer_merges_end)},
      {"added_tokens.json", Text(sightline_tokenizer_added_tokens, sightline_tokenizer_added_tokens_end)},
      {"tokenizer_config.json", Text(sightline_tokenizer_tokenizer_config, sightline_tokenizer_tokenizer_config_end)},
      {"special_tokens_map.json",
       Text(sightline_tokenizer_special_tokens_map, sightline_tokenizer_special_tokens_map_end)},
  }};
  return files;
}

}  // namespace sightline
