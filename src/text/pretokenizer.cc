#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <limits>

namespace sightline {
namespace {

// \s of PCRE2 has U+180E, which lost the property White_Space in Unicode 6.3, so the class is written out.
#define SIGHTLINE_SPACE R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^)" SIGHTLINE_SPACE
    R"(\p{L}\p{N}]+[\r\n]*|[)" SIGHTLINE_SPACE R"(]*[\r\n]+|[)" SIGHTLINE_SPACE R"(]+(?![^)" SIGHTLINE_SPACE
    R"(])|[)" SIGHTLINE_SPACE R"(]+)";
#undef SIGHTLINE_SPACE

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

}  // namespace

struct Pretokenizer::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

Pretokenizer::Pretokenizer() {
  auto pattern = std::make_shared<Pattern>();
  int error = 0;
  size_t offset = 0;
  pattern->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kQwen2.data()), kQwen2.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr);
  SIGHTLINE_CHECK(pattern->code != nullptr);
  pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);  // where there is no compiler, the pattern is interpreted
  pattern_ = std::move(pattern);
}

const Pretokenizer& Pretokenizer::Qwen2() {
  static const Pretokenizer pretokenizer;
  return pretokenizer;
}

Status Pretokenizer::Split(std::string_view text, FunctionRef<void(std::string_view word)> word) const {
  const MatchData match(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const MatchContext context(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  if (!match || !context) return Fail(Code::kOutOfMemory, "text: not enough memory to cut it into words");
  pcre2_set_match_limit(context.get(), std::numeric_limits<uint32_t>::max());  // one word may be the whole text
  for (size_t at = 0; at < text.size();) {
    const int found = pcre2_match(pattern_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (found < 1)
      return Fail(Code::kInternal, fmt::format("text: the word at byte {} gives PCRE2 error {}", at, found));
    const size_t end = pcre2_get_ovector_pointer(match.get())[1];
    word(text.substr(at, end - at));
    at = end;
  }
  return {};
}

}  // namespace sightline
