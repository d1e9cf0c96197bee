#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/engine_options.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "models/models.h"

namespace sightline {
namespace {

class SynthVerb : public Verb {
 public:
  VerbText text() const override {
    return {"synth", "Write random weights in the official formats",
            "sightline synth gaze-lle --size vitb14 --seed 1 --out weights",
            "Answers from such weights mean nothing as gaze; they show form and speed."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override;

 private:
  std::string model_;
  SyntheticGazeOptions options_;
  bool no_inout_ = false;
  bool json_ = false;
};

void SynthVerb::Declare(OptionSet& options) {
  static const std::vector<std::string> kSizes = {"tiny", "vitb14", "vitl14"};
  DeclareModel(options, model_, "whose weights to make");
  options.Choice("--size", kSizes, "of the network (default tiny)",
                 [this](size_t index) { options_.size = kSizes[index]; });
  options.Flag("--no-inout", no_inout_, "leave out the head that tells in from out of frame");
  options.File("--rules", options_.rules, "rules of synthesis (default: those built in)");
  options.Whole("--seed", options_.seed, 0, std::numeric_limits<int64_t>::max(),
                "another seed, other numbers (default 1)");
  options.Folder("--out", options_.folder, "folder for both files; made where it is missing");
  options.Flag("--json", json_, "print the paths as JSON");
}

Status SynthVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelGiven(model_));
  if (options_.folder.empty()) return Fail(Code::kUsage, "--out is missing, expected a folder for the files");
  options_.inout = !no_inout_;
  return {};
}

Result<int> SynthVerb::Run() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelKnown(model_));
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error) return tl::make_unexpected(ErrnoError("make folder", options_.folder, error.value()));
  Progress progress("making synthetic weights: tensor");
  SIGHTLINE_ASSIGN_OR_RETURN(
      const SyntheticGazeFiles files,
      WriteSyntheticGazeLle(options_, [&progress](int done, int total) { progress.Show(done, total); }));
  progress.Clear();
  if (json_) {
    const nlohmann::ordered_json document = {
        {"backbone", files.backbone.string()}, {"decoder", files.decoder.string()}, {"synthetic_weights", true}};
    Print(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    Print(fmt::format("{}\n{}\n", files.backbone.string(), files.decoder.string()));
    PrintNote("these are synthetic weights: answers from them mean nothing as gaze");
  }
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeSynthVerb() { return std::make_unique<SynthVerb>(); }

}  // namespace sightline
