// What people read: results on standard output, everything else on standard error.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/base.h"

namespace sightline {

// Text for standard output; failures show in FlushOutput.
void Print(std::string_view text);
// Sends what was printed on its way. Fails when standard output cannot take it (a full disk).
Status FlushOutput();

// "sightline: <sentence>", one line whatever the sentence holds.
void PrintError(std::string_view sentence);
// "sightline: note: <sentence>"
void PrintNote(std::string_view sentence);
// "sightline: warning: <sentence>"
void PrintWarning(std::string_view sentence);

// Whether standard error is a terminal that obeys escape codes: not where TERM is dumb.
bool CanRedraw();

// Control characters (of file names) as "?", so that they cannot move a terminal's cursor.
std::string OneLine(std::string_view text);

// A line on the terminal that says how far long work has come, and vanishes when it is done. Nothing is written where
// standard error is no terminal, but for ShowLong.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(int done, int total);
  void Show(std::string_view state);
  // For work that can take a minute: where standard error is no terminal, a note every ten seconds.
  void ShowLong(std::string_view state);
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point noted_ = Clock::now();
};

}  // namespace sightline
