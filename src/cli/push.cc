#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class PushVerb : public Verb {
 public:
  VerbText text() const override {
    return {"push", "Upload a package to a hub or a registry",
            fmt::format("{0} push build/gaze-lle-p150 --publish\n{0} push build/gaze-lle-cpu --repo "
                        "oci://localhost:5000/models/gaze-lle:1",
                        ProgramName()),
            "New repositories are private unless --public or --publish is given; others keep what they are."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("FOLDER", folder_, "FOLDER", "what `package` wrote");
    options.Text("--repo", options_.target, "ORG/NAME",
                 "or oci://HOST/REPOSITORY:TAG (default: what the manifest says)");
    options.Flag("--private", private_, "visible to its owners alone");
    options.Flag("--public", public_, "visible to everybody");
    options.Flag("--publish", options_.publish, "public, and listed in the catalog");
    options.Flag("--quiet", quiet_, "show warnings and failures alone");
    options.Flag("--json", json_, "say what was uploaded as JSON");
  }
  Status Check() override {
    if (private_ && public_) return Fail(Code::kUsage, "--private and --public contradict each other");
    if (private_ && options_.publish) {
      return Fail(Code::kUsage, "--private and --publish contradict each other: what is listed is public");
    }
    if (private_) options_.visibility = HubVisibility::kPrivate;
    if (public_) options_.visibility = HubVisibility::kPublic;
    options_.folder = folder_;
    return CheckGiven(folder_, "the folder of a package");
  }
  Result<int> Run() override;

 private:
  void Show(const PushReport& report) const;

  std::string folder_;
  PushOptions options_;
  bool private_ = false, public_ = false, quiet_ = false, json_ = false;
};

void PushVerb::Show(const PushReport& report) const {
  if (json_) {
    Value document{Value::Map{}};
    document.Set("target", Value{report.target});
    document.Set("revision", Value{report.revision});
    document.Set("created", Value{report.created});
    document.Set("listed", Value{report.listed});
    document.Set("files_sent", Value{static_cast<int64_t>(report.files_sent)});
    document.Set("files_there", Value{static_cast<int64_t>(report.files_there)});
    document.Set("deleted", Value{static_cast<int64_t>(report.deleted)});
    document.Set("bytes_sent", Value{static_cast<int64_t>(report.bytes_sent)});
    return PrintJson(document);
  }
  Print(fmt::format("pushed {} @ {}{}\n", report.target, report.revision.substr(0, 19),
                    report.listed ? ", listed in the catalog" : ""));
  Print(fmt::format("→ {} pull {}\n", ProgramName(), report.target));
}

Result<int> PushVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter(quiet_);
  const Interrupts interrupts;
  const StoreResult<PushReport> report = store->Push(options_, reporter.get(), interrupts.token());
  if (!report) return Failed(report.error(), *reporter, json_);
  reporter->Finish();
  Show(*report);
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakePushVerb() { return std::make_unique<PushVerb>(); }

}  // namespace sightline
