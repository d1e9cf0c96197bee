#include "cli/launching.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/terminal.h"

namespace sightline {

Result<std::unique_ptr<Launcher>> MakeLauncher() {
  SIGHTLINE_ASSIGN_OR_RETURN(LaunchSettings settings, LaunchSettingsFromEnvironment());
  settings.store.program = ProgramName();
  return std::make_unique<Launcher>(std::move(settings));
}

LicenseQuestion AskForLicense(bool accepted) {
  if (accepted) return [](const LicenseNotice&) { return true; };
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) return {};
  return [](const LicenseNotice& notice) {
    const std::string name = notice.license.name.value_or(notice.license.id);
    const std::string link = notice.license.link ? fmt::format(" ({})", *notice.license.link) : "";
    std::fputs(fmt::format("\r\033[KThe weights {} come under the licence {}{}. Do you accept it? [y/N] ",
                           OneLine(notice.repo), OneLine(name), OneLine(link))
                   .c_str(),
               stderr);
    std::fflush(stderr);
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
  };
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ColumnsOf(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += OneLine(row[i]);
      if (i + 1 < row.size()) line += std::string(widths[i] - ColumnsOf(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace sightline
