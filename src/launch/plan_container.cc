#include <fmt/format.h>

#include "launch/launcher_state.h"

namespace sightline {

StoreResult<ContainerPlan> PlanContainer(const LaunchSettings& settings, const LocalPackage& package,
                                         const std::optional<std::string>& profile) {
  ContainerPlan plan;
  SIGHTLINE_ASSIGN_OR_RETURN(plan.container, package.manifest.RequireContainer());
  DockerRunInput& input = plan.input;
  SIGHTLINE_ASSIGN_OR_RETURN(input.profile, plan.container->ResolveProfile(profile));
  SIGHTLINE_RETURN_IF_ERROR(CheckSlug(package.manifest.name));
  plan.name = ContainerName(package.manifest.name, input.profile.name);
  input.manifest = &package.manifest;
  input.user = settings.user;
  input.group = settings.group;
  input.hf_home = settings.hf_home;
  input.hub_cache = settings.store.hub.cache;
  input.cache_folder = settings.store.folders.PackageCache(package.manifest.name);
  input.token_is_set = settings.token_is_set;
  if (!NeedsDevices(package.manifest)) input.devices.kind = DeviceGrant::Kind::kNone;
  return plan;
}

Status ResolveFolders(DockerRunInput& input) {
  for (std::filesystem::path* folder : {&input.hf_home, &input.hub_cache}) {
    std::error_code error;
    std::filesystem::path resolved = std::filesystem::weakly_canonical(*folder, error);
    if (error) return tl::make_unexpected(ErrnoError("read", *folder, error.value()));
    *folder = std::move(resolved);
  }
  return {};
}

StoreResult<DeviceGrant> GrantDevices(const ContainerEngine& engine, const LocalPackage& package,
                                      const ServeProfile& profile, const std::string& asked,
                                      const std::filesystem::path& host_root) {
  DeviceGrant grant;
  if (!NeedsDevices(package.manifest)) {
    if (!asked.empty()) return Fail(Code::kUsage, "--device-id is given, and this package runs on the CPU");
    grant.kind = DeviceGrant::Kind::kNone;
    return grant;
  }
  const auto chips = ChipsOfHardware(profile.hardware.value_or(""));
  const int count = static_cast<int>(chips.value_or(package.manifest.device_count));
  const std::vector<int> inventory = ChipInventory(host_root);
  auto running = engine.InspectRunning();
  if (!running) {
    return Fail(running.error().code,
                fmt::format("cannot see which devices running containers hold: {}", running.error().message));
  }
  const std::set<int> claimed = ClaimedChips(*running, inventory);
  grant.kind = DeviceGrant::Kind::kChips;
  if (asked.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(grant.chips, PickChips(count, inventory, claimed));
  } else {
    SIGHTLINE_ASSIGN_OR_RETURN(grant.chips, ParseChips(asked, count, inventory, claimed));
  }
  return grant;
}

}  // namespace sightline
