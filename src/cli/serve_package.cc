#include "cli/serve_package.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "cli/engine_options.h"
#include "cli/launching.h"
#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sightline {
namespace {

bool IsOneOf(std::string_view argument, std::initializer_list<std::string_view> options) {
  return std::ranges::any_of(options, [argument](std::string_view option) {
    return argument == option || (argument.starts_with(option) && argument.substr(option.size()).starts_with("="));
  });
}

bool NamesWeights(std::string_view argument) {
  return IsOneOf(argument, {"--weights", "--toy", "--synthetic", "--backbone", "--decoder"});
}

bool IsOfPackages(std::string_view argument) {
  return IsOneOf(argument, {"--detach", "--native", "--container", "--profile", "--print", "--refresh", "--local-only",
                            "--no-weights", "--device-id", "--foreground", "--accept-license"});
}

bool LooksLikePackage(std::string_view argument) {
  return argument.find('/') != std::string_view::npos || argument.ends_with(".json") || argument.ends_with(".yaml") ||
         argument.ends_with(".yml");
}

// Starts a package and, unless told otherwise, waits until it answers.
class ServePackageVerb : public Verb {
 public:
  VerbText text() const override;
  void Declare(OptionSet& options) override;
  bool wants_rest() const override { return true; }
  void TakeRest(std::vector<std::string> rest) override { request_.arguments = std::move(rest); }
  Status Check() override;
  Result<int> Run() override;

 private:
  int Serve(Launcher& launcher, ShownReporter& reporter);
  int RunInForeground(Launcher& launcher, ShownReporter& reporter);
  int ShowReady(const ServeReport& report) const;
  int ShowNotReady(const ServeReport& report, ShownReporter& reporter) const;

  ServeRequest request_;
  std::string profile_, arch_;
  bool print_ = false, native_ = false, container_ = false, foreground_ = false, quiet_ = false,
       accept_license_ = false;
  bool force_ = false, no_update_check_ = false, follow_ = false;
};

VerbText ServePackageVerb::text() const {
  if (CurrentPersona() == Persona::kTtModel) {
    return {"serve", "Start a package and wait until it answers", "tt-model serve changh95/gaze-lle-p150",
            "Other options are passed on to the server."};
  }
  return {
      "serve-package", "Start a package and wait until it answers",
      "sightline serve changh95/gaze-lle-p150\nsightline serve gaze-lle --detach --port 20001",
      "Typed as `sightline serve TARGET`. Returns when the server is ready, which then goes on in the background\n"
      "until `sightline stop TARGET`; --detach returns at once, --foreground stays. Other options are passed on to\n"
      "the server: of a native one they are those of `sightline serve gaze-lle`."};
}

void ServePackageVerb::Declare(OptionSet& options) {
  options.Argument("TARGET", request_.target, "PACKAGE", "ORG/NAME[@REVISION] or the file of a wire manifest");
  options.Flag("--detach", request_.detach, "do not wait until it is ready");
  options.Flag("--follow", follow_, "wait until it is ready, which is what happens anyway");
  options.Flag("--print", print_, "print the command that starts it, and do nothing");
  options.Text("--profile", profile_, "NAME", "how to launch it (default: the package's)");
  options.Whole("--port", request_.port, 1, 65'535, "exactly this one (default 20000 or the next free one)");
  options.Text("--device-id", request_.devices, "IDS", "Tenstorrent devices, as 0,1 (default: the lowest free ones)");
  options.Flag("--local-only", request_.local_only, "ask no network");
  options.Flag("--no-weights", request_.no_weights, "fetch no weights");
  options.Flag("--refresh", request_.refresh, "first fetch what has changed");
  options.Flag("--accept-license", accept_license_, "of the weights, where they are fetched for the first time");
  options.Flag("--force", force_, "accepted; a container package needs no force");
  options.Text("--arch", arch_, "NAME", "accepted; a container package is not checked for it");
  options.Flag("--no-update-check", no_update_check_, "accepted; nothing is checked unless --refresh asks");
  if (CurrentPersona() == Persona::kTtModel) return;
  options.Flag("--native", native_, "on this machine's processor, in no container");
  options.Flag("--container", container_, "in a container, also where its device is missing");
  options.Flag("--foreground", foreground_, "natively, in this very process, until it is told to stop");
  options.Flag("--quiet", quiet_, "show warnings and failures alone");
}

Status ServePackageVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckGiven(request_.target, kTargetWords));
  if (native_ && container_) return Fail(Code::kUsage, "--native and --container contradict each other");
  if (foreground_ && (container_ || request_.detach || print_)) {
    return Fail(Code::kUsage, "--foreground goes with none of --container, --detach and --print");
  }
  if (native_ || foreground_) request_.mode = RunMode::kNative;
  if (container_) request_.mode = RunMode::kContainer;
  if (!profile_.empty()) request_.profile = profile_;
  return {};
}

int ServePackageVerb::ShowReady(const ServeReport& report) const {
  const std::string_view program = ProgramName();
  const auto row = [](std::string_view name, const std::string& value) { return fmt::format("{:<10}{}", name, value); };
  std::vector<std::string> lines{row("endpoint", report.endpoint),
                                 row("models", fmt::format("curl {}/v1/models", report.endpoint))};
  if (report.chat) {
    lines.push_back(row("try", fmt::format("{} curl \"hello\"{}", program,
                                           report.port == kDefaultPort ? "" : " --base-url " + report.endpoint)));
  } else {
    lines.push_back(row("info", fmt::format("curl {}/info", report.endpoint)));
  }
  lines.insert(lines.end(), {"", row("logs", fmt::format("{} logs {} --follow", program, report.target)),
                             row("stop", fmt::format("{} stop {}", program, report.target))});
  Print(fmt::format("✓ {} ready  {}\n{}", report.target, DurationText(report.elapsed), PanelText(report.name, lines)));
  return 0;
}

int ServePackageVerb::ShowNotReady(const ServeReport& report, ShownReporter& reporter) const {
  const BootDiagnosis& diagnosis = *report.diagnosis;
  FailureCard card{diagnosis.title, diagnosis.detail, {}, diagnosis.actions};
  if (!diagnosis.evidence.empty()) card.evidence = "Log · " + diagnosis.evidence;
  reporter.OnError(card);
  std::string text = diagnosis.consequence.empty() ? "" : "  " + OneLine(diagnosis.consequence) + "\n";
  if (!diagnosis.last_lines.empty()) text += "  The last lines of its log:\n";
  for (const std::string& line : diagnosis.last_lines) text += "    " + OneLine(line) + "\n";
  std::fputs(text.c_str(), stderr);
  return 1;
}

int ServePackageVerb::Serve(Launcher& launcher, ShownReporter& reporter) {
  const Interrupts interrupts;
  const auto report = launcher.Serve(request_, &reporter, interrupts.token());
  if (!report) return ShowFailure(report.error(), reporter);
  switch (report->end) {
    case ServeEnd::kDetached:
      reporter.Finish();
      Print(fmt::format("endpoint  {}\nlogs      {} logs {} --follow\n", report->endpoint, ProgramName(),
                        report->target));
      return 0;
    case ServeEnd::kReady:
      reporter.Finish();
      return ShowReady(*report);
    case ServeEnd::kInterrupted:
      reporter.OnNote(fmt::format("not waited for any longer: {} goes on starting; {} stop {} ends it", report->name,
                                  ProgramName(), report->target));
      return InterruptedExit();
    case ServeEnd::kNotReady:
      break;
  }
  return ShowNotReady(*report, reporter);
}

// Returns only when it fails.
int ServePackageVerb::RunInForeground(Launcher& launcher, ShownReporter& reporter) {
  std::vector<std::string> words;
  {
    const Interrupts interrupts;
    auto command = launcher.NativeCommand(request_, &reporter, interrupts.token());
    if (!command) return ShowFailure(command.error(), reporter);
    words = *std::move(command);
  }
  reporter.Finish();
  const std::string program = words.front();
  words.front() = "sightline";
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  (void)FlushOutput();
  ::execv(program.c_str(), arguments.data());
  return ShowFailure(ErrnoError("start", program, errno), reporter);
}

Result<int> ServePackageVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(request_.ready_timeout, ReadyTimeoutFromEnvironment());
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
  // Of a printed command nothing else may be on standard output, where events go.
  const std::unique_ptr<ShownReporter> reporter = print_ ? MakeReporter(ReportStyle::kQuiet) : MakeReporter(quiet_);
  request_.license = AskForLicense(accept_license_, *reporter);
  if (print_) {
    const auto command = launcher->PrintableCommand(request_, reporter.get());
    if (!command) return ShowFailure(command.error(), *reporter);
    Print(*command + "\n");
    return 0;
  }
  return foreground_ ? RunInForeground(*launcher, *reporter) : Serve(*launcher, *reporter);
}

}  // namespace

bool MeansPackage(const std::vector<std::string>& arguments) {
  bool model = false, package = false, of_packages = false, weights = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") break;
    model |= argument == kGazeLle || argument == kLocateAnything;
    of_packages |= IsOfPackages(argument);
    weights |= NamesWeights(argument);
    const bool is_value = i > 0 && NamesWeights(arguments[i - 1]);
    package |= !argument.starts_with("-") && !is_value && LooksLikePackage(argument);
  }
  return model ? of_packages && !weights : package;
}

std::unique_ptr<Verb> MakeServePackageVerb() { return std::make_unique<ServePackageVerb>(); }

}  // namespace sightline
