#include "cli/live_reporter.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "cli/number_text.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kSpinner[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
constexpr std::chrono::milliseconds kFrame{100};
constexpr size_t kNarrow = 60;  // columns below which there is no bar

size_t TerminalColumns() {
  winsize size{};
  constexpr size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

class LiveReporter : public ShownReporter {
 public:
  LiveReporter() : columns_(TerminalColumns()), drawing_([this](const std::stop_token& stop) { Draw(stop); }) {}
  ~LiveReporter() override {
    drawing_.request_stop();
    drawing_.join();
    ClearLive();
  }

  void OnStep(const StepReport& step) override {
    const std::lock_guard lock(mutex_);
    if (step.state == StepState::kStart) {
      active_ = step;
      begun_ = Clock::now();
      progress_.reset();
      return DrawLive();
    }
    const bool known = active_ && active_->key == step.key;
    const auto elapsed = known ? Clock::now() - begun_ : Clock::duration(0);
    if (known) active_.reset();
    ClearLive();
    const auto worked = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed);
    Write(StepRow(step, worked, columns_ - 1, UseColor()) + "\n");
    ++rows_;
  }
  void OnProgress(const ProgressReport& progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }
  void OnNote(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    WriteLine("• " + OneLine(line));
  }
  void OnWarning(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    warnings_.push_back("! " + OneLine(line));
    WriteLine(warnings_.back());
  }
  void OnError(const FailureCard& card) override {
    const std::lock_guard lock(mutex_);
    ClearLive();
    active_.reset();
    std::fputs(CardText(card).c_str(), stderr);
  }
  void Finish() override {
    const std::lock_guard lock(mutex_);
    ClearLive();
    active_.reset();
    // After a resize the rows are no longer where they were.
    if (TerminalColumns() != columns_ || rows_ == 0) return;
    std::string up;
    for (size_t i = 0; i < rows_; ++i) up += "\033[1A\033[2K";
    rows_ = 0;
    for (const std::string& warning : warnings_) up += warning + "\n";
    Write("\r" + up);
  }

 private:
  static void Write(const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  void ClearLive() {
    if (drawn_) Write("\r\033[2K");
    drawn_ = false;
  }
  void SetPaused(bool paused) override {
    const std::lock_guard lock(mutex_);
    ClearLive();
    paused_ = paused;
    // Question and answer stay where they are, and so does what stands above them.
    rows_ = 0;
    warnings_.clear();
  }
  // Without colours. It may wrap: whoever reads it wants all of it.
  void WriteLine(const std::string& line) {
    ClearLive();
    Write(line + "\n");
    rows_ += std::max<size_t>(1, (ColumnsOf(line) + columns_ - 1) / columns_);
  }
  void DrawLive() {
    if (!active_ || paused_) return;
    const auto elapsed = Clock::now() - begun_;
    const std::string label = fmt::format("{} {}", kSpinner[frame_++ % std::size(kSpinner)], OneLine(active_->label));
    std::string figures;
    if (progress_ && columns_ >= kNarrow) {
      figures = ProgressText(*progress_, elapsed);
    } else if (elapsed > std::chrono::seconds(1)) {
      figures = ClockText(std::chrono::duration_cast<std::chrono::seconds>(elapsed));
    }
    Write("\r\033[2K" + LiveRow(label, figures, columns_ - 1));
    drawn_ = true;
  }
  void Draw(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, stop, kFrame, [] { return false; });
      if (!stop.stop_requested()) DrawLive();
    }
  }

  const size_t columns_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<StepReport> active_;
  Clock::time_point begun_{};
  std::optional<ProgressReport> progress_;
  std::vector<std::string> warnings_;
  size_t rows_ = 0, frame_ = 0;
  bool drawn_ = false, paused_ = false;
  std::jthread drawing_;  // last: it uses the members above
};

}  // namespace

std::string StepRow(const StepReport& step, std::chrono::milliseconds elapsed, size_t columns, bool color) {
  const bool done = step.state == StepState::kDone;
  constexpr std::chrono::milliseconds kWorthSaying{800};
  constexpr size_t kMark = 2;
  std::string text = OneLine(step.label);
  if (!step.detail.empty()) text += "  " + OneLine(step.detail);
  if (elapsed >= kWorthSaying) text += "  " + DurationText(elapsed);
  // Cut before it has colours, which take no columns.
  const std::string mark = color ? (done ? "\033[32m✓\033[0m " : "\033[31m✗\033[0m ") : (done ? "✓ " : "✗ ");
  return mark + CutToColumns(std::move(text), columns - std::min(columns, kMark));
}

std::string LiveRow(const std::string& label, const std::string& figures, size_t columns) {
  if (figures.empty()) return CutToColumns(label, columns);
  constexpr size_t kLeast = 8;  // columns of the label
  const std::string tail = "  " + figures;
  const size_t room = columns - std::min(columns, ColumnsOf(tail));
  return CutToColumns(CutToColumns(label, std::max(kLeast, room)) + tail, columns);
}

std::string ProgressText(const ProgressReport& progress, Clock::duration elapsed) {
  const bool bytes = progress.unit == ProgressUnit::kBytes;
  const auto amount = [bytes](uint64_t value) { return bytes ? DecimalBytes(value) : fmt::format("{}", value); };
  if (progress.total == 0) return amount(progress.done);
  const double share = static_cast<double>(progress.done) / static_cast<double>(progress.total);
  std::string text =
      fmt::format("{} {}%  {} of {}", BarText(progress.done, progress.total),
                  std::min(100, static_cast<int>(100 * share)), amount(progress.done), amount(progress.total));
  const double seconds = std::chrono::duration<double>(elapsed).count();
  constexpr double kSettled = 1;  // seconds before a rate means anything
  if (!bytes || seconds < kSettled || progress.moved == 0) return text;
  const double rate = static_cast<double>(progress.moved) / seconds;
  text += fmt::format("  {}/s", DecimalBytes(static_cast<uint64_t>(rate)));
  constexpr double kLongestWait = 360'000;  // seconds
  const double left = static_cast<double>(progress.total - std::min(progress.total, progress.done)) / rate;
  if (left < kLongestWait)
    text += fmt::format("  {} left", ClockText(std::chrono::seconds(static_cast<int64_t>(left))));
  return text;
}

std::unique_ptr<ShownReporter> MakeLiveReporter() { return std::make_unique<LiveReporter>(); }

}  // namespace sightline
