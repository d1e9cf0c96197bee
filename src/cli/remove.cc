#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/launching.h"
#include "cli/persona.h"
#include "cli/questions.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class RemoveVerb : public Verb {
 public:
  VerbText text() const override {
    return {"rm", "Remove a package: what runs of it, its image and files",
            fmt::format("{} rm changh95/gaze-lle-p150", ProgramName()),
            "Weights stay unless --include-weights is given, and what another package uses stays in any case."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("PACKAGE", id_, "PACKAGE", "ORG/NAME, as `list` shows it");
    options.Flag("--all", all_, "every package");
    options.Flag("-y,--yes", yes_, "do not ask");
    options.Flag("-f,--force", yes_, "do not ask");
    options.Flag("--keep-cache", options_.keep_cache, "leave what its containers compiled and converted");
    options.Flag("--include-weights", options_.include_weights, "also its weights");
  }
  Status Check() override {
    if (all_ && !id_.empty()) return Fail(Code::kUsage, "--all is given together with a package");
    return all_ ? Status() : CheckGiven(id_, "a package, or --all");
  }
  Result<int> Run() override;

 private:
  Result<bool> Confirmed(size_t packages) const;
  bool RemoveOne(Launcher& launcher, const std::string& id, Reporter& reporter, int& exit_code) const;

  std::string id_;
  RemoveOptions options_;
  bool all_ = false, yes_ = false;
};

Result<bool> RemoveVerb::Confirmed(size_t packages) const {
  if (yes_) return true;
  if (!SomebodyCanBeAsked()) return false;
  const Interrupts interrupts;
  return AskYesNo(fmt::format("Remove {} package(s)?", packages), interrupts.token());
}

// Containers are removed as they run; a native server would go on under a name that nobody knows any more.
bool StopNatively(Launcher& launcher, const std::string& id, Reporter& reporter, int& exit_code) {
  const StoreResult<StopOutcome> outcome = launcher.Stop({.target = id, .profile = kNativeProfile}, &reporter);
  if (!outcome) return true;  // whether there is such a package is said by who removes it
  for (const StoreError& failure : outcome->failures) exit_code = ShowFailure(failure, reporter);
  return outcome->failures.empty();
}

bool RemoveVerb::RemoveOne(Launcher& launcher, const std::string& id, Reporter& reporter, int& exit_code) const {
  if (!StopNatively(launcher, id, reporter, exit_code)) return false;
  const StoreResult<RemoveReport> report = launcher.store().Remove(id, options_, &reporter);
  if (!report) {
    exit_code = ShowFailure(report.error(), reporter);
    return false;
  }
  for (const std::string& line : report->kept) reporter.OnNote("kept " + line);
  Print(fmt::format("removed {}\n", OneLine(id)));
  return true;
}

Result<int> RemoveVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter();
  std::vector<std::string> ids{id_};
  if (all_) {
    ids.clear();
    for (const IndexEntry& entry : launcher->store().index().Read()) ids.push_back(entry.id);
    if (ids.empty()) Print("nothing to remove\n");
    if (!ids.empty()) {
      SIGHTLINE_ASSIGN_OR_RETURN(const bool confirmed, Confirmed(ids.size()));
      if (!confirmed) return Fail(Code::kUsage, "nothing was removed: --yes confirms it where nobody can be asked");
    }
  }
  int exit_code = 0, failed_with = 0;
  for (const std::string& id : ids) {
    if (!RemoveOne(*launcher, id, *reporter, exit_code)) failed_with = exit_code;
  }
  return failed_with;
}

}  // namespace

std::unique_ptr<Verb> MakeRemoveVerb() { return std::make_unique<RemoveVerb>(); }

}  // namespace sightline
