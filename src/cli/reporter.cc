#include "cli/reporter.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>

#include "cli/interrupts.h"
#include "cli/live_reporter.h"
#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// The style in which no terminal is needed.
class PlainReporter : public ShownReporter {
 public:
  explicit PlainReporter(bool verbose) : verbose_(verbose) {}

  void OnStep(const StepReport& step) override {
    if (step.state == StepState::kStart) {
      step_ = {step.key, step.label, Clock::now()};
      noted_ = Clock::now();
      if (verbose_) Write(OneLine(step.label) + "…");
      return;
    }
    const auto elapsed = step.key == step_.key ? Clock::now() - step_.begun : Clock::duration(0);
    const auto worked = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed);
    Write(StepRow(step, worked, std::numeric_limits<size_t>::max(), UseColor()));
  }
  void OnProgress(const ProgressReport& progress) override {
    constexpr std::chrono::seconds kBetweenLines{10};
    if (Clock::now() - noted_ < kBetweenLines || progress.total == 0) return;
    noted_ = Clock::now();
    Write(fmt::format("  {}  {}", OneLine(step_.label), ProgressText(progress, Clock::now() - step_.begun)));
  }
  void OnNote(std::string_view line) override { Write("• " + OneLine(line)); }
  void OnWarning(std::string_view line) override { Write("! " + OneLine(line)); }
  void OnError(const FailureCard& card) override { std::fputs(CardText(card).c_str(), stderr); }

 private:
  struct Begun {
    std::string key, label;
    Clock::time_point begun{};
  };
  static void Write(const std::string& line) {
    std::fputs((line + "\n").c_str(), stderr);
    std::fflush(stderr);
  }
  bool verbose_;
  Begun step_;
  Clock::time_point noted_{};
};

class QuietReporter : public ShownReporter {
 public:
  void OnWarning(std::string_view line) override { PrintWarning(line); }
  void OnError(const FailureCard& card) override { std::fputs(CardText(card).c_str(), stderr); }
};

Value Text(const std::string& text) { return Value{text}; }
Value Number(uint64_t number) { return Value{static_cast<int64_t>(number)}; }

// tt's progress contract, docs/serve-progress-contract.md of tt-cli.
class EventReporter : public ShownReporter {
 public:
  void OnStep(const StepReport& step) override {
    constexpr std::string_view kStates[] = {"start", "done", "fail"};
    Value event = Event("step");
    event.Set("key", Text(step.key));
    event.Set("state", Text(std::string(kStates[static_cast<size_t>(step.state)])));
    event.Set("label", Text(step.label));
    if (!step.detail.empty()) event.Set("detail", Text(step.detail));
    Write(event);
  }
  void OnProgress(const ProgressReport& progress) override {
    constexpr std::chrono::milliseconds kBetweenEvents{200};
    const bool last = progress.done == progress.total;
    if (progress.total == 0 || (!last && Clock::now() - written_ < kBetweenEvents)) return;
    written_ = Clock::now();
    Value event = Event("progress");
    event.Set("key", Text(progress.key));
    event.Set("done", Number(progress.done));
    event.Set("total", Number(progress.total));
    event.Set("unit", Text(progress.unit == ProgressUnit::kBytes ? "bytes" : "count"));
    Write(event);
  }
  void OnContainer(const std::string& id, const std::string& endpoint) override {
    Value event = Event("container");
    event.Set("id", Text(id));
    if (!endpoint.empty()) event.Set("endpoint", Text(endpoint));
    Write(event);
  }
  void OnError(const FailureCard& card) override {
    Value event = Event("error");
    event.Set("cause", Text(card.cause));
    event.Set("detail", Text(card.detail));
    event.Set("evidence", Text(card.evidence));
    Value::List actions;
    for (const std::string& action : card.actions) actions.push_back(Text(action));
    event.Set("actions", Value{std::move(actions)});
    Write(event);
    std::fputs(CardText(card).c_str(), stderr);
  }
  void OnNote(std::string_view line) override { std::fputs(("• " + OneLine(line) + "\n").c_str(), stderr); }
  void OnWarning(std::string_view line) override { std::fputs(("! " + OneLine(line) + "\n").c_str(), stderr); }

 private:
  static Value Event(const char* kind) {
    Value event{Value::Map{}};
    event.Set("event", Text(kind));
    return event;
  }
  static void Write(const Value& event) {
    Print(ToJson(event, -1) + "\n");
    (void)FlushOutput();  // a reader that is gone is found at the end
  }
  Clock::time_point written_{};
};

}  // namespace

bool UseColor() {
  static const bool use = !Globals().no_color && !IsSet("NO_COLOR") && CanRedraw();
  return use;
}

ReportStyle ChooseReportStyle(bool quiet) {
  const char* progress = std::getenv("TT_MODEL_PROGRESS");
  if (progress == nullptr) progress = std::getenv("TT_KERNEL_PROGRESS");
  if (progress != nullptr && std::string_view(progress) == "ndjson") return ReportStyle::kEvents;
  if (quiet) return ReportStyle::kQuiet;
  if (Globals().verbose) return ReportStyle::kVerbose;
  return CanRedraw() ? ReportStyle::kTerminal : ReportStyle::kPlain;
}

std::unique_ptr<ShownReporter> MakeReporter(ReportStyle style) {
  switch (style) {
    case ReportStyle::kTerminal:
      return MakeLiveReporter();
    case ReportStyle::kEvents:
      return std::make_unique<EventReporter>();
    case ReportStyle::kQuiet:
      return std::make_unique<QuietReporter>();
    case ReportStyle::kPlain:
    case ReportStyle::kVerbose:
      break;
  }
  return std::make_unique<PlainReporter>(style == ReportStyle::kVerbose);
}

int ShowFailure(const StoreError& error, Reporter& reporter) {
  if (error.code == Code::kCancelled) {
    reporter.OnError({"interrupted"});
    return InterruptedExit();
  }
  FailureCard card = error.card;
  if (card.cause.empty()) card.cause = error.message;
  reporter.OnError(card);
  constexpr int kFailure = 1;
  return CurrentPersona() == Persona::kSightline ? Describe(error.code).exit_code : kFailure;
}

std::string CardText(const FailureCard& card) {
  std::string text = (UseColor() ? "\033[31m✗\033[0m " : "✗ ") + OneLine(card.cause) + "\n";
  if (!card.detail.empty() && card.detail != card.cause) text += fmt::format("  {}\n", OneLine(card.detail));
  if (!card.evidence.empty()) text += fmt::format("  {}\n", OneLine(card.evidence));
  for (const std::string& action : card.actions) text += fmt::format("  → {}\n", OneLine(action));
  return text;
}

std::string PanelText(const std::string& title, const std::vector<std::string>& lines) {
  constexpr size_t kWidth = 78, kInside = kWidth - 4;
  const auto repeat = [](size_t times) {
    std::string edge;
    for (size_t i = 0; i < times; ++i) edge += "─";
    return edge;
  };
  const std::string head = CutToColumns(OneLine(title), kInside - 2);
  std::string text = "╭─ " + head + " " + repeat(kWidth - 5 - ColumnsOf(head)) + "╮\n";
  for (const std::string& line : lines) {
    const std::string shown = OneLine(line);  // commands are to be copied: never cut
    const size_t columns = ColumnsOf(shown);
    text += "│ " + shown + (columns < kInside ? std::string(kInside - columns, ' ') + " │\n" : "\n");
  }
  return text + "╰" + repeat(kWidth - 2) + "╯\n";
}

}  // namespace sightline
