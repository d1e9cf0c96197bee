#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "package/card_fields.h"
#include "package/document_limits.h"
#include "package/fields.h"
#include "package/manifest_reading.h"
#include "package/python_text.h"
#include "package/resolve_profile.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

const std::vector<std::string> kSchemas = {"5", "5.1", "6"};

Value Text(std::string text) { return Value{std::move(text)}; }

Value WeightsValue(const WeightsPointer& weights) {
  Value map{Value::Map{}};
  map.Set("repo_id", Text(weights.repo));
  map.Set("revision", TextOrNull(weights.revision));
  map.Set("allow_patterns", TextsOrNull(weights.allow_patterns));
  map.Set("ignore_patterns", TextsOrNull(weights.ignore_patterns));
  map.Set("repo_type", Text(weights.repo_type));
  return map;
}

Value ImageValue(const WireImage& image) {
  Value map{Value::Map{}};
  map.Set("registry", Text(image.registry));
  map.Set("repository", TextOrNull(image.repository));
  map.Set("tag", Text(image.tag));
  map.Set("digest", TextOrNull(image.digest));
  return map;
}

Value ContainerValue(const WireContainer& container) {
  Value map{Value::Map{}};
  map.Set("image", ImageValue(container.image));
  map.Set("kind", Text(container.kind));
  map.Set("runtime", container.runtime);
  map.Set("serve", ToValue(container.serve));
  Value::List profiles;
  for (const ServeProfile& profile : container.serve_profiles) profiles.push_back(ToValue(profile));
  map.Set("serve_profiles", Value{std::move(profiles)});
  map.Set("default_profile", TextOrNull(container.default_profile));
  map.Set("code_dir", TextOrNull(container.code_dir));
  map.Set("verify", ToValue(container.verify));
  map.Set("built", container.built);
  map.Set("card", container.card ? ToValue(*container.card) : Value{});
  return map;
}

Value ProducerValue(const WireProducer& producer) {
  Value map{Value::Map{}};
  map.Set("tt_kernel_version", Text(producer.tt_kernel_version));
  map.Set("created_at", Text(producer.created_at));
  map.Set("hostname", TextOrNull(producer.hostname));
  return map;
}

WeightsPointer ReadWeights(const Value& value, const std::string& path, ProblemList& problems) {
  FieldReader fields(value, path, problems, UnknownKeys::kIgnored);
  WeightsPointer weights;
  const auto repo = fields.Text("repo");
  const auto repo_id = fields.Text("repo_id");
  weights.repo = repo ? *repo : repo_id.value_or("");
  if (!IsRepositoryId(weights.repo) && fields.is_map()) {
    fields.Complain(
        "repo_id", &value,
        fmt::format("{}.repo_id must be a namespaced HF id (org/name), got {}", path, PythonQuote(weights.repo)));
  }
  weights.revision = fields.Text("revision");
  if (weights.revision && !IsSafeRevision(*weights.revision)) {
    fields.Complain("revision", &value,
                    fmt::format("{}.revision {} is no branch, tag or commit", path, PythonQuote(*weights.revision)));
  }
  weights.allow_patterns = fields.Texts("allow_patterns");
  weights.ignore_patterns = fields.Texts("ignore_patterns");
  weights.repo_type = fields.Text("repo_type").value_or("model");
  return weights;
}

WireImage ReadImage(const Value& value, ProblemList& problems) {
  FieldReader fields(value, "container.image", problems, UnknownKeys::kIgnored);
  WireImage image;
  image.registry = fields.Text("registry").value_or("hf");
  image.repository = fields.Text("repository");
  image.tag = fields.RequiredText("tag");
  image.digest = fields.Text("digest");
  return image;
}

WireContainer ReadContainer(const Value& value, ProblemList& problems) {
  FieldReader fields(value, "container", problems, UnknownKeys::kIgnored);
  WireContainer container;
  if (const Value* image = fields.RequiredMember("image")) container.image = ReadImage(*image, problems);
  container.kind = fields.Text("kind").value_or("vllm-plugin");
  container.runtime = fields.Map("runtime");
  if (const Value* serve = fields.Member("serve")) {
    container.serve = ReadServeSettings(*serve, "container.serve", problems);
  }
  const Value::List& profiles = fields.List("serve_profiles");
  for (size_t i = 0; i < profiles.size(); ++i) {
    const std::string path = PathOfItem("container.serve_profiles", i);
    container.serve_profiles.push_back(ReadServeProfile(profiles[i], path, problems));
  }
  container.default_profile = fields.Text("default_profile");
  container.code_dir = fields.Text("code_dir");
  container.verify = fields.Texts("verify").value_or(std::vector<std::string>());
  container.built = fields.Map("built");
  if (const Value* card = fields.Member("card")) {
    container.card = ReadCard(*card, "container.card", CardSource::kWire, problems);
  }
  return container;
}

// Blocks of other schemas, as they stand; null where absent.
Value Keep(FieldReader& fields, std::string_view key) {
  const Value* found = fields.Member(key);
  return found ? *found : Value{};
}

WireProducer ReadProducer(const Value& value, ProblemList& problems) {
  FieldReader fields(value, "producer", problems, UnknownKeys::kIgnored);
  WireProducer producer;
  producer.tt_kernel_version = fields.RequiredText("tt_kernel_version");
  producer.created_at = fields.RequiredText("created_at");
  producer.hostname = fields.Text("hostname");
  return producer;
}

void ReadAllWeights(FieldReader& fields, ProblemList& problems, WireManifest& manifest) {
  if (const Value* weights = fields.Member("weights")) manifest.weights = ReadWeights(*weights, "weights", problems);
  const Value::List& auxiliary = fields.List("auxiliary_weights");
  for (size_t i = 0; i < auxiliary.size(); ++i) {
    manifest.auxiliary_weights.push_back(ReadWeights(auxiliary[i], PathOfItem("auxiliary_weights", i), problems));
  }
}

}  // namespace

WireManifest ReadWireManifest(const Value& root, ProblemList& problems) {
  FieldReader fields(root, "", problems, UnknownKeys::kIgnored);
  WireManifest manifest;
  manifest.schema_version = fields.Text("schema_version").value_or("5");
  if (std::find(kSchemas.begin(), kSchemas.end(), manifest.schema_version) == kSchemas.end()) {
    fields.Complain("schema_version", nullptr,
                    fmt::format("Unsupported bundle schema_version {}, expected one of {}; re-publish it with a "
                                "current tt-model",
                                PythonQuote(manifest.schema_version), fmt::join(kSchemas, ", ")));
  }
  manifest.name = fields.RequiredText("name");
  const auto slug = CheckSlug(manifest.name);
  if (!slug && !problems.Holds("name")) fields.Complain("name", root.Find("name"), slug.error().message);
  manifest.tt_metal_version = fields.RequiredText("tt_metal_version");
  manifest.arch = fields.RequiredText("arch");
  manifest.device_count = fields.Whole("device_count").value_or(1);
  if (const Value* producer = fields.RequiredMember("producer")) manifest.producer = ReadProducer(*producer, problems);
  ReadAllWeights(fields, problems, manifest);
  manifest.mesh = Keep(fields, "mesh");
  manifest.entrypoint = Keep(fields, "entrypoint");
  manifest.resources = Keep(fields, "resources");
  manifest.capabilities = Keep(fields, "capabilities");
  manifest.env = fields.Environment("env");
  manifest.bundled = Keep(fields, "bundled");
  manifest.deps = Keep(fields, "deps");
  if (const Value* container = fields.Member("container")) manifest.container = ReadContainer(*container, problems);
  return manifest;
}

Result<WireManifest> WireManifest::Parse(std::string_view text, const std::string& name) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Value root, ParseJson(text, name));
  ProblemList problems;
  WireManifest manifest = ReadWireManifest(root, problems);
  if (!problems.all().empty()) return tl::make_unexpected(ErrorOf(problems.all().front(), name));
  return manifest;
}

Result<WireManifest> WireManifest::Load(const std::filesystem::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto bytes, ReadFile(path, kMostJsonBytes));
  return Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

std::string WireManifest::ToJson() const {
  Value map{Value::Map{}};
  map.Set("schema_version", Text(schema_version));
  map.Set("name", Text(name));
  map.Set("tt_metal_version", Text(tt_metal_version));
  map.Set("arch", Text(arch));
  map.Set("device_count", Value{device_count});
  map.Set("producer", ProducerValue(producer));
  map.Set("weights", weights ? WeightsValue(*weights) : Value{});
  Value::List auxiliary;
  for (const WeightsPointer& pointer : auxiliary_weights) auxiliary.push_back(WeightsValue(pointer));
  map.Set("auxiliary_weights", Value{std::move(auxiliary)});
  map.Set("mesh", mesh);
  map.Set("entrypoint", entrypoint);
  map.Set("resources", resources);
  map.Set("capabilities", capabilities);
  map.Set("env", ToValue(env));
  map.Set("bundled", bundled);
  map.Set("deps", deps);
  map.Set("container", container ? ContainerValue(*container) : Value{});
  return sightline::ToJson(map, 2);
}

std::vector<WeightsPointer> WireManifest::AllWeights() const {
  std::vector<WeightsPointer> all;
  if (weights) all.push_back(*weights);
  all.insert(all.end(), auxiliary_weights.begin(), auxiliary_weights.end());
  return all;
}

Result<const WireContainer*> WireManifest::RequireContainer() const {
  if (container) return &*container;
  return Fail(Code::kUnsupported, fmt::format("{} is a package of schema {} without a container, expected one with a "
                                              "container; re-publish it as a container package",
                                              name, schema_version));
}

std::optional<std::string> WireImage::PullReference() const {
  if (IsHubHosted()) return std::nullopt;
  std::string base = registry;
  while (base.ends_with('/')) base.pop_back();
  std::string last = tag.substr(tag.rfind('/') + 1);
  const std::string image = repository.value_or(last.substr(0, last.find(':')));
  if (digest && !digest->empty()) return fmt::format("{}/{}@{}", base, image, *digest);
  return fmt::format("{}/{}:{}", base, image, tag.substr(tag.rfind(':') + 1));
}

std::vector<std::string> WireContainer::ProfileNames() const {
  std::vector<std::string> names;
  for (const ServeProfile& profile : serve_profiles) names.push_back(profile.name);
  return names;
}

Result<std::string> WireContainer::DefaultProfileName() const {
  if (default_profile && !default_profile->empty()) return *default_profile;
  if (!serve_profiles.empty()) return serve_profiles.front().name;
  return Fail(Code::kInvalidRequest, "this package declares no serve profiles; re-publish it");
}

Result<ServeProfile> WireContainer::ResolveProfile(const std::optional<std::string>& wanted) const {
  std::string chosen = wanted.value_or("");
  if (chosen.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(chosen, DefaultProfileName());
  }
  return ResolveAmong(serve, serve_profiles, chosen);
}

WireManifest ToWire(const Manifest& manifest, WireFacts facts) {
  WireManifest wire;
  wire.name = manifest.name;
  wire.tt_metal_version = std::move(facts.tt_metal_version);
  wire.arch = manifest.arch;
  const auto profile = manifest.ResolveProfile();
  const std::string hardware = profile ? profile->hardware.value_or("") : "";
  wire.device_count = ChipsOfHardware(hardware).value_or(1);
  wire.producer = {std::string(Version()), std::move(facts.created_at), std::move(facts.hostname)};
  wire.weights = manifest.weights;
  wire.auxiliary_weights = manifest.auxiliary_weights;
  WireContainer container;
  container.image = {manifest.image_registry, manifest.image_repository.value_or(manifest.name),
                     std::move(facts.image_tag), std::move(facts.image_digest)};
  container.kind = manifest.kind;
  container.runtime = std::move(facts.runtime);
  container.serve = manifest.serve;
  container.serve_profiles = manifest.Profiles();
  container.default_profile = manifest.default_profile;
  container.code_dir = "code";
  container.verify = manifest.verify;
  container.built = std::move(facts.built);
  container.card = manifest.card;
  wire.container = std::move(container);
  return wire;
}

}  // namespace sightline
