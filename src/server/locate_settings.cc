#include "server/locate_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace sightline {
namespace {

constexpr int64_t kContext = 32'768;  // of the language model
// What only means something on the device of the published server: names, and how they begin.
constexpr std::string_view kDeviceOnly[] = {"LA_PREC", "LA_TRACE", "LA_TRACE_REGION_SIZE", "MESH_DEVICE"};
constexpr std::string_view kDeviceOnlyPrefixes[] = {"LA_FUSED_", "TT_"};

// Empty where it is not set.
std::string ValueOf(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// The option where it is given, else the variable, else `otherwise`.
template <typename T>
Result<T> Whole(std::optional<T> option, const Environment& environment, const char* name, int64_t least, int64_t most,
                T otherwise) {
  if (option) return *option;
  const std::string text = ValueOf(environment, name);
  if (text.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) {
    return static_cast<T>(value);
  }
  return Fail(Code::kUsage, fmt::format("{} is '{}', expected a whole number from {} to {}", name, text, least, most));
}

// The grid that a picture of this aspect gets.
PatchGrid GridOfAspect(int width, int height, int64_t token_limit) {
  const RescalePlan plan = PlanRescale(width, height, token_limit);
  return {plan.height / kPatchSize, plan.width / kPatchSize};
}

Result<PatchGrid> GridOfAspectText(const std::string& text, int64_t token_limit) {
  const auto sides = ParseSides(text);  // width x height
  const PatchGrid grid =
      sides ? GridOfAspect(sides->first, sides->second, token_limit) : PatchGrid{kMaxGridSide, kMaxGridSide};
  if (grid.height < kMaxGridSide && grid.width < kMaxGridSide) return grid;
  return Fail(Code::kUsage, fmt::format("LA_CANON_ASPECT is '{}', expected width x height as in 1920x1080", text));
}

// --grid, LA_CANON_GRID, or what LA_CANON_ASPECT comes to.
Result<std::optional<PatchGrid>> CanonicalGrid(const LocateServerOptions& options, const Environment& environment,
                                               int64_t token_limit) {
  const std::string variable = ValueOf(environment, "LA_CANON_GRID");
  const std::string aspect = ValueOf(environment, "LA_CANON_ASPECT");
  if (!options.grid.empty() || !variable.empty()) {
    const bool option = !options.grid.empty();
    auto grid = ParseGrid(option ? options.grid : variable, option ? "--grid" : "LA_CANON_GRID");
    if (!grid) return Fail(Code::kUsage, grid.error().message);
    return *grid;
  }
  return GridOfAspectText(aspect.empty() ? "1920x1080" : aspect, token_limit);
}

void ChooseWeights(const LocateServerOptions& options, const Environment& environment, LocateSettings* settings) {
  settings->weights = options.weights;
  if (!options.weights.folder.empty() || !options.weights.synthetic.empty()) return;
  settings->weights.folder = ValueOf(environment, "LA_WEIGHTS_DIR");
  if (settings->weights.folder.empty()) settings->weights.folder = ValueOf(environment, "LA_MODEL_PATH");
}

bool IsDeviceOnly(std::string_view name) {
  return std::ranges::find(kDeviceOnly, name) != std::end(kDeviceOnly) ||
         std::ranges::any_of(kDeviceOnlyPrefixes, [name](std::string_view start) { return name.starts_with(start); });
}

std::vector<std::string> Notes(const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) {
    if (IsDeviceOnly(name)) names.push_back(name);
  }
  if (names.empty()) return {};
  return {fmt::format("without effect on a CPU: {}", fmt::join(names, ", "))};
}

}  // namespace

Environment ReadEnvironment() {
  Environment variables;
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Result<LocateSettings> ResolveLocateSettings(const LocateServerOptions& options, const Environment& environment) {
  LocateSettings settings;
  LocateLimits& limits = settings.limits;
  limits.max_token_limit = options.engine.max_token_limit;
  SIGHTLINE_ASSIGN_OR_RETURN(
      limits.scaling.token_limit,
      Whole<int64_t>(options.token_limit, environment, "LA_IN_TOKEN_LIMIT", 4, limits.max_token_limit, 1024));
  SIGHTLINE_ASSIGN_OR_RETURN(limits.scaling.grid, CanonicalGrid(options, environment, limits.scaling.token_limit));
  SIGHTLINE_ASSIGN_OR_RETURN(settings.max_sequence, Whole<int64_t>(options.max_sequence, environment, "LA_MAX_SEQ_LEN",
                                                                   128, kContext, settings.max_sequence));
  SIGHTLINE_ASSIGN_OR_RETURN(limits.max_new_tokens_cap,
                             Whole<int64_t>(options.max_new_tokens_cap, environment, "LA_MAX_NEW_TOKENS_CAP", 1,
                                            kContext, limits.max_new_tokens_cap));
  SIGHTLINE_ASSIGN_OR_RETURN(limits.max_new_tokens,
                             Whole<int64_t>(options.max_new_tokens, environment, "LA_MAX_NEW_TOKENS", 1, kContext,
                                            std::min<int64_t>(limits.max_new_tokens, limits.max_new_tokens_cap)));
  if (limits.max_new_tokens > limits.max_new_tokens_cap) {
    return Fail(Code::kUsage, fmt::format("max_new_tokens is {} by default, but {} at most", limits.max_new_tokens,
                                          limits.max_new_tokens_cap));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(settings.warmup_runs, Whole<int>(options.warmup_runs, environment, "LA_WARMUP_RUNS", 0,
                                                              100, settings.warmup_runs));
  ChooseWeights(options, environment, &settings);
  settings.language_folder = ValueOf(environment, "LA_LLM_DIR");
  const std::string again = ValueOf(environment, "LA_FORCE_EXTRACT");
  settings.extract_again = !again.empty() && again != "0";
  if (settings.extract_again && settings.language_folder.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path cache, CacheFolder());
    settings.language_folder = cache / "la-qwen2_5-3b";  // as the published server calls it
  }
  settings.notes = Notes(environment);
  return settings;
}

}  // namespace sightline
