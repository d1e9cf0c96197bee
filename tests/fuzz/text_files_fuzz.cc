// The three tokenizer files over any bytes: vocabulary, merges and added tokens, each up to a byte 0.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/text.h"

namespace sightline {
namespace {

std::string_view TakePart(std::string_view* bytes) {
  const std::string_view part = bytes->substr(0, bytes->find('\0'));
  bytes->remove_prefix(std::min(part.size() + 1, bytes->size()));
  return part;
}

// Entries of a vocabulary of all 256 bytes, so that files can become good.
std::string AllBytes() {
  const std::string_view vocabulary = ShippedTokenizer()[0].contents;
  return std::string(vocabulary.substr(1, vocabulary.find(":255,") + 4));
}

}  // namespace
}  // namespace sightline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static const std::string start = "{" + AllBytes();
  const std::string_view vocabulary = TakePart(&bytes), merges = TakePart(&bytes);
  for (const std::string& whole : {std::string(vocabulary), start + std::string(vocabulary)}) {
    const auto tokenizer = Tokenizer::Parse(whole, merges, bytes, "x");
    if (!tokenizer) {
      if (tokenizer.error().code != Code::kCorruptWeights) std::abort();
      continue;
    }
    const auto ids = tokenizer->Encode("abc <box> \xc3\xa9", AddedTokens::kMatch);
    if (!ids || tokenizer->Decode(*ids) != "abc <box> \xc3\xa9") std::abort();
  }
  return 0;
}
