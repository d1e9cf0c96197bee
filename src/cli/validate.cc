#include <fmt/format.h>

#include <system_error>

#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class ValidateVerb : public Verb {
 public:
  VerbText text() const override {
    return {"validate", "Check a tt-model.yaml, a sightline.yaml or a manifest",
            fmt::format("{} validate tt-model.yaml", ProgramName()), "Prints VALID, or every problem that was found."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("FILE", file_, "FILE", "to check (default: tt-model.yaml)");
    options.Flag("--check-sources", check_sources_, "also that the code it ships is on this machine");
    options.Flag("--json", json_, "as JSON");
  }
  Result<int> Run() override;

 private:
  Result<std::vector<ManifestProblem>> Problems() const;

  std::string file_ = kAuthoringManifestName;
  bool check_sources_ = false, json_ = false;
};

Result<std::vector<ManifestProblem>> ValidateVerb::Problems() const {
  std::error_code error;
  if (!std::filesystem::exists(file_, error))
    return Fail(Code::kNotFound, fmt::format("{}: manifest not found", file_));
  return FindProblems(file_, check_sources_);
}

Result<int> ValidateVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<ManifestProblem> problems, Problems());
  if (json_) {
    Value::List list;
    for (const ManifestProblem& problem : problems) {
      Value row{Value::Map{}};
      row.Set("path", JsonTextOrNull(problem.path));
      row.Set("line", problem.line == 0 ? Value{} : Value{static_cast<int64_t>(problem.line)});
      row.Set("message", Value{problem.message});
      list.push_back(std::move(row));
    }
    Value document{Value::Map{}};
    document.Set("valid", Value{problems.empty()});
    document.Set("problems", Value{std::move(list)});
    PrintJson(document);
  } else if (problems.empty()) {
    Print("VALID\n");
  } else {
    for (const ManifestProblem& problem : problems) Print(OneLine(problem.message) + "\n");
  }
  return problems.empty() ? 0 : 1;
}

}  // namespace

std::unique_ptr<Verb> MakeValidateVerb() { return std::make_unique<ValidateVerb>(); }

}  // namespace sightline
