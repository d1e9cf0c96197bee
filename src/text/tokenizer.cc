#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "text/byte_alphabet.h"
#include "text/byte_pairs.h"
#include "text/normalize.h"
#include "text/pretokenizer.h"
#include "text/text.h"
#include "text/tokenizer_files.h"

namespace sightline {
namespace {

constexpr size_t kMaxText = 16 << 20;  // bytes; a token takes some tens of bytes while it is merged

std::string_view AsText(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

struct Tokenizer::State {
  std::vector<std::string> tokens;  // bytes by id
  BytePairs pairs;
  std::unordered_map<std::string_view, TokenId> added;  // keys are views into `tokens`
  std::vector<size_t> added_lengths;                    // the different ones, longest first
  std::array<bool, 256> first_bytes = {};               // of added tokens

  // The added token at the front of `text`, the longest that fits.
  std::optional<TokenId> AddedAt(std::string_view text) const {
    for (const size_t length : added_lengths) {
      if (length > text.size()) continue;
      if (const auto found = added.find(text.substr(0, length)); found != added.end()) return found->second;
    }
    return std::nullopt;
  }

  Status EncodeOrdinary(std::string_view text, std::vector<TokenId>* ids) const {
    const std::string normalized = NormalizeNfc(text);
    return Pretokenizer::Qwen2().Split(normalized, [&](std::string_view word) { pairs.Encode(word, ids); });
  }

  Status EncodeMatching(std::string_view text, std::vector<TokenId>* ids) const {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const std::optional<TokenId> id =
          first_bytes[static_cast<uint8_t>(text[at])] ? AddedAt(text.substr(at)) : std::nullopt;
      if (!id) {
        ++at;
        continue;
      }
      SIGHTLINE_RETURN_IF_ERROR(EncodeOrdinary(text.substr(begin, at - begin), ids));
      ids->push_back(*id);
      at += tokens[static_cast<size_t>(*id)].size();
      begin = at;
    }
    return EncodeOrdinary(text.substr(begin), ids);
  }
};

namespace {

// Puts a tokenizer together from its tables.
class Builder {
 public:
  Builder(const TokenTable& vocabulary, const TokenTable& added, std::string source)
      : vocabulary_(vocabulary), added_(added), source_(std::move(source)) {}

  // The bytes of each id. Ids must be those from 0 on, each once.
  Result<std::vector<std::string>> Tokens() const {
    const size_t size = vocabulary_.tokens.size() + added_.tokens.size();
    std::vector<std::string> tokens(size);
    const auto place = [&](const NamedToken& token, std::string bytes) -> Status {
      if (static_cast<size_t>(token.id) >= size) {
        return CorruptTokenizer(source_, fmt::format("'{}' has the id {}, but vocab.json and added_tokens.json have {} "
                                                     "tokens; ids must leave no gap",
                                                     Shown(token.text), token.id, size));
      }
      std::string& slot = tokens[static_cast<size_t>(token.id)];
      if (!slot.empty()) {
        return CorruptTokenizer(source_,
                                fmt::format("the id {} is both in vocab.json and in added_tokens.json", token.id));
      }
      slot = std::move(bytes);
      return {};
    };
    for (const NamedToken& token : vocabulary_.tokens) {
      std::optional<std::string> bytes = BytesOfAlphabet(token.text);
      if (!bytes) {
        return CorruptTokenizer(
            source_, fmt::format("token {} of vocab.json, '{}', has a character that stands for no byte", token.id,
                                 Shown(token.text)));
      }
      SIGHTLINE_RETURN_IF_ERROR(place(token, std::move(*bytes)));
    }
    for (const NamedToken& token : added_.tokens) SIGHTLINE_RETURN_IF_ERROR(place(token, token.text));
    return tokens;
  }

  Result<BytePairs> Pairs(std::string_view merges_txt) const {
    const TextIndex& ids = vocabulary_.ids;
    SIGHTLINE_ASSIGN_OR_RETURN(const auto merges, ReadMerges(merges_txt, source_ + "/merges.txt"));
    BytePairs pairs(merges.size());
    SIGHTLINE_RETURN_IF_ERROR(SetBytes(&pairs));
    std::string joined;
    for (const auto& [left, right] : merges) {
      joined.assign(left).append(right);
      const auto a = ids.Find(left), b = ids.Find(right), both = ids.Find(joined);
      if (!a || !b || !both) {
        return CorruptTokenizer(source_,
                                fmt::format("merges.txt merges '{}' and '{}', which with their sum are not all "
                                            "in vocab.json",
                                            Shown(left), Shown(right)));
      }
      if (!pairs.AddMerge(*a, *b, *both)) {
        return CorruptTokenizer(source_,
                                fmt::format("merges.txt merges '{}' and '{}' twice", Shown(left), Shown(right)));
      }
    }
    return pairs;
  }

 private:
  // Without a token for every byte some text could not be encoded.
  Status SetBytes(BytePairs* pairs) const {
    std::array<bool, 256> known = {};
    for (const NamedToken& token : vocabulary_.tokens) {
      const std::optional<std::string> bytes = token.text.size() <= 2 ? BytesOfAlphabet(token.text) : std::nullopt;
      if (!bytes || bytes->size() != 1) continue;
      const auto byte = static_cast<uint8_t>(bytes->front());
      known[byte] = true;
      pairs->SetByte(byte, token.id);
    }
    const auto missing = std::ranges::find(known, false);
    if (missing == known.end()) return {};
    return CorruptTokenizer(source_, fmt::format("vocab.json has no token for the byte {}", missing - known.begin()));
  }

  const TokenTable& vocabulary_;
  const TokenTable& added_;
  std::string source_;
};

}  // namespace

Result<Tokenizer> Tokenizer::Open(const std::filesystem::path& folder) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto vocabulary, ReadFile(folder / "vocab.json", kMaxTokenizerFile));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto merges, ReadFile(folder / "merges.txt", kMaxTokenizerFile));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto added, ReadFile(folder / "added_tokens.json", kMaxTokenizerFile));
  SIGHTLINE_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                             Parse(AsText(vocabulary), AsText(merges), AsText(added), folder.string()));
  const std::filesystem::path other = folder / "tokenizer.json";
  std::error_code ignored;
  if (std::filesystem::exists(other, ignored)) {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto json, ReadFile(other, kMaxTokenizerFile));
    SIGHTLINE_ASSIGN_OR_RETURN(const auto table, ReadTokenTable(AsText(added), "added_tokens.json"));
    SIGHTLINE_RETURN_IF_ERROR(CheckTokenizerJson(AsText(json), table.tokens, other.string()));
  }
  return tokenizer;
}

Result<Tokenizer> Tokenizer::Parse(std::string_view vocab_json, std::string_view merges_txt,
                                   std::string_view added_tokens_json, std::string source) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto vocabulary, ReadTokenTable(vocab_json, source + "/vocab.json"));
  SIGHTLINE_ASSIGN_OR_RETURN(const auto added, ReadTokenTable(added_tokens_json, source + "/added_tokens.json"));
  const Builder builder(vocabulary, added, std::move(source));
  auto state = std::make_shared<State>();
  SIGHTLINE_ASSIGN_OR_RETURN(state->tokens, builder.Tokens());
  SIGHTLINE_ASSIGN_OR_RETURN(state->pairs, builder.Pairs(merges_txt));
  for (const NamedToken& token : added.tokens) {
    const std::string& text = state->tokens[static_cast<size_t>(token.id)];
    state->added.emplace(text, token.id);
    state->added_lengths.push_back(text.size());
    state->first_bytes[static_cast<uint8_t>(text.front())] = true;
  }
  std::ranges::sort(state->added_lengths, std::greater());
  const auto repeated = std::unique(state->added_lengths.begin(), state->added_lengths.end());
  state->added_lengths.erase(repeated, state->added_lengths.end());
  Tokenizer tokenizer;
  tokenizer.state_ = std::move(state);
  return tokenizer;
}

int Tokenizer::size() const { return static_cast<int>(state_->tokens.size()); }

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, AddedTokens added) const {
  if (text.size() > kMaxText) {
    return Fail(Code::kInvalidRequest, fmt::format("text has {} bytes, at most {} are encoded", text.size(), kMaxText));
  }
  if (const size_t invalid = FindInvalidUtf8(text); invalid != text.npos) {
    return Fail(Code::kInvalidUtf8, fmt::format("text is not UTF-8 at byte {}", invalid));
  }
  std::vector<TokenId> ids;
  SIGHTLINE_RETURN_IF_ERROR(added == AddedTokens::kMatch ? state_->EncodeMatching(text, &ids)
                                                         : state_->EncodeOrdinary(text, &ids));
  return ids;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += Bytes(id);
  return ReplaceInvalidUtf8(bytes);
}

std::string_view Tokenizer::Bytes(TokenId id) const {
  if (id < 0 || id >= size()) return {};
  return state_->tokens[static_cast<size_t>(id)];
}

std::optional<TokenId> Tokenizer::FindAdded(std::string_view text) const {
  const auto found = state_->added.find(text);
  if (found == state_->added.end()) return std::nullopt;
  return found->second;
}

}  // namespace sightline
