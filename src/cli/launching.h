// What the verbs that start, stop and watch packages share.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cli/interrupts.h"
#include "cli/reporter.h"
#include "launch/launch.h"

namespace sightline {

// A launcher for this user, speaking of the program that was called.
Result<std::unique_ptr<Launcher>> MakeLauncher();

// Whether the licence of weights is accepted: `accepted` on the command line, else asked on the terminal, while
// `reporter` draws nothing. Where nobody can be asked it is not accepted. tt-model knows no such question: there the
// licence is shown and taken as agreed. `reporter` must outlive it.
LicenseQuestion AskForLicense(bool accepted, ShownReporter& reporter);

// Rows under headings, each column as wide as its widest entry.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace sightline
