// export and import: packages on their way to machines without a network.
#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class ExportVerb : public Verb {
 public:
  VerbText text() const override {
    return {"export", "Write a package that is here into one file",
            fmt::format("{} export gaze-lle gaze-lle.tar --with-weights", ProgramName()),
            "The file is read by `import` on another machine."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("PACKAGE", words_, "PACKAGE", "ORG/NAME as `ls` shows it, then the file to write");
    options.Flag("--with-weights", with_weights_, "also its weights");
  }
  Status Check() override {
    if (words_.size() == 2) return {};
    return Fail(Code::kUsage, "expected a package and the file to write");
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
    const std::unique_ptr<ShownReporter> reporter = MakeReporter();
    const Interrupts interrupts;
    const StoreStatus done = store->Export(words_[0], words_[1], with_weights_, reporter.get(), interrupts.token());
    if (!done) return ShowFailure(done.error(), *reporter);
    reporter->Finish();
    Print(fmt::format("exported {} to {}\n", OneLine(words_[0]), OneLine(words_[1])));
    return 0;
  }

 private:
  std::vector<std::string> words_;
  bool with_weights_ = false;
};

class ImportVerb : public Verb {
 public:
  VerbText text() const override {
    return {"import", "Bring a package here from a file of `export`",
            fmt::format("{} import gaze-lle.tar", ProgramName()),
            "Every digest is checked before anything becomes visible."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("FILE", file_, "FILE", "that `export` wrote");
    options.Flag("--native", native_, "to run on this machine's processor");
    options.Flag("--container", container_, "to run in a container");
  }
  Status Check() override {
    if (native_ && container_) return Fail(Code::kUsage, "--native and --container contradict each other");
    return CheckGiven(file_, "a file that `export` wrote");
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
    const std::unique_ptr<ShownReporter> reporter = MakeReporter();
    const Interrupts interrupts;
    PullOptions options;
    if (native_) options.mode = RunMode::kNative;
    if (container_) options.mode = RunMode::kContainer;
    const StoreResult<PullReport> report = store->Import(file_, options, reporter.get(), interrupts.token());
    if (!report) return ShowFailure(report.error(), *reporter);
    reporter->Finish();
    Print(fmt::format("imported {}\n→ {} serve {}\n", OneLine(report->package.id), ProgramName(),
                      OneLine(report->package.id)));
    return 0;
  }

 private:
  std::string file_;
  bool native_ = false, container_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeExportVerb() { return std::make_unique<ExportVerb>(); }
std::unique_ptr<Verb> MakeImportVerb() { return std::make_unique<ImportVerb>(); }

}  // namespace sightline
