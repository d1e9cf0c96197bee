#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/engine_options.h"
#include "cli/terminal.h"
#include "cli/tokenizer_files.h"
#include "cli/verb.h"
#include "models/models.h"

namespace sightline {
namespace {

const std::vector<std::string> kSizes = {"tiny", "vitb14", "vitl14", "full", "puppet"};

struct Model {
  std::string_view name;
  std::vector<std::string_view> sizes;
  std::vector<std::string_view> foreign;  // options of other models
};
const Model kModels[] = {{kGazeLle, {"tiny", "vitb14", "vitl14"}, {"--tokenizer"}},
                         {kLocateAnything, {"tiny", "full", "puppet"}, {"--no-inout", "--rules"}}};

class SynthVerb : public Verb {
 public:
  VerbText text() const override {
    return {"synth", "Write random weights in the official formats",
            "sightline synth gaze-lle --size vitb14 --seed 1 --out weights",
            "Answers from such weights mean nothing; they show form and speed. The size puppet answers by script."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override;

 private:
  Result<int> RunGaze();
  Result<int> RunLocate();
  void Report(std::span<const std::pair<std::string, std::string>> paths) const;

  std::string model_;
  std::string size_ = "tiny";
  uint64_t seed_ = 1;
  std::filesystem::path folder_, rules_, tokenizer_;
  bool no_inout_ = false;
  bool json_ = false;
};

void SynthVerb::Declare(OptionSet& options) {
  DeclareModel(options, model_, "whose weights to make");
  options.Choice("--size", kSizes, "of the network (default tiny)", [this](size_t index) { size_ = kSizes[index]; });
  options.Whole("--seed", seed_, 0, std::numeric_limits<int64_t>::max(), "another seed, other numbers (default 1)");
  options.Folder("--out", folder_, "folder for the files; made where it is missing");
  options.Flag("--json", json_, "print the paths as JSON");
  options.Group("gaze-lle");
  options.Flag("--no-inout", no_inout_, "leave out the head that tells in from out of frame");
  options.File("--rules", rules_, "rules of synthesis (default: those built in)");
  options.Group("locate-anything");
  options.Folder("--tokenizer", tokenizer_, "folder with the tokenizer files to use (default: those built in)");
}

Status SynthVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelGiven(model_));
  if (folder_.empty()) return Fail(Code::kUsage, "--out is missing, expected a folder for the files");
  const auto* const model = std::ranges::find(kModels, model_, &Model::name);
  if (model == std::end(kModels)) return {};  // Run says so
  if (std::ranges::find(model->sizes, size_) == model->sizes.end()) {
    return Fail(Code::kUsage,
                fmt::format("--size is '{}', expected one of {} for {}", size_, fmt::join(model->sizes, ", "), model_));
  }
  for (const std::string_view option : model->foreign) {
    const bool given = option == "--no-inout" ? no_inout_ : option == "--rules" ? !rules_.empty() : !tokenizer_.empty();
    if (given) return Fail(Code::kUsage, fmt::format("{} does not belong to {}", option, model_));
  }
  return {};
}

Result<int> SynthVerb::Run() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelKnown(model_));
  return model_ == kGazeLle ? RunGaze() : RunLocate();
}

void SynthVerb::Report(std::span<const std::pair<std::string, std::string>> paths) const {
  if (json_) {
    nlohmann::ordered_json document;
    for (const auto& [name, path] : paths) document[name] = path;
    document["synthetic_weights"] = true;
    Print(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return;
  }
  for (const auto& [name, path] : paths) Print(path + "\n");
  PrintNote("these are synthetic weights: answers from them mean nothing");
}

Result<int> SynthVerb::RunGaze() {
  const SyntheticGazeOptions options{size_, !no_inout_, seed_, rules_, folder_};
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return tl::make_unexpected(ErrnoError("make folder", folder_, error.value()));
  Progress progress("making synthetic weights: tensor");
  SIGHTLINE_ASSIGN_OR_RETURN(
      const SyntheticGazeFiles files,
      WriteSyntheticGazeLle(options, [&progress](int done, int total) { progress.Show(done, total); }));
  progress.Clear();
  const std::pair<std::string, std::string> paths[] = {{"backbone", files.backbone.string()},
                                                       {"decoder", files.decoder.string()}};
  Report(paths);
  return 0;
}

Result<int> SynthVerb::RunLocate() {
  SIGHTLINE_ASSIGN_OR_RETURN(const TokenizerFiles tokenizer, ReadTokenizerFiles(tokenizer_));
  SyntheticLocateOptions options{size_, seed_, folder_, {}};
  for (const auto& [name, contents] : tokenizer) options.tokenizer.emplace_back(name, contents);
  Progress progress("making synthetic weights: tensor");
  SIGHTLINE_RETURN_IF_ERROR(
      WriteSyntheticLocateAnything(options, [&progress](int done, int total) { progress.Show(done, total); }));
  progress.Clear();
  const std::pair<std::string, std::string> paths[] = {{"folder", folder_.string()}};
  Report(paths);
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeSynthVerb() { return std::make_unique<SynthVerb>(); }

}  // namespace sightline
