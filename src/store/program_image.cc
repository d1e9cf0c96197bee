#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "store/documents.h"
#include "store/reporting.h"
#include "store/result_folder.h"
#include "store/scratch_folder.h"
#include "store/state.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr char kProgramInside[] = "/opt/sightline/bin/sightline";
constexpr char kLibrariesInside[] = "/opt/sightline/lib";

constexpr char kUnknownId[] = "000000000000";

// What a program needs to be started.
struct Needs {
  fs::path interpreter;             // as the program names it
  std::vector<fs::path> libraries;  // files as the loader found them
};

// "libz.so.1 => /lib/libz.so.1 (0x...)", "/lib64/ld-linux-x86-64.so.2 (0x...)", "linux-vdso.so.1 (0x...)"
Result<Needs> ParseLdd(const std::string& text, const fs::path& program) {
  Needs needs;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.find("not found") != std::string::npos) {
      return Fail(Code::kNotFound, fmt::format("{} cannot be started here: {}", program.string(), line));
    }
    const size_t arrow = line.find(" => ");
    const std::string file = arrow == std::string::npos ? line : line.substr(arrow + 4);
    if (!file.starts_with('/')) continue;
    const fs::path path = file.substr(0, file.find(" ("));
    if (arrow == std::string::npos) {
      needs.interpreter = path;
    } else {
      needs.libraries.push_back(path);
    }
  }
  if (needs.interpreter.empty()) {
    return Fail(Code::kUnsupported, fmt::format("{} names no loader, expected a dynamic program", program.string()));
  }
  std::sort(needs.libraries.begin(), needs.libraries.end());
  return needs;
}

Result<Needs> FindNeeds(const fs::path& program) {
  SIGHTLINE_ASSIGN_OR_RETURN(const ProcessOutput output, RunProcess({{"ldd", program.string()}, {{"LC_ALL", "C"}}}));
  if (output.exit_code != 0) {
    return Fail(Code::kUnsupported, fmt::format("ldd cannot read {}: {}{}", program.string(), output.standard_error,
                                                output.standard_output));
  }
  return ParseLdd(output.standard_output, program);
}

Status CopyLibraries(const Needs& needs, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  for (const fs::path& library : needs.libraries) {
    fs::copy_file(fs::canonical(library, error), folder / library.filename(), fs::copy_options::overwrite_existing,
                  error);
    if (error) return tl::make_unexpected(ErrnoError("copy", library, error.value()));
  }
  return {};
}

// The name of an image holds its digest, which is known only when it is written. No digest covers the two files that
// hold the name.
Result<std::string> NameAfterDigest(const fs::path& layout, const std::string& name, const std::string& digest) {
  const std::string reference = FinalTag(name, digest), id = reference.substr(reference.rfind(':') + 1);
  for (const char* file : {"index.json", "manifest.json"}) {
    SIGHTLINE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(layout / file));
    for (const char* before : {":", "\""}) {
      const std::string from = std::string(before) + kUnknownId + "\"", to = before + id + "\"";
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        text.replace(at, from.size(), to);
      }
    }
    SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(layout / file, text));
  }
  return reference;
}

Value ServeWords(const NativePackage& native) {
  std::vector<std::string> words{kProgramInside, "serve", native.model, "--host", "{host}", "--port", "{port}"};
  const std::vector<std::string> options = native.ServeOptions();
  words.insert(words.end(), options.begin(), options.end());
  return TextList(words);
}

Card CardOf(const NativePackage& native) {
  Card card;
  card.description = fmt::format(
      "{} served on the CPU by sightline {}. No device and no Python is needed; the weights "
      "are not in the image.",
      native.model, Version());
  card.performance = "Depends on the processor: `sightline bench` measures it.";
  card.limitations = "x86-64 processors only. Answers are for pictures of people and things, and no judgement of them.";
  card.license = native.license;
  card.base_model = std::vector<std::string>{native.weights.repo};
  return card;
}

WireManifest ManifestOf(const NativePackage& native, const ProgramImageOptions& options) {
  WireManifest wire;
  wire.name = options.package + "-cpu";
  wire.tt_metal_version = "none";
  wire.arch = "x86_64";
  wire.device_count = 0;
  wire.producer = {std::string(Version()), UtcNow(), {}};
  wire.weights = native.weights;
  WireContainer container;
  container.image.repository = wire.name;
  container.kind = "http-server";
  container.runtime.Set("command", ServeWords(native));
  container.runtime.Set("ready_line", TextValue(std::string_view("Application startup complete")));
  ServeProfile profile;
  profile.name = "default";
  profile.port = native.serve.port.value_or(kDefaultPort);
  container.serve_profiles.push_back(std::move(profile));
  container.default_profile = "default";
  container.card = CardOf(native);
  wire.container = std::move(container);
  return wire;
}

OciConfig ConfigOf(const WireManifest& wire, const ProgramImageOptions& options) {
  OciConfig runs;
  runs.user = "1000:1000";
  runs.folder = "/";
  const int port = static_cast<int>(wire.container->serve_profiles.front().port.value_or(kDefaultPort));
  for (std::string word : TextsIn(wire.container->runtime, "command")) {
    if (word == "{host}") word = "0.0.0.0";
    if (word == "{port}") word = std::to_string(port);
    runs.command.push_back(std::move(word));
  }
  runs.environment = {{"PATH", "/opt/sightline/bin"},
                      {"LD_LIBRARY_PATH", kLibrariesInside},
                      {"HOME", "/cache"},
                      {"HF_HOME", "/hf"},
                      {"SIGHTLINE_CACHE", "/cache"},
                      {"LANG", "C.UTF-8"}};
  runs.ports = {port};
  const std::string label(kPackageLabel);
  runs.labels = {
      {label, wire.name},           {label + ".repo", options.repo},         {label + ".weights", wire.weights->repo},
      {label + ".arch", wire.arch}, {label + ".kind", wire.container->kind}, {label + ".profiles", "default"}};
  return runs;
}

Status WriteResult(WireManifest& wire, const BuiltInPackage& built_in, const ProgramImageOptions& options,
                   const OciImage& image, const fs::path& folder) {
  WireContainer& container = *wire.container;
  container.image.tag = image.reference;
  container.image.digest = image.config.digest;
  container.built.Set("image", TextValue(std::string_view(image.reference)));
  if (!options.repo.empty()) container.built.Set("repo", TextValue(std::string_view(options.repo)));
  container.built.Set("tt_model_version", TextValue(Version()));
  container.built.Set("created_at", TextValue(std::string_view(wire.producer.created_at)));
  container.built.Set("image_digest", TextValue(std::string_view(image.config.digest)));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kNativeManifestName, built_in.sightline_yaml));
  SIGHTLINE_RETURN_IF_ERROR(WriteTextFile(folder / kWireManifestName, wire.ToJson()));
  return WriteTextFile(folder / "README.md", GenerateCard(wire));
}

}  // namespace

StoreResult<BuildReport> BuildProgramPackage(const ProgramImageOptions& options, Reporter* reporter,
                                             std::stop_token stop) {
  Reporter& told = OrSilent(reporter);
  const BuiltInPackage* built_in = FindBuiltInPackage(options.package);
  if (built_in == nullptr) {
    return tl::make_unexpected(
        StoreError(Error{Code::kUsage, fmt::format("'{}' is no package of this program", options.package), {}}));
  }
  Step step(told, "build", "writing the image");
  SIGHTLINE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::MakeIn(options.out));
  std::error_code error;
  const fs::path program = fs::canonical(options.program, error);  // /proc/self/exe is another one to ldd
  if (error) return tl::make_unexpected(StoreError(ErrnoError("read", options.program, error.value())));
  SIGHTLINE_ASSIGN_OR_RETURN(const Needs needs, FindNeeds(program));
  SIGHTLINE_RETURN_IF_ERROR(CopyLibraries(needs, scratch.path() / "lib"));
  WireManifest wire = ManifestOf(built_in->native, options);
  OciImageRecipe recipe;
  recipe.layers = {{fs::canonical(needs.interpreter, error), needs.interpreter.string()},
                   {scratch.path() / "lib", kLibrariesInside},
                   {program, kProgramInside}};
  recipe.runs = ConfigOf(wire, options);
  const fs::path result = scratch.path() / "result";
  const TransferOptions transfer = TransferFor(told, "build", std::move(stop));
  recipe.reference = FinalTag(wire.name, kUnknownId);
  SIGHTLINE_ASSIGN_OR_RETURN(OciImage image, WriteOciImage(recipe, result / "image", transfer));
  SIGHTLINE_ASSIGN_OR_RETURN(image.reference, NameAfterDigest(result / "image", wire.name, image.config.digest));
  SIGHTLINE_RETURN_IF_ERROR(WriteResult(wire, *built_in, options, image, result));
  const fs::path target = options.out / wire.name;
  SIGHTLINE_RETURN_IF_ERROR(TakePlace(result, target));
  step.Done(image.reference);
  BuildReport report;
  report.folder = target;
  report.built = true;
  report.image = image.reference;
  report.image_digest = image.config.digest;
  return report;
}

}  // namespace sightline
