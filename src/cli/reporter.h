// What long work reports, as people and programs read it.
#pragma once

#include <memory>
#include <string>

#include "store/store.h"

namespace sightline {

enum class ReportStyle {
  kTerminal,  // rows on standard error; the one that is worked on is alive, with bar, rate and time left
  kPlain,     // the same rows without life, and a line every ten seconds of long work
  kVerbose,   // plain, and a line when a step begins
  kEvents,    // one JSON object a line on standard output, for programs: tt's progress contract
  kQuiet,     // warnings and failures alone
};

// Events where TT_MODEL_PROGRESS is ndjson, else what standard error is good for. --verbose is tt-model's.
ReportStyle ChooseReportStyle(bool quiet);

class ShownReporter : public Reporter {
 public:
  // All is well: on a terminal the rows vanish and the warnings among them are shown once more. Without a call the rows
  // stay.
  virtual void Finish() {}

  // Nothing is drawn by itself while it lives: somebody is asked something.
  class Pause {
   public:
    explicit Pause(ShownReporter& reporter) : reporter_(reporter) { reporter_.SetPaused(true); }
    ~Pause() { reporter_.SetPaused(false); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    ShownReporter& reporter_;
  };

 private:
  virtual void SetPaused(bool /*paused*/) {}
};
std::unique_ptr<ShownReporter> MakeReporter(ReportStyle style);
inline std::unique_ptr<ShownReporter> MakeReporter(bool quiet = false) {
  return MakeReporter(ChooseReportStyle(quiet));
}

// Shows the failure and returns the exit code that says it: of tt-model 1, or 130 when the user interrupted.
int ShowFailure(const StoreError& error, Reporter& reporter);

// "✗ cause", then detail, evidence and actions, each on lines of their own.
std::string CardText(const FailureCard& card);
// A box of 78 columns around lines, its title in the upper edge.
std::string PanelText(const std::string& title, const std::vector<std::string>& lines);

// Whether colours are wanted on standard error.
bool UseColor();

}  // namespace sightline
