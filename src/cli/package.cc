#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class PackageVerb : public Verb {
 public:
  VerbText text() const override {
    const bool tt_model = CurrentPersona() == Persona::kTtModel;
    return {"package", "Build a package from its tt-model.yaml",
            tt_model ? "tt-model package --container tt-model.yaml --out build"
                     : "sightline package --container tt-model.yaml --out build\n"
                       "sightline package gaze-lle --out build --repo you/gaze-lle-cpu",
            "The result is OUT/NAME: manifest, card, code and the image as an OCI layout. Without a container engine,\n"
            "or with --no-build, what was staged is in OUT/NAME.staged. A short name packages this very program as an\n"
            "image that serves on the CPU; that needs no engine."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override;

 private:
  void Show(const BuildReport& report) const;

  std::string name_, repo_;
  std::filesystem::path container_, out_ = "build";
  bool no_build_ = false, quiet_ = false, json_ = false;
};

void PackageVerb::Declare(OptionSet& options) {
  options.Argument("NAME", name_, "NAME", "short name of a package of this program: its CPU image");
  options.File("--container", container_, "the tt-model.yaml of a container package");
  options.Folder("--out", out_, "where the result goes (default build)");
  options.Flag("--no-build", no_build_, "stop when code and scripts are staged");
  options.Text("--repo", repo_, "ORG/NAME", "where the package of a short name will be pushed to");
  options.Flag("--quiet", quiet_, "show warnings and failures alone");
  options.Flag("--json", json_, "say what was built as JSON");
}

Status PackageVerb::Check() {
  if (name_.empty() == container_.empty()) {
    return Fail(Code::kUsage, "expected either --container FILE or the short name of a package");
  }
  if (!name_.empty() && FindBuiltInPackage(name_) == nullptr) {
    std::string names;
    for (const BuiltInPackage& package : BuiltInPackages()) names += (names.empty() ? "" : ", ") + package.name;
    return Fail(Code::kUsage, fmt::format("'{}' is no package of this program, expected one of {}; a "
                                          "tt-model.yaml is given with --container",
                                          name_, names));
  }
  return {};
}

void PackageVerb::Show(const BuildReport& report) const {
  if (json_) {
    Value document{Value::Map{}};
    document.Set("folder", Value{report.folder.string()});
    document.Set("built", Value{report.built});
    document.Set("image", JsonTextOrNull(report.image));
    document.Set("image_digest", JsonTextOrNull(report.image_digest));
    document.Set("code_sha256", JsonTextOrNull(report.code_digest));
    document.Set("dropped", TextsValue(report.dropped));
    return PrintJson(document);
  }
  Print(fmt::format("{} {}\n", report.built ? "packaged" : "staged", OneLine(report.folder.string())));
  if (report.built) Print(fmt::format("→ {} push {}\n", ProgramName(), OneLine(report.folder.string())));
}

Result<int> PackageVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const StoreSettings settings, StoreSettingsOfProgram());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter(quiet_);
  const Interrupts interrupts;
  StoreResult<BuildReport> report;
  if (name_.empty()) {
    const BuildOptions options{container_, out_, !no_build_, Globals().verbose};
    report = BuildPackage(settings, options, reporter.get(), interrupts.token());
  } else {
    const ProgramImageOptions options{name_, "/proc/self/exe", out_, repo_};
    report = BuildProgramPackage(options, reporter.get(), interrupts.token());
  }
  if (!report) return Failed(report.error(), *reporter, json_);
  reporter->Finish();
  Show(*report);
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakePackageVerb() { return std::make_unique<PackageVerb>(); }

}  // namespace sightline
