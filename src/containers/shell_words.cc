#include "containers/shell_words.h"

#include <fmt/format.h>

namespace sightline {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

Result<std::vector<std::string>> SplitShellWords(std::string_view text, const std::string& name) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (!IsBlank(c)) {
      word += c;
      in_word = true;
    } else if (in_word) {
      words.push_back(std::exchange(word, {}));
      in_word = false;
    }
  }
  if (quote != 0) return Fail(Code::kUsage, fmt::format("{}: a quote ({}) is never closed: {}", name, quote, text));
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace sightline
