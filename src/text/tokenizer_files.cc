#include "text/tokenizer_files.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <unordered_map>

namespace sightline {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaxJsonDepth = 64;
constexpr size_t kMaxShown = 60;

// Reads the text into `parser` and gives its object.
Result<dom::object> ParseObject(std::string_view json, const std::string& source, dom::parser* parser) {
  dom::object object;
  auto error = parser->allocate(json.size(), kMaxJsonDepth);
  if (!error) error = parser->parse(json.data(), json.size()).get(object);
  if (error) return CorruptTokenizer(source, fmt::format("not a JSON object: {}", simdjson::error_message(error)));
  return object;
}

}  // namespace

tl::unexpected<Error> CorruptTokenizer(const std::string& source, std::string_view what) {
  return Fail(Code::kCorruptWeights, fmt::format("{}: {}", source, what));
}

std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kMaxShown)) shown += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMaxShown ? shown + "..." : shown;
}

Result<TokenTable> ReadTokenTable(std::string_view json, const std::string& source) {
  dom::parser parser(kMaxTokenizerFile);
  SIGHTLINE_ASSIGN_OR_RETURN(const dom::object object, ParseObject(json, source, &parser));
  if (object.size() > kMaxTokens) return CorruptTokenizer(source, fmt::format("has more than {} tokens", kMaxTokens));
  TokenTable table;
  table.tokens.reserve(object.size());  // the index points into them
  table.ids = TextIndex(object.size());
  std::vector<bool> ids(kMaxTokens);
  for (const auto& [text, value] : object) {
    int64_t id = 0;
    if (value.get(id) || id < 0 || id >= static_cast<int64_t>(kMaxTokens)) {
      return CorruptTokenizer(
          source, fmt::format("the id of '{}' is not a whole number from 0 to {}", Shown(text), kMaxTokens - 1));
    }
    if (text.empty() || text.size() > kMaxTokenBytes) {
      return CorruptTokenizer(source,
                              fmt::format("token {} has {} bytes, expected 1 to {}", id, text.size(), kMaxTokenBytes));
    }
    if (ids[static_cast<size_t>(id)]) return CorruptTokenizer(source, fmt::format("has the id {} twice", id));
    ids[static_cast<size_t>(id)] = true;
    const NamedToken& token = table.tokens.emplace_back(std::string(text), static_cast<TokenId>(id));
    if (!table.ids.Add(token.text, token.id)) {
      return CorruptTokenizer(source, fmt::format("has '{}' twice", Shown(text)));
    }
  }
  return table;
}

Result<std::vector<std::pair<std::string_view, std::string_view>>> ReadMerges(std::string_view text,
                                                                              const std::string& source) {
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty() || (line == 1 && row.starts_with("#version"))) continue;
    const size_t space = row.find(' ');
    if (space == 0 || space + 1 >= row.size() || space == row.npos || row.find(' ', space + 1) != row.npos) {
      return CorruptTokenizer(source, fmt::format("line {} is '{}', expected two tokens", line, Shown(row)));
    }
    if (merges.size() == kMaxTokens)
      return CorruptTokenizer(source, fmt::format("has more than {} merges", kMaxTokens));
    merges.emplace_back(row.substr(0, space), row.substr(space + 1));
  }
  return merges;
}

Status CheckTokenizerJson(std::string_view json, const std::vector<NamedToken>& added, const std::string& source) {
  dom::parser parser(kMaxTokenizerFile);
  SIGHTLINE_ASSIGN_OR_RETURN(const dom::object object, ParseObject(json, source, &parser));
  dom::array rows;
  if (object["added_tokens"].get(rows)) return CorruptTokenizer(source, "added_tokens is missing or no list");
  std::unordered_map<std::string_view, int64_t> carried;
  for (const auto& row : rows) {
    std::string_view text;
    int64_t id = 0;
    if (!row["content"].get(text) && !row["id"].get(id)) carried.emplace(text, id);
  }
  for (const NamedToken& token : added) {
    const auto found = carried.find(token.text);
    if (found != carried.end() && found->second == token.id) continue;
    return CorruptTokenizer(
        source, fmt::format("lacks the added token '{}' with id {} of added_tokens.json; it belongs to another model",
                            Shown(token.text), token.id));
  }
  return {};
}

}  // namespace sightline
