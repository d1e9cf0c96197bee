// Questions to the person at the terminal.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "base/base.h"

namespace sightline {

// Whether there is anybody: standard input and standard error are a terminal.
bool SomebodyCanBeAsked();

enum class Echo { kShown, kHidden };
// Shows the question on standard error and reads one line of standard input, without its end; what was typed is not
// shown with kHidden. Where standard input is no terminal nothing is shown. The terminal is as before afterwards.
// kCancelled when `stop` asks meanwhile, which needs Interrupts to stand between Ctrl-C and the program.
Result<std::string> Ask(std::string_view question, Echo echo, const std::stop_token& stop);

// "question [y/N] ": true for y and yes.
Result<bool> AskYesNo(std::string_view question, const std::stop_token& stop);

}  // namespace sightline
