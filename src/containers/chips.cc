// Which chips there are, which are taken, which to use.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "containers/engine_calls.h"

namespace sightline {
namespace {

constexpr std::string_view kDeviceFolder = "/dev/tenstorrent";
constexpr int kMaxIpcChain = 64;

std::optional<int> Number(std::string_view text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = problem == std::errc() && end == text.data() + text.size() && text.find_first_of("+-") != 0;
  return whole ? std::optional(number) : std::nullopt;
}

const ContainerState* FindContainer(const std::vector<ContainerState>& running, std::string_view id_or_name) {
  for (const ContainerState& container : running) {
    if (container.name == id_or_name || (!id_or_name.empty() && container.id.starts_with(id_or_name))) {
      return &container;
    }
  }
  return nullptr;
}

bool SharesHostIpc(const ContainerState& container, const std::vector<ContainerState>& running) {
  const ContainerState* next = &container;
  for (int i = 0; i < kMaxIpcChain && next != nullptr; ++i) {
    if (next->ipc_mode == "host") return true;
    if (!next->ipc_mode.starts_with("container:")) return false;
    next = FindContainer(running, std::string_view(next->ipc_mode).substr(std::string_view("container:").size()));
  }
  return true;  // a chain that leads nowhere, or in a circle
}

// Adds what a grant of `path` on the host gives: one chip, or all for a folder that holds them.
void AddGranted(const std::string& path, const std::vector<int>& inventory, std::set<int>* claimed) {
  std::string granted = std::filesystem::path(path).lexically_normal();
  while (granted.size() > 1 && granted.ends_with('/')) granted.pop_back();
  const std::string chip_prefix = std::string(kDeviceFolder) + "/";
  if (granted.starts_with(chip_prefix)) {
    if (const auto chip = Number(std::string_view(granted).substr(chip_prefix.size()))) claimed->insert(*chip);
    return;
  }
  const bool whole = granted == "/" || granted == kDeviceFolder || kDeviceFolder.starts_with(granted + "/");
  if (whole) claimed->insert(inventory.begin(), inventory.end());
}

std::string Listed(const std::set<int>& chips) { return fmt::format("{}", fmt::join(chips, ", ")); }

}  // namespace

std::vector<int> ChipInventory(const std::filesystem::path& root) {
  std::vector<int> chips;
  std::error_code problem;
  const auto folder = root / kDeviceFolder.substr(1);
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (const auto chip = Number(entry->path().filename().string())) chips.push_back(*chip);
  }
  std::sort(chips.begin(), chips.end());
  return chips;
}

std::set<int> ClaimedChips(const std::vector<ContainerState>& running, const std::vector<int>& inventory) {
  std::set<int> claimed;
  for (const ContainerState& container : running) {
    if (const auto label = container.labels.find(std::string(kDevicesLabel)); label != container.labels.end()) {
      for (const std::string& part : SplitAt(label->second, ',')) {
        if (const auto chip = Number(part)) claimed.insert(*chip);
      }
    }
    if (!SharesHostIpc(container, running)) continue;
    if (container.privileged) claimed.insert(inventory.begin(), inventory.end());
    for (const std::string& path : container.device_paths) AddGranted(path, inventory, &claimed);
    for (const std::string& path : container.mount_sources) AddGranted(path, inventory, &claimed);
  }
  return claimed;
}

Result<std::vector<int>> PickChips(int count, const std::vector<int>& inventory, const std::set<int>& claimed) {
  if (count > static_cast<int>(inventory.size())) {
    return Fail(Code::kDeviceLost,
                fmt::format("tt devices: the package needs {} chip(s), this machine has {}", count, inventory.size()));
  }
  std::vector<int> free;
  std::set<int> busy;
  for (const int chip : inventory) {
    if (claimed.contains(chip)) {
      busy.insert(chip);
    } else if (static_cast<int>(free.size()) < count) {
      free.push_back(chip);
    }
  }
  if (static_cast<int>(free.size()) == count) return free;
  return Fail(Code::kBusy,
              fmt::format("tt devices: the package needs {} free chip(s), {} of {} is free; in use by other "
                          "containers: {}; stop one of them first",
                          count, inventory.size() - busy.size(), inventory.size(), Listed(busy)));
}

Result<std::vector<int>> ParseChips(std::string_view text, int count, const std::vector<int>& inventory,
                                    const std::set<int>& claimed) {
  const auto wrong = [&](const std::string& why) {
    return Fail(Code::kUsage, "--device-id " + std::string(text) + ": " + why);
  };
  std::vector<int> chips;
  for (const std::string& part : SplitAt(text, ',')) {
    const auto chip = Number(part);
    if (!chip) return wrong(fmt::format("'{}' is not a whole number, expected chips such as 0,1", part));
    if (std::find(chips.begin(), chips.end(), *chip) != chips.end()) return wrong(fmt::format("names {} twice", *chip));
    chips.push_back(*chip);
  }
  if (static_cast<int>(chips.size()) != count) {
    return wrong(fmt::format("names {} chip(s), the profile needs {}", chips.size(), count));
  }
  for (const int chip : chips) {
    if (std::find(inventory.begin(), inventory.end(), chip) == inventory.end()) {
      return Fail(Code::kDeviceLost, fmt::format("--device-id {}: {}/{} is not there", text, kDeviceFolder, chip));
    }
    if (claimed.contains(chip)) {
      return Fail(Code::kBusy, fmt::format("--device-id {}: chip {} is in use by another container; in use: {}", text,
                                           chip, Listed(claimed)));
    }
  }
  return chips;
}

}  // namespace sightline
