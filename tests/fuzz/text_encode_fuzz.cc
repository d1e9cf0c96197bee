// Encoding and decoding of any bytes with the shipped tokenizer.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "text/text.h"

namespace sightline {
namespace {

const Tokenizer& Shipped() {
  static const Tokenizer tokenizer = [] {
    const auto files = ShippedTokenizer();
    return Tokenizer::Parse(files[0].contents, files[1].contents, files[2].contents, "shipped").value();
  }();
  return tokenizer;
}

void Require(bool condition) {
  if (!condition) std::abort();
}

void EncodeAndBack(std::string_view text, AddedTokens added) {
  const auto ids = Shipped().Encode(text, added);
  if (!ids) {
    Require(ids.error().code == Code::kInvalidUtf8);
    return;
  }
  if (added == AddedTokens::kOrdinaryText) {
    for (const TokenId id : *ids) Require(id < *Shipped().FindAdded("<|endoftext|>"));
  }
  // What comes back is the normalised text, which encodes to the same ids.
  const std::string back = Shipped().Decode(*ids);
  const auto again = Shipped().Encode(back, AddedTokens::kOrdinaryText);
  Require(again.has_value());
  if (added == AddedTokens::kOrdinaryText) Require(*again == *ids);
}

}  // namespace
}  // namespace sightline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  EncodeAndBack(text, AddedTokens::kMatch);
  EncodeAndBack(text, AddedTokens::kOrdinaryText);
  Require(CompleteUtf8Prefix(text) <= size);
  std::vector<TokenId> ids(size / sizeof(TokenId));
  if (!ids.empty()) std::memcpy(ids.data(), data, ids.size() * sizeof(TokenId));
  for (TokenId& id : ids) id %= 152'700;
  Require(Shipped().Encode(Shipped().Decode(ids), AddedTokens::kMatch).has_value());
  return 0;
}
