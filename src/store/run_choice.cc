#include <fmt/format.h>

#include <array>
#include <system_error>

#include "store/documents.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

// PCI ids: https://pci-ids.ucw.cz/read/PC/1e52
constexpr std::string_view kVendor = "0x1e52";
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kArchitectures{
    {{"0xb140", "blackhole"}, {"0x401e", "wormhole_b0"}, {"0xfaca", "grayskull"}}};

std::string Word(const fs::path& file) {
  std::string text = ReadTextFile(file, 4096).value_or(std::string());
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::string ArchitectureOfDevices(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator at(root / "sys/bus/pci/devices", error), end; !error && at != end; at.increment(error)) {
    if (Word(at->path() / "vendor") != kVendor) continue;
    const std::string device = Word(at->path() / "device");
    for (const auto& [id, name] : kArchitectures) {
      if (device == id) return std::string(name);
    }
  }
  return {};
}

std::string Missing(const WireManifest& manifest, const HostFacts& host) {
  if (NeedsDevices(manifest) && host.chips.empty()) return "there is no Tenstorrent device here";
  if (NeedsDevices(manifest) && std::cmp_less(host.chips.size(), manifest.device_count)) {
    return fmt::format("the package wants {} Tenstorrent devices and {} are here", manifest.device_count,
                       host.chips.size());
  }
  if (!host.engine) return fmt::format("no container engine is usable here ({})", host.engine_problem);
  return {};
}

}  // namespace

HostFacts Store::Host() const {
  HostFacts facts;
  facts.chips = ChipInventory(state_->settings.host_root);
  if (!facts.chips.empty()) facts.arch = ArchitectureOfDevices(state_->settings.host_root);
  const Result<ContainerEngine> engine = Engine();
  const Result<std::string> version =
      engine ? engine->ServerVersion() : Result<std::string>(tl::make_unexpected(engine.error()));
  facts.engine = version.has_value();
  if (!version) facts.engine_problem = version.error().message;
  return facts;
}

StoreResult<RunChoice> ChooseRun(const LocalPackage& package, const HostFacts& host, std::optional<RunMode> asked) {
  const WireManifest& manifest = package.manifest;
  const bool native = package.native.has_value();
  if (asked == RunMode::kNative && !native) {
    const std::string reason = package.native_problem.empty()
                                   ? fmt::format("this program does not know the model of the weights {}",
                                                 manifest.weights ? manifest.weights->repo : "(none)")
                                   : package.native_problem;
    return tl::make_unexpected(StoreError(Code::kUnsupported, {fmt::format("{} cannot run natively", manifest.name),
                                                               fmt::format("{}: {}", manifest.name, reason),
                                                               {},
                                                               {"run it in its container, without --native"}}));
  }
  const bool has_image = manifest.container && !manifest.container->image.tag.empty();
  if (asked == RunMode::kContainer && !has_image) {
    return tl::make_unexpected(StoreError(
        Code::kUnsupported, {fmt::format("{} has no image", manifest.name),
                             fmt::format("{} comes without a container image", manifest.name),
                             {},
                             {"run it natively, without --container", "sightline package " + manifest.name}}));
  }
  if (asked) return RunChoice{*asked, {}};
  if (!native) return RunChoice{};
  if (!has_image) return RunChoice{RunMode::kNative, {}};
  const std::string missing = Missing(manifest, host);
  if (missing.empty()) return RunChoice{};
  return RunChoice{RunMode::kNative,
                   fmt::format("{} runs natively on the CPU, without its image: {}", manifest.name, missing)};
}

Result<std::optional<NativePackage>> NativeForm(const WireManifest& manifest, const fs::path& manifest_file) {
  std::error_code error;
  const fs::path own = manifest_file.parent_path() / kNativeManifestName;
  if (fs::exists(own, error)) {
    SIGHTLINE_ASSIGN_OR_RETURN(NativePackage native, NativePackage::Load(own));
    return native;
  }
  const BuiltInPackage* built_in = manifest.weights ? FindPackageByWeights(manifest.weights->repo) : nullptr;
  if (built_in == nullptr) return std::nullopt;
  NativePackage native = built_in->native;
  if (manifest.weights->revision) native.weights.revision = manifest.weights->revision;
  return native;
}

}  // namespace sightline
