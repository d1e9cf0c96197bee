#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class ShowVerb : public Verb {
 public:
  explicit ShowVerb(std::string name) : name_(std::move(name)) {}
  VerbText text() const override {
    return {name_, "Print a package's manifest, and whether it can run here",
            fmt::format("{} {} changh95/gaze-lle-p150", ProgramName(), name_),
            "What is here is read from here; anything else is asked of its hub or registry, and not kept."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("PACKAGE", target_, "PACKAGE", "ORG/NAME[@REVISION], oci://..., a short name or a file");
    options.Text("--arch", arch_, "NAME", "compare with this architecture in place of the machine's");
    options.Flag("--json", json_, "one JSON document: manifest, how it runs here and what keeps it from it");
  }
  Status Check() override { return CheckGiven(target_, "a package, as ORG/NAME"); }
  Result<int> Run() override;

 private:
  std::string Verdict(const std::vector<VerdictRow>& rows) const;
  Result<Value> Document(const Store& store, const LocalPackage& package, const std::vector<VerdictRow>& rows) const;

  std::string name_, target_, arch_;
  bool json_ = false;
};

std::string ShowVerb::Verdict(const std::vector<VerdictRow>& rows) const {
  if (rows.empty()) return "compatible\n";
  std::string text;
  for (const VerdictRow& row : rows) {
    text += fmt::format("[{}] {}: bundle='{}' local='{}'\n", row.fatal ? "FATAL" : "warn", row.field, row.package,
                        row.local);
  }
  return text;
}

Result<Value> ShowVerb::Document(const Store& store, const LocalPackage& package,
                                 const std::vector<VerdictRow>& rows) const {
  Value document{Value::Map{}};
  document.Set("id", Value{package.id});
  document.Set("installed", Value{store.index().Find(package.id).has_value()});
  const StoreResult<RunChoice> run = ChooseRun(package, store.Host(), {});
  document.Set("mode", run ? Value{std::string(NameOf(run->mode))} : Value{});
  document.Set("native_model", package.native ? Value{package.native->model} : Value{});
  Value::List verdict;
  for (const VerdictRow& row : rows) {
    Value one{Value::Map{}};
    one.Set("fatal", Value{row.fatal});
    one.Set("field", Value{row.field});
    one.Set("package", Value{row.package});
    one.Set("local", Value{row.local});
    verdict.push_back(std::move(one));
  }
  document.Set("verdict", Value{std::move(verdict)});
  SIGHTLINE_ASSIGN_OR_RETURN(Value manifest, ParseJson(package.manifest.ToJson(), package.id));
  document.Set("manifest", std::move(manifest));
  return document;
}

Result<int> ShowVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const Target target, ParseTarget(target_));
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter(true);
  const Interrupts interrupts;
  StoreResult<LocalPackage> package = store->FindLocal(target);
  const bool other_revision =
      package && target.revision && package->entry && package->entry->revision != target.revision;
  if ((!package && target.kind != TargetKind::kFile) || other_revision) {
    package = store->FetchManifest(target, reporter.get(), interrupts.token());
  }
  if (!package) return Failed(package.error(), *reporter, json_);
  const std::vector<VerdictRow> rows =
      store->Verdict(package->manifest, arch_.empty() ? std::nullopt : std::optional(arch_));
  if (json_) {
    SIGHTLINE_ASSIGN_OR_RETURN(const Value document, Document(*store, *package, rows));
    PrintJson(document);
    return 0;
  }
  Print(package->manifest.ToJson() + "\n\n" + Verdict(rows));
  if (!rows.empty() && package->native && CurrentPersona() == Persona::kSightline) {
    Print(fmt::format("runs natively on the CPU, as {}\n", package->native->model));
  }
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeShowVerb(std::string name) { return std::make_unique<ShowVerb>(std::move(name)); }

}  // namespace sightline
