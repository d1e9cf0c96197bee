#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "package/kinds.h"
#include "package/package.h"
#include "package/profile_name.h"
#include "package/python_text.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

constexpr char kLabel[] = "org.tenstorrent.tt-model";
constexpr char kDevices[] = "/dev/tenstorrent";
constexpr char kHugePages[] = "type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G";
constexpr char kHomeInside[] = "/hf";
constexpr char kHubInside[] = "/hf-hub";
constexpr char kOneChipGraph[] =
    "/opt/tt-metal/tt_metal/fabric/mesh_graph_descriptors/p150_mesh_graph_descriptor.textproto";

using Words = std::vector<std::string>;
using std::filesystem::path;

std::string Truth(bool value) { return value ? "true" : "false"; }

// Where `hub` lies below `home`; nullopt: outside.
std::optional<path> Below(const path& home, const path& hub) {
  const path relative = hub.lexically_normal().lexically_relative(home.lexically_normal());
  if (relative.empty() || *relative.begin() == ".." || relative == ".") return std::nullopt;
  return relative;
}

// Nothing that the program could take for an option or that a shell would.
bool IsImageReference(std::string_view image) {
  const auto starts = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return !image.empty() && starts(image.front()) && std::all_of(image.begin(), image.end(), [&](char c) {
    return starts(c) || std::string_view("._-/:@").find(c) != std::string_view::npos;
  });
}

class CommandBuilder {
 public:
  CommandBuilder(const DockerRunInput& input, const WireContainer& container)
      : input_(input),
        container_(container),
        image_(input.image.empty() ? container.image.tag : input.image),
        hub_(Below(input.hf_home, input.hub_cache)) {}

  Result<Words> Build() {
    SIGHTLINE_RETURN_IF_ERROR(Check());
    Add({input_.program, "run"});
    words_.insert(words_.end(), input_.run_options.begin(), input_.run_options.end());
    if (input_.detach) Add({"--detach"});
    Add({"--name", ContainerName(input_.manifest->name, input_.profile.name)});
    Add({"--user", fmt::format("{}:{}", input_.user, input_.group)});
    AddLabels();
    AddDevices();
    AddMounts();
    Add({"--publish", fmt::format("{0}:{0}", input_.port)});
    if (!hub_) AddVolume(input_.hub_cache, kHubInside, "HF_HUB_CACHE");
    if (input_.token_is_set) Add({"--env", "HF_TOKEN"});
    return Finish();
  }

 private:
  void Add(std::initializer_list<std::string> words) { words_.insert(words_.end(), words); }
  void AddLabel(std::string_view name, std::string_view value) { Add({"--label", fmt::format("{}={}", name, value)}); }
  void AddVolume(const path& from, const std::string& to, const std::string& variable) {
    Add({"--volume", fmt::format("{}:{}", from.string(), to), "--env", fmt::format("{}={}", variable, to)});
  }
  Status Check() const;
  void AddLabels();
  void AddDevices();
  void AddMounts();
  Result<std::map<std::string, std::string>> Environment(const ServeProfile& profile) const;
  void AddWeightsPin(std::map<std::string, std::string>& environment) const;
  Result<Words> Finish();

  const DockerRunInput& input_;
  const WireContainer& container_;
  const std::string image_;
  const std::optional<path> hub_;  // the hub's cache below the home; none: a mount of its own
  Words words_;
};

Status CommandBuilder::Check() const {
  SIGHTLINE_RETURN_IF_ERROR(CheckSlug(input_.manifest->name));
  if (!IsProfileName(input_.profile.name)) {
    return Fail(Code::kInvalidRequest, fmt::format("serve profile {} has a name that no container can have",
                                                   PythonQuote(input_.profile.name)));
  }
  if (!IsImageReference(image_)) {
    return Fail(Code::kInvalidRequest, fmt::format("image {} is no name of an image", PythonQuote(image_)));
  }
  for (const path& folder : {input_.hf_home, input_.hub_cache, input_.cache_folder}) {
    // docker splits a volume at colons and knows no way around it.
    if (folder.is_absolute() && folder.string().find(':') == std::string::npos) continue;
    return Fail(Code::kUsage,
                fmt::format("folder {} cannot be mounted, expected an absolute path without a colon", folder.string()));
  }
  if (input_.devices.kind == DeviceGrant::Kind::kChips && input_.devices.chips.empty()) {
    return Fail(Code::kInvalidRequest, "a container is granted no chip, expected at least one");
  }
  return {};
}

void CommandBuilder::AddLabels() {
  AddLabel(kLabel, input_.manifest->name);
  AddLabel(fmt::format("{}.profile", kLabel), input_.profile.name);
  const auto& capabilities = input_.profile.capabilities;
  const bool speaks = SpeaksOpenAi(container_.kind);
  AddLabel("tt.model.kind", container_.kind);
  AddLabel("tt.model.openai_compatible", Truth(speaks));
  AddLabel("tt.model.tool_calling", Truth(capabilities && !capabilities->tool_parser.value_or("").empty()));
  AddLabel("tt.model.reasoning", Truth(capabilities && !capabilities->reasoning_parser.value_or("").empty()));
  AddLabel("tt.model.port", std::to_string(input_.port));
  AddLabel("tt.model.manifest_schema", input_.manifest->schema_version);
}

void CommandBuilder::AddDevices() {
  if (input_.devices.kind == DeviceGrant::Kind::kNone) return;
  if (input_.devices.kind == DeviceGrant::Kind::kAll) {
    Add({"--device", kDevices});
  } else {
    AddLabel(fmt::format("{}.devices", kLabel), fmt::format("{}", fmt::join(input_.devices.chips, ",")));
    for (const int chip : input_.devices.chips) Add({"--device", fmt::format("{0}/{1}:{0}/{1}", kDevices, chip)});
  }
  Add({"--ipc", "host", "--mount", kHugePages});
}

void CommandBuilder::AddMounts() {
  AddVolume(input_.hf_home, kHomeInside, "HF_HOME");
  AddVolume(input_.cache_folder / "cache", "/cache", "TT_METAL_CACHE");
  AddVolume(input_.cache_folder / "weights", "/weight-cache", "TT_DIT_CACHE_DIR");
  AddVolume(input_.cache_folder / "tensors", "/tensor-cache", "TT_CACHE_PATH");
}

void CommandBuilder::AddWeightsPin(std::map<std::string, std::string>& environment) const {
  const auto& weights = input_.manifest->weights;
  if (!weights || !weights->revision || weights->repo_type != "model") return;
  const size_t slash = weights->repo.find('/');
  if (environment["HF_MODEL"] == weights->repo && slash != std::string::npos) {
    const std::string folder = weights->repo.substr(0, slash) + "--" + weights->repo.substr(slash + 1);
    const path hub = hub_ ? path(kHomeInside) / *hub_ : path(kHubInside);
    environment["HF_MODEL"] = (hub / ("models--" + folder) / "snapshots" / *weights->revision).string();
  }
  if (SpeaksOpenAi(container_.kind)) return;
  environment.try_emplace("TT_MODEL_WEIGHTS_REVISION", *weights->revision);
  environment.try_emplace("TT_WEIGHTS_REVISION", *weights->revision);
}

Result<std::map<std::string, std::string>> CommandBuilder::Environment(const ServeProfile& profile) const {
  SIGHTLINE_ASSIGN_OR_RETURN(auto environment, ServeEnvironment(*input_.manifest, profile));
  AddWeightsPin(environment);
  if (input_.devices.kind == DeviceGrant::Kind::kChips && input_.devices.chips.size() == 1) {
    environment.try_emplace("TT_MESH_GRAPH_DESC_PATH", kOneChipGraph);
  }
  return environment;
}

Result<Words> CommandBuilder::Finish() {
  ServeProfile profile = input_.profile;
  profile.port = input_.port;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto environment, Environment(profile));
  for (const auto& [name, value] : environment) Add({"--env", fmt::format("{}={}", name, value)});
  words_.push_back(image_);
  SIGHTLINE_ASSIGN_OR_RETURN(const Words command, ServeCommand(*input_.manifest, profile));
  words_.insert(words_.end(), command.begin(), command.end());
  words_.insert(words_.end(), input_.arguments.begin(), input_.arguments.end());
  return words_;
}

}  // namespace

Result<std::vector<std::string>> DockerRunCommand(const DockerRunInput& input) {
  SIGHTLINE_CHECK(input.manifest != nullptr);
  SIGHTLINE_ASSIGN_OR_RETURN(const WireContainer* container, input.manifest->RequireContainer());
  return CommandBuilder(input, *container).Build();
}

}  // namespace sightline
