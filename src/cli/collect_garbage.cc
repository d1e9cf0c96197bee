#include <fmt/format.h>

#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class CollectGarbageVerb : public Verb {
 public:
  VerbText text() const override {
    return {"gc", "Remove what no package refers to", fmt::format("{} gc", ProgramName()),
            "Never touches what a package that is here needs, nor what another process is just fetching."};
  }
  void Declare(OptionSet& options) override {
    options.Flag("--images", images_, "also image files whose image the container engine has");
    options.Flag("--json", json_, "say what was removed as JSON");
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
    const std::unique_ptr<ShownReporter> reporter = MakeReporter(true);
    const StoreResult<GarbageReport> report = store->CollectGarbage(images_, reporter.get());
    if (!report) return Failed(report.error(), *reporter, json_);
    if (json_) {
      Value document{Value::Map{}};
      document.Set("bytes", Value{static_cast<int64_t>(report->bytes)});
      document.Set("removed", TextsValue(report->removed));
      PrintJson(document);
      return 0;
    }
    for (const std::string& path : report->removed) Print(fmt::format("removed {}\n", OneLine(path)));
    Print(fmt::format("{} freed\n", DecimalBytes(report->bytes)));
    return 0;
  }

 private:
  bool images_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeCollectGarbageVerb() { return std::make_unique<CollectGarbageVerb>(); }

}  // namespace sightline
