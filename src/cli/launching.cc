#include "cli/launching.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/questions.h"
#include "cli/terminal.h"

namespace sightline {

Result<std::unique_ptr<Launcher>> MakeLauncher() {
  SIGHTLINE_ASSIGN_OR_RETURN(LaunchSettings settings, LaunchSettingsFromEnvironment());
  settings.store.program = ProgramName();
  return std::make_unique<Launcher>(std::move(settings));
}

LicenseQuestion AskForLicense(bool accepted, ShownReporter& reporter) {
  if (accepted) return [](const LicenseNotice&, const std::stop_token&) { return true; };
  if (CurrentPersona() == Persona::kTtModel) return {};
  return [&reporter](const LicenseNotice& notice, const std::stop_token& stop) -> Result<bool> {
    if (!SomebodyCanBeAsked()) return false;
    const ShownReporter::Pause pause(reporter);
    return AskYesNo(fmt::format("Licence: {}. Do you accept it?", notice.sentence), stop);
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
