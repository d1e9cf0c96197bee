#include <algorithm>

#include "package/package.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

constexpr std::string_view kCommands[] = {"tt model pull ", "tt serve ", "tt-model pull  ", "tt-model serve "};

// `line` with its package replaced, or as it is.
std::string RepointLine(std::string_view line, std::string_view target) {
  for (const std::string_view command : kCommands) {
    if (!line.starts_with(command)) continue;
    const std::string_view rest = line.substr(command.size());
    const size_t end = std::min(rest.find_first_of(" \t\r"), rest.size());
    if (!IsRepositoryId(rest.substr(0, end))) break;
    return std::string(command) + std::string(target) + std::string(rest.substr(end));
  }
  return std::string(line);
}

}  // namespace

std::string RepointCard(std::string_view readme, std::string_view target) {
  std::string card;
  while (true) {
    const size_t end = readme.find('\n');
    card += RepointLine(readme.substr(0, end), target);
    if (end == std::string_view::npos) return card;
    card += '\n';
    readme.remove_prefix(end + 1);
  }
}

}  // namespace sightline
