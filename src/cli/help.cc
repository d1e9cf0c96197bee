#include "cli/help.h"

#include <fmt/format.h>

#include <map>

#include "base/base.h"

namespace sightline {
namespace {

// What the codes of one number have in common, for people.
std::map<int, std::string> Meanings() {
  return {{0, "it worked; nobody found in a picture is an answer too"},
          {1, "a fault of the program or of the machine, or what it cannot do"},
          {2, "the command line, or a request, is not understood"},
          {3, "a file, folder or model does not exist"},
          {4, "the picture or a box was refused"},
          {5, "the server is busy, starting, stopping or out of reach"},
          {6, "weights are damaged or of another form"},
          {7, "the disk is full, or a permission is missing"},
          {8, "it took too long"},
          {9, "not enough memory"},
          {10, "the device is missing or was lost"},
          {20, "with --keep-going: some of several pictures failed"},
          {130, "interrupted by Ctrl-C"},
          {143, "ended by SIGTERM"}};
}

// Names of error codes by exit code: indented lines that fit a terminal.
std::map<int, std::string> NamesByExitCode() {
  constexpr size_t kWidth = 90;
  std::map<int, std::string> names;
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    const CodeDescription& description = Describe(static_cast<Code>(i));
    std::string& lines = names[description.exit_code];
    const size_t used = lines.size() - (lines.rfind('\n') + 1);
    const bool fits = !lines.empty() && used + description.name.size() + 2 <= kWidth;
    lines += lines.empty() ? "" : fits ? ", " : ",\n";
    lines += fits ? "" : "       ";
    lines += description.name;
  }
  return names;
}

}  // namespace

std::string ExitCodesText() {
  const std::map<int, std::string> names = NamesByExitCode();
  std::string text = "Exit codes, and the error codes of --json and of the server that belong to them:\n\n";
  for (const auto& [code, meaning] : Meanings()) {
    text += fmt::format("  {:>3}  {}\n", code, meaning);
    if (const auto found = names.find(code); found != names.end()) text += found->second + "\n";
  }
  return text +
         "\nWith several pictures all are tried; the code is that of the first one that failed, or 20 with "
         "--keep-going.\n";
}

}  // namespace sightline
