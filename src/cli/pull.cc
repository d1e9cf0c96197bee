#include <fmt/format.h>

#include "cli/launching.h"
#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class PullVerb : public Verb {
 public:
  VerbText text() const override {
    if (CurrentPersona() == Persona::kTtModel) {
      return {"pull", "Bring a package here", "tt-model pull changh95/gaze-lle-p150 --with-weights", ""};
    }
    return {
        "pull", "Bring a package here",
        "sightline pull gaze-lle --with-weights\n"
        "sightline pull changh95/gaze-lle-p150\n"
        "sightline pull oci://localhost:5000/models/gaze-lle:1",
        "A package whose model this program knows runs natively where its device or a container engine is missing:\n"
        "then its image is not fetched. --native and --container decide otherwise."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override;

 private:
  void Show(const PullReport& report) const;

  std::string target_, arch_, models_folder_;
  PullOptions options_;
  bool native_ = false, container_ = false, accept_license_ = false, quiet_ = false, json_ = false;
};

void PullVerb::Declare(OptionSet& options) {
  options.Argument("PACKAGE", target_, "PACKAGE", "ORG/NAME[@REVISION], oci://HOST/REPOSITORY:TAG or a short name");
  options.Flag("--with-weights", options_.with_weights, "also its weights");
  options.Flag("--accept-license", accept_license_, "of the weights, without being asked");
  options.Flag("--force", options_.force, "load the image though it is here");
  options.Text("--arch", arch_, "NAME", "accepted; a container package is not checked for it");
  options.Text("--models-dir", models_folder_, "FOLDER", "accepted; a container package has no folder of its own");
  options.Flag("--native", native_, "to run on this machine's processor: without the image");
  options.Flag("--container", container_, "with the image, also where its device is missing");
  options.Flag("--quiet", quiet_, "show warnings and failures alone");
  options.Flag("--json", json_, "say what was pulled as JSON");
}

Status PullVerb::Check() {
  if (native_ && container_) return Fail(Code::kUsage, "--native and --container contradict each other");
  if (native_) options_.mode = RunMode::kNative;
  if (container_) options_.mode = RunMode::kContainer;
  return CheckGiven(target_, "a package, as ORG/NAME");
}

void PullVerb::Show(const PullReport& report) const {
  const LocalPackage& package = report.package;
  if (json_) {
    Value document{Value::Map{}};
    document.Set("id", Value{package.id});
    document.Set("revision", JsonTextOrNull(package.entry->revision.value_or("")));
    document.Set("mode", Value{std::string(NameOf(report.run.mode))});
    document.Set("manifest", Value{package.manifest_file.string()});
    document.Set("image", JsonTextOrNull(report.run.mode == RunMode::kContainer ? package.entry->image : ""));
    document.Set("image_loaded", Value{report.image_loaded});
    document.Set("changed", Value{report.changed});
    document.Set("weights", WeightsValue(report.weights));
    return PrintJson(document);
  }
  const std::string revision = package.entry->revision ? "@" + package.entry->revision->substr(0, 12) : "";
  Print(fmt::format("pulled {}{}{}\n", OneLine(package.id), revision,
                    report.run.mode == RunMode::kNative ? " (runs natively)" : ""));
  Print(fmt::format("→ {} serve {}\n", ProgramName(), OneLine(package.id)));
}

Result<int> PullVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const Target target, ParseTarget(target_));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter(quiet_);
  options_.license = AskForLicense(accept_license_, *reporter);
  const Interrupts interrupts;
  const StoreResult<PullReport> report = store->Pull(target, options_, reporter.get(), interrupts.token());
  if (!report) return Failed(report.error(), *reporter, json_);
  reporter->Finish();
  Show(*report);
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakePullVerb() { return std::make_unique<PullVerb>(); }

}  // namespace sightline
