#include <nlohmann/json.hpp>

#include "cli/language_model_folder.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sightline {
namespace {

class ExtractLlmVerb : public Verb {
 public:
  VerbText text() const override {
    return {"extract-llm", "Write the language model of LocateAnything as a plain Qwen2 folder",
            "sightline extract-llm --weights LocateAnything-3B --out language-model",
            "The folder loads with transformers. A complete one is kept; its weights are written last."};
  }
  void Declare(OptionSet& options) override {
    options.Folder("--weights", from_, "the official model folder");
    options.Folder("--out", folder_, "folder to write; made where it is missing");
    options.Flag("--force", force_, "write it again where it is complete already");
    options.Flag("--json", json_, "print the result as JSON");
  }
  Status Check() override;
  Result<int> Run() override;

 private:
  std::filesystem::path from_, folder_;
  bool force_ = false;
  bool json_ = false;
};

Status ExtractLlmVerb::Check() {
  if (from_.empty()) return Fail(Code::kUsage, "--weights is missing, expected the official model folder");
  if (folder_.empty()) return Fail(Code::kUsage, "--out is missing, expected a folder for the files");
  return {};
}

Result<int> ExtractLlmVerb::Run() {
  Progress progress("writing the language model: tensor");
  const auto written = WriteLanguageModelFolder(from_, folder_, force_,
                                                [&progress](int done, int total) { progress.Show(done, total); });
  progress.Clear();
  if (!written) return tl::make_unexpected(written.error());
  for (const std::string& warning : written->warnings) PrintWarning(warning);
  if (json_) {
    const nlohmann::ordered_json document = {{"folder", folder_.string()}, {"kept", written->kept}};
    Print(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  Print(folder_.string() + "\n");
  if (written->kept) PrintNote("the folder is complete already; --force writes it again");
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeExtractLlmVerb() { return std::make_unique<ExtractLlmVerb>(); }

}  // namespace sightline
