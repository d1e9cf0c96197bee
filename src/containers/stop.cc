// Stopping a container, and what that does to its chips.
#include <algorithm>

#include "containers/engine_calls.h"

namespace sightline {
namespace {

constexpr int kKilled = 137;
constexpr std::chrono::seconds kResetPatience{180};

// Chips of a devices label; nothing (all of them) when it is absent or malformed.
std::vector<std::string> ChipsOfLabel(const std::string& label) {
  std::vector<std::string> chips = SplitAt(label, ',');
  const bool numbers = std::all_of(chips.begin(), chips.end(), [](const std::string& chip) {
    return !chip.empty() && chip.size() < 6 && chip.find_first_not_of("0123456789") == std::string::npos;
  });
  if (!numbers) chips.clear();
  return chips;
}

// Whether a container that runs now holds one of them. What cannot be found out counts as held: a reset under a running
// server would break it.
bool AreHeld(const ContainerEngine& engine, const std::vector<std::string>& chips) {
  const auto running = engine.InspectRunning();
  if (!running) return true;
  std::vector<int> inventory = ChipInventory();
  // Chips that were just in use may be missing from the folder; a grant of all claims them still.
  for (const std::string& chip : chips) inventory.push_back(std::stoi(chip));
  if (inventory.empty()) inventory.push_back(0);
  const std::set<int> claimed = ClaimedChips(*running, inventory);
  if (chips.empty()) return !claimed.empty();
  return std::any_of(chips.begin(), chips.end(),
                     [&claimed](const std::string& chip) { return claimed.contains(std::stoi(chip)); });
}

ChipReset ResetChips(const ContainerEngine& engine, const std::vector<std::string>& chips, const std::string& image) {
  if (AreHeld(engine, chips)) return ChipReset::kSkipped;
  std::vector<std::string> arguments{"--rm"};
  for (const std::string& chip : chips) {
    const std::string node = "/dev/tenstorrent/" + chip;
    arguments.insert(arguments.end(), {"--device", node + ":" + node});
  }
  if (chips.empty()) arguments.insert(arguments.end(), {"--device", "/dev/tenstorrent"});
  arguments.insert(arguments.end(), {"--mount", "type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G", "--entrypoint",
                                     "tt-smi", image, "-r", "all"});
  ProcessLimits limits;
  limits.timeout = kResetPatience;
  return engine.Run(arguments, limits) ? ChipReset::kRan : ChipReset::kFailed;
}

}  // namespace

Result<StopReport> StopContainer(const ContainerEngine& engine, const std::string& name, const std::string& reset_image,
                                 std::chrono::seconds grace) {
  const std::string format = "{{.State.Running}}\t{{index .Config.Labels \"" + std::string(kDevicesLabel) + "\"}}";
  SIGHTLINE_ASSIGN_OR_RETURN(const auto said, AskAbout(engine, {"inspect", "--format", format, name}));
  std::vector<std::string> cells = SplitAt(said.value_or(""), '\t');
  cells.resize(2);
  StopReport report;
  report.was_running = !said || cells[0] == "true";
  SIGHTLINE_RETURN_IF_ERROR(engine.Stop(name, grace));
  report.exit_code = engine.ExitCode(name);
  report.clean = report.exit_code.has_value() && report.exit_code != kKilled;
  SIGHTLINE_RETURN_IF_ERROR(engine.Remove(name, /*force=*/false));
  if (report.clean || reset_image.empty()) return report;
  report.reset = ResetChips(engine, ChipsOfLabel(cells[1]), reset_image);
  return report;
}

}  // namespace sightline
