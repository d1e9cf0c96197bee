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

// Asks on the terminal whether the licence of weights is accepted. `accepted` on the command line: not asked. Nothing
// where nobody can be asked: then the licence is shown and taken as agreed.
LicenseQuestion AskForLicense(bool accepted);

// Rows under headings, each column as wide as its widest entry.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace sightline
