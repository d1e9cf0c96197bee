#pragma once

#include <memory>
#include <string_view>

#include "base/base.h"

namespace sightline {

// Cuts text into the words within which byte pairs are merged, by the pattern of Qwen2 (huggingface/transformers,
// tokenization_qwen2.py, PRETOKENIZE_REGEX). Immutable; any thread.
class Pretokenizer {
 public:
  static const Pretokenizer& Qwen2();

  // Calls word() with one piece of well-formed UTF-8 after the other; together they are the text.
  Status Split(std::string_view text, FunctionRef<void(std::string_view word)> word) const;

 private:
  Pretokenizer();
  struct Pattern;
  std::shared_ptr<const Pattern> pattern_;
};

}  // namespace sightline
