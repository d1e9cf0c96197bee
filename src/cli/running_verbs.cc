// stop, ps, logs and profiles: what is running, and what could.
#include <fmt/format.h>

#include "cli/launching.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sightline {
namespace {

std::string Example(std::string_view words) { return fmt::format("{} {}", ProgramName(), words); }

void DeclareTarget(OptionSet& options, std::string& target, std::string& profile) {
  options.Argument("TARGET", target, "PACKAGE", "ORG/NAME or the file of a wire manifest");
  options.Text("--profile", profile, "NAME", "of this profile alone");
}

std::optional<std::string> OptionalText(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

class StopVerb : public Verb {
 public:
  VerbText text() const override {
    return {"stop", "End a package that runs, giving it time to do so cleanly", Example("stop changh95/gaze-lle-p150"),
            "What does not end within the grace time is killed."};
  }
  void Declare(OptionSet& options) override {
    DeclareTarget(options, request_.target, profile_);
    if (CurrentPersona() == Persona::kTtModel) return;
    options.Flag("--all", all_, "everything that runs");
    options.Whole("--grace", grace_, 0, 86'400, "seconds (default 120)");
    options.Flag("--quiet", quiet_, "show warnings and failures alone");
  }
  Status Check() override {
    if (all_ && !request_.target.empty()) return Fail(Code::kUsage, "--all is given together with a package");
    if (!all_) SIGHTLINE_RETURN_IF_ERROR(CheckGiven(request_.target, kTargetWords));
    request_.profile = OptionalText(profile_);
    request_.grace = std::chrono::seconds(grace_);
    return {};
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
    const std::unique_ptr<ShownReporter> reporter = MakeReporter(quiet_);
    const auto outcome = launcher->Stop(request_, reporter.get());
    if (!outcome) return ShowFailure(outcome.error(), *reporter);
    if (outcome->stopped.empty() && outcome->failures.empty()) {
      Print("nothing running\n");
    } else if (CurrentPersona() == Persona::kTtModel) {
      Print(fmt::format("stopped {} container(s)\n", outcome->stopped.size()));
    } else {
      for (const StoppedPackage& one : outcome->stopped) Print(fmt::format("stopped {}\n", one.name));
    }
    int exit_code = 0;
    for (const StoreError& failure : outcome->failures) exit_code = ShowFailure(failure, *reporter);
    return exit_code;
  }

 private:
  StopRequest request_;
  std::string profile_;
  int grace_ = 120;
  bool all_ = false, quiet_ = false;
};

class LogsVerb : public Verb {
 public:
  VerbText text() const override {
    return {"logs", "Show what a running package logs", Example("logs changh95/gaze-lle-p150 --follow"), ""};
  }
  void Declare(OptionSet& options) override {
    DeclareTarget(options, request_.target, profile_);
    options.Flag("-f,--follow", request_.follow, "go on until it ends or Ctrl-C");
    options.Whole("--tail", request_.tail, 0, 1'000'000'000, "its last lines alone");
    options.Text("--since", request_.since, "TIME", "10m, 2h30m, or 2026-01-31T12:00:00Z");
  }
  Status Check() override {
    request_.profile = OptionalText(profile_);
    return CheckGiven(request_.target, kTargetWords);
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
    const Interrupts interrupts;
    const auto code = launcher->ReadLogs(
        request_,
        [this](std::string_view line) {
          Print(line);
          Print("\n");
          if (request_.follow) (void)FlushOutput();
        },
        interrupts.token());
    if (!code) return ShowFailure(code.error(), *MakeReporter(false));
    return interrupts.token().stop_requested() ? InterruptedExit() : *code;
  }

 private:
  LogRequest request_;
  std::string profile_;
};

Value RowDocument(const RunningPackage& row) {
  Value document{Value::Map{}};
  document.Set("name", JsonTextOrNull(row.name));
  document.Set("target", JsonTextOrNull(row.target));
  document.Set("mode", Value{std::string(NameOf(row.mode))});
  document.Set("profile", JsonTextOrNull(row.profile));
  document.Set("status", JsonTextOrNull(row.status));
  document.Set("port", row.port == 0 ? Value{} : Value{static_cast<int64_t>(row.port)});
  document.Set("endpoint", row.port == 0 ? Value{} : JsonTextOrNull(fmt::format("http://127.0.0.1:{}", row.port)));
  document.Set("uptime", JsonTextOrNull(row.uptime));
  document.Set("uptime_seconds", row.uptime_seconds ? Value{*row.uptime_seconds} : Value{});
  document.Set("image", JsonTextOrNull(row.image));
  document.Set("pid", row.pid == 0 ? Value{} : Value{row.pid});
  document.Set("log", JsonTextOrNull(row.log.string()));
  return document;
}

class PsVerb : public Verb {
 public:
  VerbText text() const override { return {"ps", "List the packages that run", Example("ps"), ""}; }
  void Declare(OptionSet& options) override {
    options.Flag("-a,--all", all_, "also containers that have ended");
    options.Flag("--json", json_, "as a JSON array");
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
    const std::unique_ptr<ShownReporter> reporter = MakeReporter(false);
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<RunningPackage> rows, launcher->Running(all_, reporter.get()));
    if (json_) {
      Value::List list;
      for (const RunningPackage& row : rows) list.push_back(RowDocument(row));
      PrintJson(Value{std::move(list)});
    } else {
      Print(Table(rows));
    }
    return 0;
  }

 private:
  static std::string Table(const std::vector<RunningPackage>& rows) {
    if (rows.empty()) return "nothing running\n";
    std::vector<std::vector<std::string>> table{{"NAME", "TARGET", "MODE", "PROFILE", "PORT", "STATUS", "UP"}};
    for (const RunningPackage& row : rows) {
      table.push_back({row.name, row.target, std::string(NameOf(row.mode)), row.profile,
                       row.port == 0 ? "" : std::to_string(row.port), row.status, row.uptime});
    }
    return TableText(table);
  }
  bool all_ = false, json_ = false;
};

class ProfilesVerb : public Verb {
 public:
  VerbText text() const override {
    return {"profiles", "List the ways in which a package can be launched", Example("profiles changh95/gaze-lle-p150"),
            ""};
  }
  void Declare(OptionSet& options) override {
    options.Argument("TARGET", target_, "PACKAGE", "ORG/NAME or the file of a wire manifest");
  }
  Status Check() override { return CheckGiven(target_, kTargetWords); }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
    const auto rows = launcher->Profiles(target_);
    if (!rows) return ShowFailure(rows.error(), *MakeReporter(false));
    std::vector<std::vector<std::string>> table;
    for (const ProfileRow& row : *rows) {
      const std::string where = row.mesh.empty() ? row.hardware : row.hardware + " · " + row.mesh;
      std::string capacity = row.max_num_seqs ? fmt::format("seqs {}", *row.max_num_seqs) : "";
      if (row.max_model_len) {
        capacity += fmt::format("{}len {}", capacity.empty() ? "" : " · ", *row.max_model_len);
      }
      table.push_back({row.name + (row.is_default ? " (default)" : ""), where, capacity, row.description});
    }
    Print(TableText(table));
    return 0;
  }

 private:
  std::string target_;
};

class VersionVerb : public Verb {
 public:
  VerbText text() const override { return {"version", "Print the version", Example("version"), ""}; }
  void Declare(OptionSet&) override {}
  Result<int> Run() override {
    Print(fmt::format("{}\n", Version()));
    return 0;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeStopVerb() { return std::make_unique<StopVerb>(); }
std::unique_ptr<Verb> MakeLogsVerb() { return std::make_unique<LogsVerb>(); }
std::unique_ptr<Verb> MakePsVerb() { return std::make_unique<PsVerb>(); }
std::unique_ptr<Verb> MakeProfilesVerb() { return std::make_unique<ProfilesVerb>(); }
std::unique_ptr<Verb> MakeVersionVerb() { return std::make_unique<VersionVerb>(); }

}  // namespace sightline
