// The tokenizer against ids and texts of the official one (tests/data/locate/tokenizer.json), and what must hold for
// any text and any files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/support/temporary_folder.h"
#include "text/text.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const Tokenizer& Shipped() {
  static const Tokenizer tokenizer = [] {
    const auto files = ShippedTokenizer();
    return Tokenizer::Parse(files[0].contents, files[1].contents, files[2].contents, "shipped").value();
  }();
  return tokenizer;
}

const json& Goldens() {
  static const json goldens = json::parse(std::ifstream(fs::path(SIGHTLINE_TEST_DATA) / "locate" / "tokenizer.json"));
  return goldens;
}

std::vector<TokenId> Encode(std::string_view text, AddedTokens added = AddedTokens::kMatch) {
  auto ids = Shipped().Encode(text, added);
  EXPECT_TRUE(ids) << ids.error().message;
  return ids.value_or(std::vector<TokenId>());
}

// ---- the official answers

TEST(Tokenizer, GivesTheOfficialIds) {
  ASSERT_EQ(Goldens()["strings"].size(), 292u);
  for (const json& row : Goldens()["strings"]) {
    const auto text = row["text"].get<std::string>();
    const auto ids = Encode(text);
    EXPECT_EQ(ids, row["ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(Shipped().Decode(ids), row["decoded"].get<std::string>()) << text;
  }
}

TEST(Tokenizer, DecodesAnyIdsAsTheOfficialOne) {
  ASSERT_EQ(Goldens()["decode_ids"].size(), 40u);
  for (const json& row : Goldens()["decode_ids"]) {
    EXPECT_EQ(Shipped().Decode(row["ids"].get<std::vector<TokenId>>()), row["decoded"].get<std::string>());
  }
  for (const json& row : Goldens()["tokens"]) {
    EXPECT_EQ(Shipped().Decode(std::vector{row["id"].get<TokenId>()}), row["decoded"].get<std::string>());
  }
  EXPECT_EQ(Shipped().size(), Goldens()["vocab_len"].get<int>());
}

TEST(Tokenizer, EncodesTheStringsOfTheModelCard) {
  const std::vector<std::pair<std::string, std::vector<TokenId>>> rows = {
      {"Detect all the text in box format.", {57193, 678, 279, 1467, 304, 3745, 3561, 13}},
      {"person</c>car</c>bicycle.", {8987, 152680, 6918, 152680, 65, 26165, 13}},
      {"title</c>paragraph</c>figure</c>table", {2102, 152680, 27727, 152680, 17781, 152680, 2005}},
      {"caf\u00e9 don't I'LL 12345  a\n\n b",
       {924, 58858, 1513, 944, 358, 6, 4086, 220, 16, 17, 18, 19, 20, 220, 264, 271, 293}},
      {"e\u0301", {963}},
      {"\u4e2d\u6587, \u65e5\u672c\u8a9e\uff01", {104811, 11, 75402, 21894, 102819, 6313}},
      {"a 5>3 <7> <1001> <01>", {64, 220, 20, 29, 18, 220, 151684, 366, 16, 15, 15, 16, 29, 366, 15, 16, 29}},
      {"  lead", {220, 2990}},
      {"trail  ", {77875, 256}},
      {"tab\tnew\r\nx", {6192, 8638, 319, 87}},
      {"\U0001F600 ok", {141334, 5394}},
      {"None", {4064}},
      {"none", {6697}},
      {" None", {2240}},
      {"don't DON'T", {15007, 944, 44273, 17323}},
      {"a<b>c</c>d", {64, 33177, 56346, 152680, 67}},
  };
  for (const auto& [text, ids] : rows) EXPECT_EQ(Encode(text), ids) << text;
}

TEST(Tokenizer, FindsTheTokensThatTheModelNeeds) {
  const std::vector<std::pair<std::string, TokenId>> rows = {
      {"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645},  {"<IMG_CONTEXT>", 151665},
      {"<img>", 151666},         {"</img>", 151667},       {"<box>", 151668},       {"</box>", 151669},
      {"<ref>", 151672},         {"</ref>", 151673},       {"<text_mask>", 151676}, {"<0>", 151677},
      {"<1000>", 152677},        {"<null>", 152678},       {"<switch>", 152679},    {"</c>", 152680}};
  for (const auto& [text, id] : rows) {
    EXPECT_EQ(Shipped().FindAdded(text), id);
    EXPECT_EQ(Shipped().Bytes(id), text);
  }
  EXPECT_EQ(Shipped().FindAdded("None"), std::nullopt);
  EXPECT_EQ(Shipped().FindAdded(""), std::nullopt);
}

// ---- properties

TEST(Tokenizer, OrdinaryTextNeverBecomesAnAddedToken) {
  for (const char* text : {"<box><5></box>", "<|im_end|>\n<|im_start|>system", "<IMG_CONTEXT><img></img>", "a</c>b",
                           "<|endoftext|>", "<ref><1000>", "<<box>>"}) {
    const auto ids = Encode(text, AddedTokens::kOrdinaryText);
    EXPECT_THAT(ids, testing::Each(testing::Lt(151643))) << text;
    EXPECT_EQ(Shipped().Decode(ids), text);
  }
}

TEST(Tokenizer, AddedTokensAreTakenLeftmostLongest) {
  EXPECT_THAT(Encode("<<box>>"), ElementsAre(27, 151668, 29));
  EXPECT_THAT(Encode("<1000><100><10>"), ElementsAre(152677, 151777, 151687));
  EXPECT_THAT(Encode("<box"), ElementsAreArray(Encode("<box", AddedTokens::kOrdinaryText)));
}

TEST(Tokenizer, EveryByteSequenceThatIsUtf8ComesBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t length = random() % 40; length > 0; --length) {
      // Ranges that NFC leaves alone: ASCII, Cyrillic, CJK, emoji.
      static const std::string pieces[] = {" ",
                                           "\n",
                                           "\r",
                                           "\t",
                                           "'s",
                                           "7",
                                           "<",
                                           "\xd0\x96",
                                           "\xe4\xb8\xad",
                                           "\xf0\x9f\x98\x80",
                                           "<box>",
                                           "</c>",
                                           "\xc2\xa0",
                                           std::string(1, '\0')};
      text += random() % 3 == 0 ? std::string(1, static_cast<char>('!' + random() % 94)) : pieces[random() % 14];
    }
    for (const AddedTokens added : {AddedTokens::kMatch, AddedTokens::kOrdinaryText}) {
      EXPECT_EQ(Shipped().Decode(Encode(text, added)), text);
    }
  }
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  for (const std::string text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "ok \x80"}) {
    const auto ids = Shipped().Encode(text, AddedTokens::kMatch);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, Code::kInvalidUtf8);
    EXPECT_THAT(ids.error().message, HasSubstr("text is not UTF-8 at byte "));
  }
  EXPECT_EQ(Shipped().Encode(std::string((16 << 20) + 1, 'a'), AddedTokens::kMatch).error().code,
            Code::kInvalidRequest);
}

TEST(Tokenizer, IdsThatDoNotExistAreLeftOut) {
  EXPECT_EQ(Shipped().Decode(std::vector<TokenId>{64, -1, 152681, 2147483647, 65}), "ab");
  EXPECT_EQ(Shipped().Bytes(-1), "");
  EXPECT_EQ(Shipped().Bytes(152681), "");
}

TEST(Tokenizer, LongWordsTakeNoMoreThanTheirShare) {
  std::string marks;  // combining marks in the order that needs most sorting
  for (int i = 0; i < 100'000; ++i) marks += i % 2 == 0 ? "\xcc\x80" : "\xcc\x96";
  std::string mixed;
  for (int i = 0; i < 100'000; ++i) mixed += static_cast<char>('a' + i * i % 26);
  for (const std::string& text : {std::string(100'000, 'a'), mixed, std::string(100'000, ' '),
                                  std::string(100'000, '\n'), std::string(100'000, '!'), std::string(100'000, '7'),
                                  std::string(99'999, ' ') + "a", "x" + marks, std::string(100'000, '<')}) {
    const auto start = std::chrono::steady_clock::now();
    const auto ids = Encode(text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 5) << text.substr(0, 10);  // quadratic work would take minutes
    EXPECT_EQ(Shipped().Decode(ids).size(), text.size());
  }
}

TEST(Tokenizer, ManyThreadsMayUseIt) {
  const auto expected = Encode("person</c>car \xe4\xb8\xad");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) EXPECT_EQ(Encode("person</c>car \xe4\xb8\xad"), expected);
    });
  }
}

// ---- UTF-8

std::string Decoded(std::string_view bytes) {
  // Single bytes are tokens, so any bytes can be asked for.
  static const std::array<TokenId, 256> ids = [] {
    std::array<TokenId, 256> found{};
    for (TokenId id = 0; id < 256; ++id) found[static_cast<uint8_t>(Shipped().Bytes(id)[0])] = id;
    return found;
  }();
  std::vector<TokenId> tokens;
  for (const char byte : bytes) tokens.push_back(ids[static_cast<uint8_t>(byte)]);
  return Shipped().Decode(tokens);
}

// Table 3-8 and 3-9 to 3-11 of The Unicode Standard, and the ends of text.
TEST(Utf8, EveryMaximalInvalidPartBecomesOneReplacement) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(Decoded("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Decoded("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Decoded("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(Decoded("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), r + r + r + r + "A");
  EXPECT_EQ(Decoded("a\xf0\x9f\x98"), "a" + r);
  EXPECT_EQ(Decoded("\xf0\x9f\x98\x80"), "\U0001F600");
}

TEST(Utf8, ACompletePrefixEndsBetweenCharacters) {
  EXPECT_EQ(CompleteUtf8Prefix(""), 0u);
  EXPECT_EQ(CompleteUtf8Prefix("abc"), 3u);
  const std::string emoji = "a\xf0\x9f\x98\x80";
  for (size_t size = 1; size < 5; ++size) EXPECT_EQ(CompleteUtf8Prefix(emoji.substr(0, size)), 1u) << size;
  EXPECT_EQ(CompleteUtf8Prefix(emoji), 5u);
  EXPECT_EQ(CompleteUtf8Prefix("\xc3"), 0u);
  EXPECT_EQ(CompleteUtf8Prefix("a\xff"), 2u) << "no byte that follows would help";
  EXPECT_EQ(CompleteUtf8Prefix("\x80\x80\x80\x80"), 4u);
  EXPECT_EQ(CompleteUtf8Prefix("\xe0\x80"), 2u);
}

// ---- files

// vocab.json of all single bytes in the byte alphabet, ids 0 to 255, and `more` behind them.
std::string Vocabulary(const std::vector<std::string>& more = {}) {
  json vocabulary;
  for (TokenId id = 0; id < 256; ++id) {
    const auto byte = static_cast<uint8_t>(Shipped().Bytes(id)[0]);
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    static const std::vector<int> others = [] {
      std::vector<int> bytes;
      for (int b = 0; b < 256; ++b) {
        if (!((b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad))) bytes.push_back(b);
      }
      return bytes;
    }();
    const int character = printable ? byte : 256 + static_cast<int>(std::ranges::find(others, byte) - others.begin());
    std::string text(1, static_cast<char>(character));
    if (character >= 0x80) {
      text = {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
    }
    vocabulary[text] = id;
  }
  for (const std::string& text : more) vocabulary[text] = vocabulary.size();
  return vocabulary.dump();
}

std::string ErrorOf(const std::string& vocabulary, const std::string& merges, const std::string& added) {
  const auto tokenizer = Tokenizer::Parse(vocabulary, merges, added, "folder");
  if (tokenizer) return "no error";
  EXPECT_EQ(tokenizer.error().code, Code::kCorruptWeights);
  return tokenizer.error().message;
}

TEST(TokenizerFiles, ASmallSetWorks) {
  const auto tokenizer =
      Tokenizer::Parse(Vocabulary({"ab", "abc", "bc"}), "#version: 0.2\nb c\na b\r\nab c\n\n", R"({"<x>":259})", "f");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->size(), 260);
  const TokenId a = 64;
  EXPECT_THAT(tokenizer->Encode("abc<x>ab", AddedTokens::kMatch).value(), ElementsAre(a, 258, 259, 256))
      << "the merge of lowest rank comes first";
  EXPECT_EQ(tokenizer->Encode("<x>", AddedTokens::kOrdinaryText)->size(), 3u);
}

TEST(TokenizerFiles, FaultsAreNamed) {
  EXPECT_EQ(ErrorOf(Vocabulary(), "", "{}"), "no error");
  EXPECT_THAT(ErrorOf("[]", "", "{}"), HasSubstr("folder/vocab.json: not a JSON object"));
  EXPECT_THAT(ErrorOf(Vocabulary(), "", ""), HasSubstr("folder/added_tokens.json: not a JSON object"));
  EXPECT_THAT(ErrorOf("{}", "", "{}"), HasSubstr("no token for the byte 0"));
  EXPECT_THAT(ErrorOf(R"({"a":1.5})", "", "{}"), HasSubstr("the id of 'a' is not a whole number"));
  EXPECT_THAT(ErrorOf(R"({"a":-1})", "", "{}"), HasSubstr("the id of 'a' is not a whole number"));
  EXPECT_THAT(ErrorOf(R"({"a":99999999999})", "", "{}"), HasSubstr("the id of 'a' is not a whole number"));
  EXPECT_THAT(ErrorOf(R"({"a":0,"b":0})", "", "{}"), HasSubstr("has the id 0 twice"));
  EXPECT_THAT(ErrorOf(R"({"a":0,"a":1})", "", "{}"), HasSubstr("has 'a' twice"));
  EXPECT_THAT(ErrorOf(R"({" ":0})", "", "{}"), HasSubstr("has a character that stands for no byte"));
  EXPECT_THAT(ErrorOf(Vocabulary(), "", R"({"":256})"), HasSubstr("token 256 has 0 bytes"));
  EXPECT_THAT(ErrorOf(Vocabulary(), "", R"({"<x>":3})"), HasSubstr("the id 3 is both in vocab.json and"));
  EXPECT_THAT(ErrorOf(Vocabulary(), "", R"({"<x>":300})"), HasSubstr("'<x>' has the id 300, but"));
  EXPECT_THAT(ErrorOf(Vocabulary(), "a b", "{}"), HasSubstr("merges 'a' and 'b', which with their sum"));
  EXPECT_THAT(ErrorOf(Vocabulary({"ab"}), "a b\na b", "{}"), HasSubstr("merges 'a' and 'b' twice"));
  for (const std::string line : {"a", " b", "a ", "a b c", "a  b"}) {
    EXPECT_THAT(ErrorOf(Vocabulary({"ab"}), "#version\n" + line, "{}"), HasSubstr("line 2 is '")) << line;
  }
}

// llama.cpp PR 25969: a broken byte token of another kind of vocabulary. Here it is text like any other.
TEST(TokenizerFiles, ByteTokensOfOtherVocabulariesAreText) {
  const auto tokenizer = Tokenizer::Parse(Vocabulary({"<0x-1>", "<0x41>"}), "", "{}", "folder");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::vector<TokenId> ids{256, 257};
  EXPECT_EQ(tokenizer->Decode(ids), "<0x-1><0x41>");
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("<0x-1>", AddedTokens::kOrdinaryText).value()), "<0x-1>");
}

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    Write("vocab.json", Vocabulary());
    Write("merges.txt", "");
    Write("added_tokens.json", R"({"<x>":256,"<y>":257})");
  }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_.path() / name) << text; }
  Result<Tokenizer> Open() const { return Tokenizer::Open(folder_.path()); }
  TemporaryFolder folder_;
};

TEST_F(TokenizerFolder, NeedsItsThreeFiles) {
  ASSERT_TRUE(Open()) << Open().error().message;
  for (const char* name : {"vocab.json", "merges.txt", "added_tokens.json"}) {
    fs::rename(folder_.path() / name, folder_.path() / "away");
    ASSERT_FALSE(Open());
    EXPECT_EQ(Open().error().code, Code::kNotFound);
    EXPECT_THAT(Open().error().message, HasSubstr(name));
    fs::rename(folder_.path() / "away", folder_.path() / name);
  }
}

TEST_F(TokenizerFolder, ATokenizerJsonMustCarryTheAddedTokens) {
  Write("tokenizer.json", R"({"added_tokens":[{"id":256,"content":"<x>"},{"id":257,"content":"<y>"},{"id":9}]})");
  EXPECT_TRUE(Open()) << Open().error().message;
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"added_tokens":[{"id":256,"content":"<x>"}]})", "lacks the added token '<y>' with id 257"},
      {R"({"added_tokens":[{"id":256,"content":"<x>"},{"id":3,"content":"<y>"}]})", "lacks the added token '<y>'"},
      {R"({"added_tokens":3})", "added_tokens is missing or no list"},
      {"[", "not a JSON object"}};
  for (const auto& [text, message] : rows) {
    Write("tokenizer.json", text);
    ASSERT_FALSE(Open()) << text;
    EXPECT_EQ(Open().error().code, Code::kCorruptWeights);
    EXPECT_THAT(Open().error().message, HasSubstr("tokenizer.json: " + message));
  }
}

TEST_F(TokenizerFolder, EveryTruncationOfATableIsRefused) {
  const std::string vocabulary = Vocabulary();
  for (size_t size = 0; size < vocabulary.size(); size += 7) {
    EXPECT_NE(ErrorOf(vocabulary.substr(0, size), "", "{}"), "no error");
  }
}

}  // namespace
}  // namespace sightline
