// What a Launcher holds, and the parts of its work that several of its .cc files share.
#pragma once

#include <optional>
#include <string>

#include "launch/launch.h"
#include "launch/native_servers.h"

namespace sightline {

struct Launcher::State {
  explicit State(LaunchSettings given) : settings(std::move(given)), store(settings.store), natives(settings.servers) {}

  LaunchSettings settings;
  Store store;
  NativeServers natives;
};

// A package that is to be served: its manifest at least.
struct FoundPackage {
  Target target;
  LocalPackage package;
  bool installed = false;  // else only its manifest is known
};

// ParseTarget; an authoring manifest is refused with what to do with it.
StoreResult<Target> FindTarget(const std::string& text, const std::string& program);
// From this machine, else (unless `local_only`) from the hub or registry. Refreshes what is here when asked to.
StoreResult<FoundPackage> FindPackage(Store& store, const ServeRequest& request, Reporter& reporter,
                                      std::stop_token stop);

// What native servers of the package are called by.
std::string NativeNameOf(const FoundPackage& found);
// The package of a target that should be here, for stop, logs and profiles.
StoreResult<FoundPackage> FindInstalled(Store& store, const std::string& text);

// A container and how it is started.
struct ContainerPlan {
  const WireContainer* container = nullptr;
  std::string name;
  DockerRunInput input;
};
// Profile, names and folders; no devices, no port, no look at the engine.
StoreResult<ContainerPlan> PlanContainer(const LaunchSettings& settings, const LocalPackage& package,
                                         const std::optional<std::string>& profile);
// Its folders without links, which a container could not follow; parts that are not there yet stay as they are.
Status ResolveFolders(DockerRunInput& input);
// As many devices as the profile wants, free ones or those asked for.
StoreResult<DeviceGrant> GrantDevices(const ContainerEngine& engine, const LocalPackage& package,
                                      const ServeProfile& profile, const std::string& asked,
                                      const std::filesystem::path& host_root);

StoreResult<ServeReport> ServeInContainer(const LaunchSettings& settings, Store& store, FoundPackage found,
                                          const ServeRequest& request, Reporter& reporter, std::stop_token stop);

// The words of a native server, program first.
std::vector<std::string> NativeWords(const LaunchSettings& settings, const NativePackage& native,
                                     const std::filesystem::path& weights, int port,
                                     const std::vector<std::string>& arguments);
StoreResult<ServeReport> ServeNatively(const LaunchSettings& settings, Store& store, const NativeServers& natives,
                                       FoundPackage found, const ServeRequest& request, Reporter& reporter,
                                       std::stop_token stop);
// Fetches what a native run needs; returns the folder of the weights.
StoreResult<std::filesystem::path> PrepareNative(Store& store, FoundPackage& found, const ServeRequest& request,
                                                 Reporter& reporter, std::stop_token stop);
// kUsage for a profile, devices or anything else that only a container has.
Status CheckNativeRequest(const ServeRequest& request);

}  // namespace sightline
