#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "launch/launcher_state.h"

namespace sightline {
namespace {

// Of a log line, what stands behind its time and level.
std::string Sentence(const std::string& line) {
  constexpr std::string_view kProgram = "sightline: ";
  if (line.starts_with(kProgram)) return line.substr(kProgram.size());
  const size_t time = line.find("Z ");
  const size_t level = time == std::string::npos ? time : line.find_first_not_of(' ', time + 2);
  const size_t text = level == std::string::npos ? level : line.find(' ', level);
  return text == std::string::npos ? line : line.substr(line.find_first_not_of(' ', text));
}

// The line that says why: the last one that the program meant as an error.
std::string Evidence(const std::vector<std::string>& lines) {
  const auto is_error = [](const std::string& line) {
    return line.starts_with("sightline: ") || line.find("Z error ") != std::string::npos;
  };
  const auto found = std::find_if(lines.rbegin(), lines.rend(), is_error);
  if (found != lines.rend()) return Sentence(*found);
  return lines.empty() ? "" : lines.back();
}

// "packing weights for this processor: 42 %" gives 42.
std::optional<uint64_t> PercentOf(const std::string& line) {
  if (line.find("packing weights") == std::string::npos || !line.ends_with(" %")) return std::nullopt;
  const size_t begin = line.rfind(' ', line.size() - 3) + 1;
  uint64_t percent = 0;
  const auto [end, error] = std::from_chars(line.data() + begin, line.data() + line.size(), percent);
  if (error != std::errc() || *end != ' ') return std::nullopt;
  return percent;
}

BootDiagnosis Diagnose(const NativeEnd& end, const ServeReport& report, const ServeRequest& request,
                       const std::string& program) {
  BootDiagnosis diagnosis;
  constexpr size_t kShown = 8;
  const size_t left_out = end.last_lines.size() > kShown ? end.last_lines.size() - kShown : 0;
  diagnosis.last_lines.assign(end.last_lines.begin() + static_cast<std::ptrdiff_t>(left_out), end.last_lines.end());
  if (end.kind == BootEndKind::kDeadline) {
    diagnosis.failure = BootFailure::kNotReady;
    diagnosis.title = report.name + " — did not report ready";
    diagnosis.detail = fmt::format("The server did not report ready within {} s.", request.ready_timeout.count());
    diagnosis.consequence = "The server is still running and may become ready yet.";
    diagnosis.actions = {fmt::format("{} logs {} --follow", program, request.target),
                         fmt::format("{} stop {}", program, request.target),
                         "TT_MODEL_READY_TIMEOUT=SECONDS allows more time"};
    return diagnosis;
  }
  constexpr int kUsageExit = 2;
  diagnosis.evidence = Evidence(end.last_lines);
  diagnosis.consequence = "The server has stopped; nothing is being served.";
  if (end.exit_code == kUsageExit && !request.arguments.empty()) {
    diagnosis.failure = BootFailure::kFlagRejected;
    diagnosis.title = fmt::format("{} — the server does not take {}", report.name, fmt::join(request.arguments, " "));
    diagnosis.detail = "What serve does not know is passed on to the server, which refused it.";
    diagnosis.actions = {fmt::format("sightline help serve lists what the server takes"),
                         fmt::format("{} serve {} again without it", program, request.target)};
    return diagnosis;
  }
  diagnosis.title = report.name + " — the server exited while starting";
  diagnosis.detail = fmt::format("It ended with exit code {}.", end.exit_code);
  diagnosis.actions = {fmt::format("read the whole log: {}", report.log.string()),
                       fmt::format("{} serve {} to try again", program, request.target)};
  return diagnosis;
}

StoreError AlreadyRunning(const NativeServer& server, const std::string& program) {
  return StoreError(Code::kBusy, {"already running",
                                  fmt::format("{} is already running, as process {} on port {}", server.target,
                                              server.process.pid, server.port),
                                  {},
                                  {fmt::format("{} stop {}", program, server.target)}});
}

}  // namespace

Status CheckNativeRequest(const ServeRequest& request) {
  if (request.profile && *request.profile != kNativeProfile) {
    return Fail(Code::kNotFound, fmt::format("there is no profile '{}' of a native server, available: {}",
                                             *request.profile, kNativeProfile));
  }
  if (!request.devices.empty()) {
    return Fail(Code::kUsage, "--device-id is given, and the package runs natively on the CPU");
  }
  return {};
}

std::vector<std::string> NativeWords(const LaunchSettings& settings, const NativePackage& native,
                                     const std::filesystem::path& weights, int port,
                                     const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {settings.program.string(), "serve",  native.model,        "--weights",
                                    weights.string(),          "--port", std::to_string(port)};
  const std::vector<std::string> options = native.ServeOptions();
  words.insert(words.end(), options.begin(), options.end());
  // Behind ours: of an option given twice the last value counts.
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

StoreResult<std::filesystem::path> PrepareNative(Store& store, FoundPackage& found, const ServeRequest& request,
                                                 Reporter& reporter, std::stop_token stop) {
  if (!found.installed) {
    PullOptions options;
    options.mode = RunMode::kNative;
    options.license = request.license;
    SIGHTLINE_ASSIGN_OR_RETURN(PullReport pulled, store.Pull(found.target, options, &reporter, stop));
    found.package = std::move(pulled.package);
    found.installed = true;
  }
  WeightsRequest weights;
  weights.weights = {found.package.native->weights};
  const bool local = request.no_weights || request.local_only;
  weights.access = local ? WeightsAccess::kLocalOnly : WeightsAccess::kFetch;
  weights.required = true;
  weights.license = request.license;
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<WeightsState> states, store.EnsureWeights(weights, &reporter, stop));
  return states.front().folder;
}

StoreResult<ServeReport> ServeNatively(const LaunchSettings& settings, Store& store, const NativeServers& natives,
                                       FoundPackage found, const ServeRequest& request, Reporter& reporter,
                                       std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckNativeRequest(request));
  const std::string name = NativeNameOf(found), program = settings.store.program;
  if (const auto running = natives.Find(name)) return tl::make_unexpected(AlreadyRunning(*running, program));
  SIGHTLINE_RETURN_IF_ERROR(PickPort(request.port));  // seen before gigabytes are fetched for nothing
  SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path weights, PrepareNative(store, found, request, reporter, stop));
  SIGHTLINE_ASSIGN_OR_RETURN(const int port, PickPort(request.port));
  if (!request.port && port != kDefaultPort) {
    reporter.OnNote(fmt::format("port {} is taken: serving on {}", kDefaultPort, port));
  }
  NativeServer server;
  {
    Step step(reporter, "server", "starting the server");
    server = {name, request.target, found.package.native->model, port, 0, {}, {}};
    std::vector<std::string> words = NativeWords(settings, *found.package.native, weights, port, request.arguments);
    words.insert(words.begin() + 3, {"--log-file", natives.LogOf(name).string()});
    SIGHTLINE_ASSIGN_OR_RETURN(server, natives.Start(std::move(server), words));
    step.DoneAs("server started", fmt::format("process {} on the CPU", server.process.pid));
  }
  ServeReport report{ServeEnd::kDetached,
                     RunMode::kNative,
                     name,
                     request.target,
                     kNativeProfile,
                     false,
                     port,
                     fmt::format("http://127.0.0.1:{}", port),
                     server.log,
                     {},
                     {}};
  if (request.detach) return report;

  const auto begun = std::chrono::steady_clock::now();
  Step step(reporter, "boot", "loading weights");
  const NativeEnd end = natives.WaitUntilReady(
      server, request.ready_timeout,
      [&](const std::string& line) {
        constexpr uint64_t kAll = 100;
        if (const auto percent = PercentOf(line)) {
          reporter.OnProgress({"boot", *percent, kAll, ProgressUnit::kCount, *percent});
        }
      },
      stop);
  report.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
  if (end.kind == BootEndKind::kReady) {
    step.DoneAs("weights loaded");
    report.end = ServeEnd::kReady;
  } else if (end.kind == BootEndKind::kCancelled) {
    report.end = ServeEnd::kInterrupted;
  } else {
    report.end = ServeEnd::kNotReady;
    report.diagnosis = Diagnose(end, report, request, program);
  }
  return report;
}

}  // namespace sightline
