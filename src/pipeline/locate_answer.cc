// The ids of an answer to findings:
//   answer := item* <|im_end|>;  item := <ref> label </ref> box*;  box := <box> (c c c c | c c | None) </box>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "pipeline/pipeline.h"
#include "pipeline/unicode_classes.h"

namespace sightline {
namespace {

constexpr size_t kExcerptBytes = 60;
// A model that has lost its way repeats its faults.
constexpr std::ptrdiff_t kMostWarningsOfACode = 8;

// How labels and categories are compared.
std::string Folded(std::string_view text) {
  std::string folded(StripSpace(text));
  std::ranges::transform(folded, folded.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return folded;
}

std::string Excerpt(std::string_view text) {
  if (text.size() <= kExcerptBytes) return std::string(text);
  return std::string(text.substr(0, CompleteUtf8Prefix(text.substr(0, kExcerptBytes)))) + "...";
}

void AddWarning(Warning warning, std::vector<Warning>* warnings) {
  if (std::ranges::count(*warnings, warning.code, &Warning::code) >= kMostWarningsOfACode) return;
  warnings->push_back(std::move(warning));
}

class AnswerReader {
 public:
  AnswerReader(const Tokenizer& tokenizer, const LocateTokens& tokens, std::span<const TokenId> ids,
               std::span<const double> probabilities)
      : tokenizer_(tokenizer), tokens_(tokens), ids_(ids), probabilities_(probabilities) {}

  LocateReading Read() {
    while (at_ < ids_.size()) {
      if (ids_[at_] == tokens_.ref_start) {
        ReadLabel();
      } else if (ids_[at_] == tokens_.box_start) {
        ReadBox();
      } else if (ids_[at_] == tokens_.message_end || ids_[at_] == tokens_.null) {
        ++at_;
      } else {
        ReadOutside();
      }
    }
    return std::move(reading_);
  }

 private:
  bool BeginsSomething(TokenId id) const {
    return id == tokens_.ref_start || id == tokens_.box_start || id == tokens_.message_end;
  }

  // Takes the ids from `at_` up to `end`, which is taken but not returned; `closed` says whether it was there.
  std::span<const TokenId> TakeUpTo(TokenId end, bool* closed) {
    const size_t first = at_;
    while (at_ < ids_.size() && ids_[at_] != end && !BeginsSomething(ids_[at_])) ++at_;
    const auto taken = ids_.subspan(first, at_ - first);
    *closed = at_ < ids_.size() && ids_[at_] == end;
    if (*closed) ++at_;
    return taken;
  }

  void ReadLabel() {
    ++at_;
    bool closed = false;
    label_ = tokenizer_.Decode(TakeUpTo(tokens_.ref_end, &closed));
    if (!closed) Warn("label_unfinished", fmt::format("the label \"{}\" has no end", Excerpt(*label_)));
  }

  void ReadOutside() {
    const size_t first = at_;
    while (at_ < ids_.size() && !BeginsSomething(ids_[at_]) && ids_[at_] != tokens_.null) ++at_;
    const std::string text = tokenizer_.Decode(ids_.subspan(first, at_ - first));
    if (StripSpace(text).empty()) return;
    Warn("text_outside", fmt::format("\"{}\" stands outside of labels and boxes", Excerpt(text)));
  }

  void ReadBox() {
    const size_t first = ++at_;
    bool closed = false;
    const auto inside = TakeUpTo(tokens_.box_end, &closed);
    const auto kind = closed ? KindOf(inside) : std::nullopt;
    if (!kind) {
      ++reading_.malformed;
      const std::string text = tokenizer_.Decode(inside);
      Warn("box_malformed", fmt::format("a box holds \"{}\", expected two or four coordinates or None{}", Excerpt(text),
                                        closed ? "" : ", and </box>"));
      return;
    }
    LocateFinding finding;
    finding.kind = *kind;
    finding.label = label_;
    finding.score = GeometricMean(probabilities_.subspan(first, inside.size()));
    if (*kind != LocateFinding::Kind::kNone) SetPlace(inside, &finding);
    reading_.findings.push_back(finding);
    if (*kind != LocateFinding::Kind::kNone) CheckPlace(finding);
  }

  std::optional<LocateFinding::Kind> KindOf(std::span<const TokenId> inside) const {
    const bool coordinates = std::ranges::all_of(inside, [this](TokenId id) { return tokens_.IsCoordinate(id); });
    if (coordinates && inside.size() == 4) return LocateFinding::Kind::kBox;
    if (coordinates && inside.size() == 2) return LocateFinding::Kind::kPoint;
    // The documents of the model write "none", the model itself "None".
    if (!coordinates && Folded(tokenizer_.Decode(inside)) == "none") return LocateFinding::Kind::kNone;
    return std::nullopt;
  }

  static double GeometricMean(std::span<const double> probabilities) {
    double sum = 0;
    for (const double probability : probabilities) sum += std::log(probability);
    return std::exp(sum / static_cast<double>(probabilities.size()));
  }

  void SetPlace(std::span<const TokenId> inside, LocateFinding* finding) const {
    for (size_t i = 0; i < 4; ++i) finding->thousandths[i] = inside[i % inside.size()] - tokens_.first_coordinate;
    const auto& [x1, y1, x2, y2] = finding->thousandths;
    finding->normalized = {x1 / 1000.0, y1 / 1000.0, x2 / 1000.0, y2 / 1000.0};
  }

  void CheckPlace(const LocateFinding& finding) {
    const auto& [x1, y1, x2, y2] = finding.thousandths;
    const std::string written = finding.kind == LocateFinding::Kind::kBox ? fmt::format("{} {} {} {}", x1, y1, x2, y2)
                                                                          : fmt::format("{} {}", x1, y1);
    if (!places_.insert({finding.label, written}).second) {
      WarnOfLast("box_repeated", fmt::format("{} is given before with the same label", written));
    }
    if (finding.kind == LocateFinding::Kind::kPoint) return;
    if (x1 > x2 || y1 > y2) {
      WarnOfLast("box_unordered", fmt::format("the box {} has its corners in another order than x1 y1 x2 y2", written));
    } else if (x1 == x2 || y1 == y2) {
      WarnOfLast("box_without_area", fmt::format("the box {} has no area", written));
    }
  }

  void Warn(std::string code, std::string message) {
    AddWarning({std::move(code), std::move(message), ""}, &reading_.warnings);
  }
  void WarnOfLast(std::string code, std::string message) {
    AddWarning({std::move(code), std::move(message), fmt::format("findings[{}]", reading_.findings.size() - 1)},
               &reading_.warnings);
  }

  const Tokenizer& tokenizer_;
  const LocateTokens& tokens_;
  const std::span<const TokenId> ids_;
  const std::span<const double> probabilities_;
  size_t at_ = 0;
  std::optional<std::string> label_;
  std::set<std::pair<std::optional<std::string>, std::string>> places_;
  LocateReading reading_;
};

// ---- categories

// As a label with this category would be read: normalised by the tokenizer.
std::string FoldedCategory(const Tokenizer& tokenizer, const std::string& name) {
  const auto ids = tokenizer.Encode(name, AddedTokens::kOrdinaryText);
  return Folded(ids ? tokenizer.Decode(*ids) : name);
}

// Counts the findings of each category; `of_category` tells which.
class CategoryCount {
 public:
  CategoryCount(const Tokenizer& tokenizer, std::span<const std::string> categories, LocateReading* reading)
      : reading_(*reading) {
    for (const std::string& name : categories) {
      reading_.categories.push_back({name});
      folded_.push_back(FoldedCategory(tokenizer, name));
    }
  }

  void Count() {
    for (size_t i = 0; i < reading_.findings.size(); ++i) {
      const LocateFinding& finding = reading_.findings[i];
      if (finding.label) {
        CountLabelled(finding, i);
      } else {
        CountUnlabelled(finding, i);
      }
    }
  }

 private:
  static void Add(const LocateFinding& finding, CategoryAnswer* category) {
    if (finding.kind != LocateFinding::Kind::kNone) {
      ++category->count;
      category->status = CategoryStatus::kFound;
    } else if (category->status == CategoryStatus::kNotAnswered) {
      category->status = CategoryStatus::kNone;
    }
  }

  void CountLabelled(const LocateFinding& finding, size_t index) {
    const std::string label = Folded(*finding.label);
    bool known = false;
    for (size_t i = 0; i < folded_.size(); ++i) {
      if (folded_[i] != label) continue;
      Add(finding, &reading_.categories[i]);
      known = true;
    }
    if (known || !unknown_.insert(label).second) return;
    Warn("label_unknown", fmt::format("the label \"{}\" is none of the categories", Excerpt(*finding.label)), index);
  }

  void CountUnlabelled(const LocateFinding& finding, size_t index) {
    const bool about_all = finding.kind == LocateFinding::Kind::kNone && reading_.findings.size() == 1;
    if (folded_.size() == 1 || about_all) {
      for (CategoryAnswer& category : reading_.categories) Add(finding, &category);
    } else {
      Warn("label_missing", fmt::format("has no label, and could be of any of {} categories", folded_.size()), index);
    }
  }

  void Warn(std::string code, std::string message, size_t index) {
    AddWarning({std::move(code), std::move(message), fmt::format("findings[{}]", index)}, &reading_.warnings);
  }

  LocateReading& reading_;
  std::vector<std::string> folded_;
  std::set<std::string> unknown_;
};

}  // namespace

std::string_view NameOf(CategoryStatus status) {
  constexpr std::array kNames{"found", "none", "not_answered"};
  return kNames[static_cast<size_t>(status)];
}

LocatePlace PlaceOf(const LocateFinding& finding, int width, int height) {
  const Box& n = finding.normalized;
  return {finding, {n.x1 * width, n.y1 * height, n.x2 * width, n.y2 * height}, {n.x1 * width, n.y1 * height}};
}

LocateReading ReadLocateAnswer(const Tokenizer& tokenizer, const LocateTokens& tokens, std::span<const TokenId> ids,
                               std::span<const double> probabilities, std::span<const std::string> categories) {
  SIGHTLINE_CHECK(probabilities.size() == ids.size());
  LocateReading reading = AnswerReader(tokenizer, tokens, ids, probabilities).Read();
  if (!categories.empty()) CategoryCount(tokenizer, categories, &reading).Count();
  return reading;
}

}  // namespace sightline
