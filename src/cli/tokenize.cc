#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "text/text.h"

namespace sightline {
namespace {

class TokenizeVerb : public Verb {
 public:
  VerbText text() const override {
    return {"tokenize", "Print the token ids of a text", "sightline tokenize \"person</c>car\" --added-tokens",
            "User text is encoded without --added-tokens: it can never name a token such as <box>."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("TEXT", text_, "TEXT", "to encode, or - for standard input");
    options.Folder("--weights", folder_, "model folder whose tokenizer to use (default: the one of LocateAnything)");
    options.Flag("--added-tokens", added_tokens_, "text such as <box> or <|im_end|> is the token of that name");
    options.Flag("--json", json_, "print ids and the text of each token as JSON");
  }
  Status Check() override {
    if (text_.empty()) return Fail(Code::kUsage, "TEXT is missing or empty, expected the text to encode");
    return {};
  }
  Result<int> Run() override;

 private:
  Result<Tokenizer> Open() const;

  std::string text_;
  std::filesystem::path folder_;
  bool added_tokens_ = false;
  bool json_ = false;
};

Result<Tokenizer> TokenizeVerb::Open() const {
  if (!folder_.empty()) return Tokenizer::Open(folder_);
  const auto files = ShippedTokenizer();
  return Tokenizer::Parse(files[0].contents, files[1].contents, files[2].contents, "built in");
}

Result<int> TokenizeVerb::Run() {
  constexpr size_t kMaxText = 16 << 20;
  if (text_ == "-") {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> input, ReadFile("-", kMaxText));
    text_.assign(reinterpret_cast<const char*>(input.data()), input.size());
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Open());
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                             tokenizer.Encode(text_, added_tokens_ ? AddedTokens::kMatch : AddedTokens::kOrdinaryText));
  if (!json_) {
    Print(fmt::format("{}\n", fmt::join(ids, " ")));
    return 0;
  }
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const TokenId id : ids) texts.push_back(tokenizer.Decode(std::span(&id, 1)));
  const nlohmann::ordered_json document = {{"token_ids", ids}, {"tokens", texts}, {"text", tokenizer.Decode(ids)}};
  Print(document.dump() + "\n");
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeTokenizeVerb() { return std::make_unique<TokenizeVerb>(); }

}  // namespace sightline
