#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "launch/launch.h"

namespace sightline {
namespace {

// The link, not what it names, where the file was replaced since: it still opens this very program.
std::filesystem::path ThisProgram() {
  const std::filesystem::path link = "/proc/self/exe";
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink(link, error);
  return error || program.string().ends_with(" (deleted)") ? link : program;
}

Result<std::filesystem::path> HuggingFaceHome() {
  const std::string own = EnvironmentVariable("HF_HOME"), home = EnvironmentVariable("HOME");
  if (!own.empty()) {
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(own, error);
    return error ? std::filesystem::path(own) : absolute;
  }
  if (home.empty()) return Fail(Code::kUsage, "neither HF_HOME nor HOME is set: there is no place for weights");
  return std::filesystem::path(home) / ".cache" / "huggingface";
}

}  // namespace

Result<LaunchSettings> LaunchSettingsFromEnvironment() {
  LaunchSettings settings;
  SIGHTLINE_ASSIGN_OR_RETURN(settings.store, StoreSettingsFromEnvironment());
  SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path cache, CacheFolder());
  SIGHTLINE_ASSIGN_OR_RETURN(settings.hf_home, HuggingFaceHome());
  settings.servers = cache / "servers";
  settings.program = ThisProgram();
  settings.token_is_set = !EnvironmentVariable("HF_TOKEN").empty();
  settings.user = ::getuid();
  settings.group = ::getgid();
  return settings;
}

Result<std::chrono::seconds> ReadyTimeoutFromEnvironment() {
  constexpr std::chrono::hours kDefault{4};
  std::string name = "TT_MODEL_READY_TIMEOUT", text = EnvironmentVariable(name.c_str());
  if (text.empty()) text = EnvironmentVariable((name = "TT_KERNEL_READY_TIMEOUT").c_str());
  if (text.empty()) return kDefault;
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr int64_t kMost = 31'536'000;  // a year
  if (error != std::errc() || end != text.data() + text.size() || seconds <= 0 || seconds > kMost) {
    return Fail(Code::kUsage, fmt::format("{} is '{}', expected a whole number of seconds above 0", name, text));
  }
  return std::chrono::seconds(seconds);
}

}  // namespace sightline
