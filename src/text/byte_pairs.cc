#include "text/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace sightline {
namespace {

constexpr int32_t kNone = -1;

}  // namespace

BytePairs::BytePairs(size_t merges) : slots_(std::bit_ceil(2 * merges + 1)) {}

size_t BytePairs::Place(TokenId left, TokenId right) const {
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  size_t at = (key * 0x9E3779B97F4A7C15) >> 32 & (slots_.size() - 1);  // Fibonacci hashing
  while (slots_[at].merged >= 0 && (slots_[at].left != left || slots_[at].right != right)) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return at;
}

bool BytePairs::AddMerge(TokenId left, TokenId right, TokenId merged) {
  Merge& slot = slots_[Place(left, right)];
  if (slot.merged >= 0) return false;
  slot = {left, right, merges_++, merged};
  SIGHTLINE_CHECK(2 * merges_ <= slots_.size());
  return true;
}

// The tokens of a word as a linked list, and a heap of the merges that are possible in it.
class BytePairs::Word {
 public:
  Word(const BytePairs& pairs, std::string_view text) : pairs_(pairs) {
    tokens_.reserve(text.size());
    for (const char c : text) {
      const auto at = static_cast<int32_t>(tokens_.size());
      tokens_.push_back({pairs.bytes_[static_cast<uint8_t>(c)], at - 1, at + 1});
    }
    tokens_.back().next = kNone;
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) Propose(static_cast<int32_t>(i));
  }

  void MergeAll() {
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, Later);
      const Candidate candidate = heap_.back();
      heap_.pop_back();
      Token& left = tokens_[static_cast<size_t>(candidate.at)];
      if (left.id != candidate.left || left.next == kNone) continue;
      Token& right = tokens_[static_cast<size_t>(left.next)];
      if (right.id != candidate.right) continue;
      left.id = candidate.merged;
      right.id = kNone;
      left.next = right.next;
      if (left.next != kNone) {
        tokens_[static_cast<size_t>(left.next)].previous = candidate.at;
        Propose(candidate.at);
      }
      if (left.previous != kNone) Propose(left.previous);
    }
  }

  void AppendTo(std::vector<TokenId>* ids) const {
    for (int32_t at = 0; at != kNone; at = tokens_[static_cast<size_t>(at)].next) {
      ids->push_back(tokens_[static_cast<size_t>(at)].id);
    }
  }

 private:
  struct Token {
    TokenId id;  // kNone once it went into its left neighbour
    int32_t previous, next;
  };
  // A merge of the tokens at `at` and behind it, as long as both are still what they were.
  struct Candidate {
    uint32_t rank;
    int32_t at;
    TokenId left, right, merged;
  };
  static bool Later(const Candidate& a, const Candidate& b) { return std::tie(a.rank, a.at) > std::tie(b.rank, b.at); }

  void Propose(int32_t at) {
    const Token& left = tokens_[static_cast<size_t>(at)];
    const Token& right = tokens_[static_cast<size_t>(left.next)];
    const Merge& merge = pairs_.slots_[pairs_.Place(left.id, right.id)];
    if (merge.merged < 0) return;
    heap_.push_back({merge.rank, at, left.id, right.id, merge.merged});
    std::ranges::push_heap(heap_, Later);
  }

  const BytePairs& pairs_;
  std::vector<Token> tokens_;
  std::vector<Candidate> heap_;
};

void BytePairs::Encode(std::string_view word, std::vector<TokenId>* ids) const {
  if (word.empty()) return;
  Word tokens(*this, word);
  tokens.MergeAll();
  tokens.AppendTo(ids);
}

}  // namespace sightline
