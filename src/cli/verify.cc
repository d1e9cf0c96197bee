#include <fmt/format.h>

#include <system_error>

#include "cli/interrupts.h"
#include "cli/number_text.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"
#include "weights/weights.h"

namespace sightline {
namespace {

class VerifyVerb : public Verb {
 public:
  VerbText text() const override {
    return {"verify", "Check packages, their weights, and the packed weights in the cache folder",
            "sightline verify\nsightline verify changh95/gaze-lle-p150 --repair",
            "A damaged packed file may be removed; it is made again when it is next needed."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("WHAT", what_, "FOLDER", "a folder of packed weights, or a package (default: everything here)");
    options.Flag("--repair", repair_, "remove what is wrong in packages and fetch it again");
    options.Flag("--json", json_, "say what was found as JSON");
  }
  Result<int> Run() override;

 private:
  bool IsFolder() const {
    std::error_code error;
    return std::filesystem::is_directory(what_, error);
  }
  // A word that can only be meant as a folder.
  bool LooksLikeFolder() const { return what_.starts_with("/") || what_.starts_with("."); }
  Result<int> CheckPacked(const std::filesystem::path& folder);
  Result<int> CheckStore(const std::optional<std::string>& package);
  Result<int> CheckAll();
  // "ok", "damaged" or "repaired", with the reason if not ok.
  void Show(const std::filesystem::path& path, const std::string& state, const std::string& reason);

  std::string what_;
  bool repair_ = false, json_ = false;
  Value::List found_;  // what Show was told
};

void VerifyVerb::Show(const std::filesystem::path& path, const std::string& state, const std::string& reason) {
  if (json_) {
    Value entry{Value::Map{}};
    entry.Set("path", Value{path.string()});
    entry.Set("state", Value{state});
    if (!reason.empty()) entry.Set("reason", Value{reason});
    found_.push_back(std::move(entry));
    return;
  }
  Print(fmt::format("{}: {}\n", OneLine(path.string()), state));
  if (!reason.empty()) PrintError(reason);
}

Result<int> VerifyVerb::CheckPacked(const std::filesystem::path& folder) {
  int files = 0, failures = 0, exit_code = 0;
  const auto report = [&](const std::filesystem::path& path, const Status& status) {
    ++files;
    Show(path, status ? "ok" : "damaged", status ? "" : status.error().message);
    if (status) return;
    if (failures++ == 0) exit_code = sightline::Describe(status.error().code).exit_code;
  };
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) {
    const Status verified = VerifyPackedFiles(folder, report);
    if (!verified && failures == 0) return tl::make_unexpected(verified.error());
  }
  if (files == 0 && !json_) Print("no packed files\n");
  return exit_code;
}

Result<int> VerifyVerb::CheckStore(const std::optional<std::string>& package) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
  if (package && !store->index().Find(*package)) {
    return Fail(Code::kNotFound, fmt::format("{} is no folder, and no package that is here", *package));
  }
  const std::unique_ptr<ShownReporter> reporter = MakeReporter(true);
  const Interrupts interrupts;
  const StoreResult<VerifyReport> report = store->Verify(package, repair_, reporter.get(), interrupts.token());
  if (!report) return Failed(report.error(), *reporter, json_);
  bool damaged = false;
  for (const StoreProblem& problem : report->problems) {
    Show(problem.path, problem.repaired ? "repaired" : "damaged", problem.sentence);
    damaged = damaged || !problem.repaired;
  }
  if (report->packages > 0 && !json_) {
    Print(fmt::format("{} package(s), {} files, {}: {}\n", report->packages, report->files, DecimalBytes(report->bytes),
                      damaged ? "damaged" : "ok"));
  }
  return damaged ? sightline::Describe(Code::kCorruptWeights).exit_code : 0;
}

Result<int> VerifyVerb::Run() {
  const Result<int> code = CheckAll();
  if (code && json_) {
    Value document{Value::Map{}};
    document.Set("ok", Value{*code == 0});
    document.Set("files", Value{std::move(found_)});
    PrintJson(document);
  }
  return code;
}

Result<int> VerifyVerb::CheckAll() {
  if (!what_.empty()) {
    if (IsFolder() && repair_) {
      return Fail(Code::kUsage, fmt::format("--repair is given and {} is a folder, expected a package: a packed file "
                                            "that is damaged may be removed, it is made again when it is next needed",
                                            what_));
    }
    if (IsFolder()) return CheckPacked(what_);
    if (LooksLikeFolder()) return Fail(Code::kNotFound, fmt::format("{} is no folder", what_));
    return CheckStore(what_);
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path folder, CacheFolder());
  SIGHTLINE_ASSIGN_OR_RETURN(const int packed, CheckPacked(folder));
  SIGHTLINE_ASSIGN_OR_RETURN(const int store, CheckStore({}));
  return packed != 0 ? packed : store;
}

}  // namespace

std::unique_ptr<Verb> MakeVerifyVerb() { return std::make_unique<VerifyVerb>(); }

}  // namespace sightline
