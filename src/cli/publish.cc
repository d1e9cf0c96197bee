#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

// Both directions of one switch.
class PublishVerb : public Verb {
 public:
  explicit PublishVerb(bool listed) : listed_(listed) {}
  VerbText text() const override {
    if (listed_) {
      return {"publish", "List a package in the catalog, which makes it public",
              fmt::format("{} publish you/gaze-lle-p150", ProgramName()), ""};
    }
    return {"unpublish", "Take a package out of the catalog",
            fmt::format("{} unpublish you/gaze-lle-p150", ProgramName()), "It stays as public or private as it is."};
  }
  void Declare(OptionSet& options) override { options.Argument("REPO", repo_, "REPO", "ORG/NAME"); }
  Status Check() override {
    SIGHTLINE_RETURN_IF_ERROR(CheckGiven(repo_, "ORG/NAME"));
    return CheckRepoId(repo_);
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
    const std::unique_ptr<ShownReporter> reporter = MakeReporter();
    const Interrupts interrupts;
    const StoreStatus done = listed_ ? store->Publish(repo_, reporter.get(), interrupts.token())
                                     : store->Unpublish(repo_, reporter.get(), interrupts.token());
    if (!done) return ShowFailure(done.error(), *reporter);
    reporter->Finish();
    Print(fmt::format("{} is {}in the catalog\n", repo_, listed_ ? "" : "no longer "));
    return 0;
  }

 private:
  bool listed_;
  std::string repo_;
};

}  // namespace

std::unique_ptr<Verb> MakePublishVerb() { return std::make_unique<PublishVerb>(true); }
std::unique_ptr<Verb> MakeUnpublishVerb() { return std::make_unique<PublishVerb>(false); }

}  // namespace sightline
