// The loop of LocateAnything's generate() (modeling_locateanything.py), with our guards and drafts.
#include <fmt/format.h>

#include <algorithm>

#include "models/box_decoder.h"
#include "models/logits.h"
#include "models/loop_detector.h"
#include "models/models.h"

namespace sightline {
namespace {

class Generator {
 public:
  Generator(TokenModel& model, std::span<const TokenId> prompt, const GenerationOptions& options, std::stop_token stop,
            const GenerationObserver& observer)
      : model_(model),
        options_(options),
        tokens_(options.tokens),
        stop_(std::move(stop)),
        observer_(observer),
        ids_(prompt.begin(), prompt.end()),
        prompt_length_(std::ssize(ids_)),
        limit_(Limit(model, prompt_length_, options.max_new_tokens)),
        seen_(model.vocabulary()),
        loops_(options.tokens),
        random_(options.sampling.seed) {
    for (const TokenId id : ids_) seen_.Add(id);
    phase_ = options.mode == DecodingMode::kSlow ? Phase::kSlow : Phase::kWindow;
  }

  Result<Generation> Run() {
    while (!finished_ && length() < limit_) {
      SIGHTLINE_RETURN_IF_ERROR(phase_ == Phase::kWindow ? RunWindow() : RunTokens());
    }
    answer_.finish_reason = finished_.value_or(FinishReason::kLength);
    answer_.ids.assign(ids_.begin() + prompt_length_, ids_.end());
    return std::move(answer_);
  }

 private:
  // What decides how the next tokens are made, and what ends it.
  enum class Phase {
    kWindow,  // six proposals of a window
    kRepair,  // a box token by token, up to </box>
    kText,    // text token by token, up to </ref> or </box>
    kSlow,    // everything token by token
  };

  static int64_t Limit(const TokenModel& model, int64_t prompt_length, int64_t max_new_tokens) {
    return std::min(max_new_tokens, model.capacity() - prompt_length) + prompt_length;
  }

  int64_t length() const { return std::ssize(ids_); }
  bool greedy() const { return options_.sampling.temperature == 0; }
  bool drafts() const { return options_.draft && !options_.reference; }

  // ---- passes

  // Feeds what is not fed yet, then `draft`. Rows of logits: of the last `logit_rows` tokens, then of the window.
  Status Forward(std::span<const TokenId> draft, bool window, int64_t logit_rows) {
    if (stop_.stop_requested()) return Fail(Code::kCancelled, "generation: was cancelled");
    std::vector<TokenId> fed(ids_.begin() + model_.length(), ids_.end());
    fed.insert(fed.end(), draft.begin(), draft.end());
    const TokenModel::Step step{fed, fed.empty() ? ids_.back() : fed.back(), window, logit_rows};
    SIGHTLINE_RETURN_IF_ERROR(model_.Forward(step, stop_, &logits_));
    ++answer_.forwards;
    SIGHTLINE_CHECK(logits_.size() == row_size() * static_cast<size_t>(logit_rows + (window ? kWindow : 0)));
    return {};
  }

  size_t row_size() const { return static_cast<size_t>(model_.vocabulary()); }

  std::span<float> Row(size_t index) { return std::span(logits_).subspan(index * row_size(), row_size()); }

  // The processed row `index` of the last pass. In place, so once a row.
  Result<Distribution> ProcessRow(size_t index) {
    const std::span<float> row = Row(index);
    ProcessLogits(row, seen_.ids(), options_.sampling);
    const Distribution distribution(row);
    if (distribution.valid()) return distribution;
    return Fail(Code::kNumeric,
                fmt::format("language model: row {} of forward pass {} holds logits that are no numbers", index,
                            answer_.forwards));
  }

  TokenId Choose(const Distribution& row) { return greedy() ? row.best() : row.At(random_.Uniform()); }

  // ---- windows

  Status RunWindow() {
    SIGHTLINE_RETURN_IF_ERROR(Forward({}, true, 0));
    return UseWindow(0);
  }

  // Appends what the window says whose rows begin at `first_row`.
  Status UseWindow(size_t first_row) {
    std::vector<Distribution> rows;
    Block chosen;
    for (size_t i = 0; i < chosen.size(); ++i) {
      SIGHTLINE_ASSIGN_OR_RETURN(const Distribution row, ProcessRow(first_row + i));
      rows.push_back(row);
      chosen[i] = Choose(row);
    }
    const BlockChoice choice = ChooseGuarded(rows, chosen);
    AppendBlock(rows, chosen, choice, ContinueWith(choice.block, options_.mode, tokens_));
    return {};
  }

  // The official rules do not look at the first row when they find a box, so they go on after the end of the answer.
  BlockChoice ChooseGuarded(std::span<const Distribution> rows, const Block& chosen) const {
    const TokenId next = rows[0].best();
    if (!options_.reference && (next == tokens_.message_end || next == tokens_.null)) {
      return {{tokens_.message_end}, BlockSource::kEnd};
    }
    return ChooseBlock(rows, chosen, options_.mode, tokens_);
  }

  void AppendBlock(std::span<const Distribution> rows, const Block& chosen, const BlockChoice& choice,
                   const Continuation& continuation) {
    const int64_t position = length();
    const bool careful_text =
        continuation.type == StepType::kText && options_.mode == DecodingMode::kHybrid && !options_.reference;
    const size_t count = careful_text ? 1 : continuation.count;
    if (continuation.type == StepType::kEnd) finished_ = FinishReason::kEnd;
    for (size_t i = 0; i < count; ++i) {
      Append(continuation.tokens[i], rows[i].Of(continuation.tokens[i]));
      if (Guard()) break;
    }
    Tell(continuation.type, choice.source, position, chosen);
    if (finished_) return;
    if (careful_text) LeaveWindows(Phase::kText, std::span(continuation.tokens).first(continuation.count), 1);
    if (continuation.type == StepType::kBrokenBox) LeaveWindows(Phase::kRepair, chosen, count);
  }

  // `proposed` from `kept` on is the draft of what follows.
  void LeaveWindows(Phase phase, std::span<const TokenId> proposed, size_t kept) {
    phase_ = phase;
    if (EndsPhase(ids_.back())) {
      phase_ = Phase::kWindow;
      return;
    }
    ++answer_.switches_to_single;
    SetDraft(proposed.subspan(kept));
  }

  // ---- single tokens

  // One pass: the next token, and behind it as many of the draft as it confirms. When it confirms all of it the pass's
  // own window stands at the end of the answer and is used.
  Status RunTokens() {
    const std::vector<TokenId> draft = TakeDraft();
    // The row of the last token is needed, so it must be fed (again).
    if (model_.length() == length()) model_.Crop(length() - 1);
    const int64_t fed = length() + std::ssize(draft);
    SIGHTLINE_RETURN_IF_ERROR(Forward(draft, drafts(), std::ssize(draft) + 1));
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t confirmed, AppendConfirmed(draft));
    if (confirmed < draft.size()) model_.Crop(fed - std::ssize(draft) + static_cast<int64_t>(confirmed));
    if (finished_ || length() >= limit_ || !drafts() || confirmed < draft.size()) return {};
    if (phase_ == Phase::kWindow) return length() == fed ? UseWindow(draft.size() + 1) : Status();
    DraftFromWindow(draft.size() + 1);
    return {};
  }

  // How many tokens of the draft were confirmed.
  Result<size_t> AppendConfirmed(std::span<const TokenId> draft) {
    for (size_t i = 0; i <= draft.size(); ++i) {
      SIGHTLINE_ASSIGN_OR_RETURN(const Distribution row, ProcessRow(i));
      const TokenId id = Choose(row);
      AppendSingle(id, row.Of(id));
      const bool same = i < draft.size() && id == draft[i];
      if (!same || finished_ || phase_ == Phase::kWindow) return same ? i + 1 : i;
    }
    return draft.size();
  }

  void AppendSingle(TokenId id, double probability) {
    const int64_t position = length();
    Append(id, probability);
    const StepType type = AfterSingle(id);
    Guard();
    Tell(type, std::nullopt, position, std::span(&id, 1));
  }

  // Ends the phase or the answer where `id` does.
  StepType AfterSingle(TokenId id) {
    if (phase_ != Phase::kRepair) {
      if (id == tokens_.message_end) {
        finished_ = FinishReason::kEnd;
        return StepType::kStop;
      }
      if (EndsPhase(id)) phase_ = Phase::kWindow;
      return StepType::kToken;
    }
    if (EndsPhase(id)) {
      phase_ = Phase::kWindow;
      return StepType::kBoxEnd;
    }
    if (tokens_.IsCoordinate(id) || id == tokens_.none) return StepType::kCoordinate;
    finished_ = id == tokens_.message_end ? FinishReason::kEnd : FinishReason::kMalformed;
    return StepType::kStop;
  }

  bool EndsPhase(TokenId id) const {
    if (phase_ == Phase::kRepair) return id == tokens_.box_end;
    return phase_ == Phase::kText && (id == tokens_.box_end || id == tokens_.ref_end);
  }

  // ---- drafts

  // The window's first row stands for the token that was just appended; where it differs the rest is no use.
  void DraftFromWindow(size_t first_row) {
    Block proposed;
    for (size_t i = 0; i < proposed.size(); ++i) {
      const std::span<float> row = Row(first_row + i);
      ProcessLogits(row, seen_.ids(), {.repetition_penalty = options_.sampling.repetition_penalty});
      proposed[i] = static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
    }
    if (proposed.front() == ids_.back()) SetDraft(std::span(proposed).subspan(1));
  }

  // Up to where the phase or the answer would end.
  void SetDraft(std::span<const TokenId> proposed) {
    draft_.clear();
    if (!drafts()) return;
    for (const TokenId id : proposed) {
      if (id == tokens_.null) break;
      draft_.push_back(id);
      if (id == tokens_.message_end || EndsPhase(id)) break;
    }
  }

  // No more than there is room for, one token being appended behind it.
  std::vector<TokenId> TakeDraft() {
    draft_.resize(std::min(draft_.size(), static_cast<size_t>(limit_ - length() - 1)));
    return std::exchange(draft_, {});
  }

  // ---- the answer

  void Append(TokenId id, double probability) {
    ids_.push_back(id);
    answer_.probabilities.push_back(probability);
    seen_.Add(id);
    looped_ = !options_.reference && loops_.Add(id);
  }

  // Ends the answer after a token that the official code would go on from. True when the answer has ended.
  bool Guard() {
    if (!finished_ && looped_) finished_ = FinishReason::kLoop;
    if (!finished_ && !options_.reference && length() >= limit_) finished_ = FinishReason::kLength;
    return finished_.has_value();
  }

  void Tell(StepType type, std::optional<BlockSource> source, int64_t position, std::span<const TokenId> rows) const {
    if (!observer_) return;
    const auto first = static_cast<size_t>(position);
    observer_({type, source, position, answer_.forwards, rows, std::span(ids_).subspan(first),
               std::span(answer_.probabilities).subspan(first - static_cast<size_t>(prompt_length_))});
  }

  TokenModel& model_;
  const GenerationOptions& options_;
  const LocateTokens& tokens_;
  const std::stop_token stop_;
  const GenerationObserver& observer_;

  std::vector<TokenId> ids_;  // prompt and answer
  const int64_t prompt_length_;
  const int64_t limit_;  // of ids_
  SeenTokens seen_;
  LoopDetector loops_;
  RandomNumbers random_;
  Phase phase_ = Phase::kWindow;
  std::vector<TokenId> draft_;  // of what follows ids_
  bool looped_ = false;
  std::optional<FinishReason> finished_;
  std::vector<float> logits_;  // of the last pass
  Generation answer_;
};

}  // namespace

Result<Generation> Generate(TokenModel& model, std::span<const TokenId> prompt, const GenerationOptions& options,
                            std::stop_token stop, const GenerationObserver& observer) {
  SIGHTLINE_RETURN_IF_ERROR(CheckGenerationOptions(options));
  if (prompt.empty()) return Fail(Code::kInvalidRequest, "prompt has no tokens, expected at least one");
  const int64_t length = std::ssize(prompt);
  if (length >= model.capacity()) {
    return Fail(Code::kInvalidRequest,
                fmt::format("prompt has {} tokens, expected fewer than the {} that the model has room for", length,
                            model.capacity()));
  }
  SIGHTLINE_CHECK(model.length() <= length);
  return Generator(model, prompt, options, std::move(stop), observer).Run();
}

}  // namespace sightline
