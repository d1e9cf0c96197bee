#include "cli/locate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/engine_options.h"
#include "cli/verb.h"

namespace sightline {
namespace {

constexpr int64_t kMostTokens = 32'768;       // of the language model
constexpr int64_t kMostPatches = 25'600;      // of a picture, as the published files have it
constexpr int64_t kDefaultNewTokens = 1'024;  // of an answer

class LocateVerb : public Verb {
 public:
  LocateVerb() { locate_.generation.max_new_tokens = kDefaultNewTokens; }
  VerbText text() const override;
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override { return LocateInPictures(locate_); }

 private:
  void DeclareQuestion(OptionSet& options);
  void DeclareAnswering(OptionSet& options);
  void DeclareResults(OptionSet& options);
  Status CheckQuestion();
  Status CheckPictures();

  LocateOptions locate_;
  std::string image_, prompt_, grid_;
  std::vector<std::string> more_images_;
};

VerbText LocateVerb::text() const {
  return {
      "locate", "Find what a text names in pictures",
      "sightline locate photo.jpg car \"traffic light\" --overlay out.png\n"
      "sightline locate screen.png \"the search button\" --task gui_point --json",
      "Several pictures: one answer each, and a bad one does not stop the rest. The exit code is that of the first\n"
      "one that failed, or 20 with --keep-going. Nothing found is an answer too."};
}

void LocateVerb::Declare(OptionSet& options) {
  options.Argument("IMAGE", image_, "FILE", "JPEG, PNG or WebP: a file, a folder of them, - for standard input");
  options.Argument("QUERY", locate_.question.query, "TEXT", "what to find: one category each, or one phrase");
  DeclareQuestion(options);
  DeclareWeights(options, locate_.weights);
  DeclareCompute(options, locate_.engine.precision, locate_.engine.threads);
  DeclareAnswering(options);
  DeclareResults(options);
}

void LocateVerb::DeclareQuestion(OptionSet& options) {
  options.Group("Question");
  std::vector<LocateTask> tasks;
  for (int i = 0; i < static_cast<int>(LocateTask::kRaw); ++i) tasks.push_back(static_cast<LocateTask>(i));
  options.Choice("--task", locate_.question.task, tasks, "what is asked of QUERY (default detect)");
  options.Text("--prompt", prompt_, "TEXT", "a prompt of your own instead of QUERY");
  options.Repeated("--image", more_images_, "FILE", "a further picture, or folder; again for each");
  options.Flag("--together", locate_.together, "one question about all pictures, instead of one for each");
  options.Whole("--in-token-limit", locate_.scaling.token_limit, 4, kMostPatches,
                "patches of 14 pixels a picture may have (default 1024)");
  options.Text("--grid", grid_, "HxW", "press pictures into so many patches, as in 24x44 (default native)");
  options.Whole("--max-pixels", locate_.decode.max_pixels, 1, kMostPixels,
                "refuse larger pictures (default 100000000)");
}

void LocateVerb::DeclareAnswering(OptionSet& options) {
  GenerationOptions& generation = locate_.generation;
  SamplingOptions& sampling = generation.sampling;
  options.Group("Answering");
  options.Choice("--mode", generation.mode,
                 std::vector{DecodingMode::kHybrid, DecodingMode::kFast, DecodingMode::kSlow},
                 "how tokens are decoded (default hybrid)");
  options.Flag("--reference", generation.reference, "as the published program, without guards; EXIF and alpha ignored");
  options.Whole("--max-new-tokens", generation.max_new_tokens, 1, kMostTokens, "of the answer (default 1024)");
  options.Real("--temperature", sampling.temperature, 0, 100, "0: the most probable token (default)");
  options.Real("--top-p", sampling.top_p, 0, 1,
               "choose among the most probable that have so much together (default 1)");
  options.Whole("--top-k", sampling.top_k, 0, 1'000'000, "choose among the N most probable; 0: all (default)");
  options.Real("--repetition-penalty", sampling.repetition_penalty, 0.1, 10, "default 1");
  options.Whole("--seed", sampling.seed, 0, std::numeric_limits<int64_t>::max(), "of drawing tokens (default 0)");
}

void LocateVerb::DeclareResults(OptionSet& options) {
  options.Group("Results");
  options.Flag("--json", locate_.json, "print what the server answers, one line a picture, instead of a table");
  options.File("--overlay", locate_.overlay, "draw boxes and points into this PNG; several pictures: a folder");
  options.Flag("--keep-going", locate_.keep_going, "exit with 20 where some of several pictures failed");
}

Status LocateVerb::CheckPictures() {
  if (image_.empty())
    return Fail(Code::kUsage, "no picture is given, expected a file, a folder or - for standard input");
  locate_.images = {image_};
  locate_.images.insert(locate_.images.end(), more_images_.begin(), more_images_.end());
  if (std::ranges::count(locate_.images, "-") > 1) {
    return Fail(Code::kUsage, "standard input (-) is given twice, expected once");
  }
  if (locate_.together && locate_.keep_going) {
    return Fail(Code::kUsage, "--keep-going is for one answer a picture, and --together gives one for all");
  }
  locate_.decode.reference = locate_.generation.reference;
  return {};
}

Status LocateVerb::CheckQuestion() {
  LocateQuestion& question = locate_.question;
  if (!prompt_.empty()) {
    if (!question.query.empty()) return Fail(Code::kUsage, "--prompt and QUERY are both given, expected one of them");
    question.task = LocateTask::kRaw;
    question.query = {prompt_};
    question.reference = locate_.generation.reference;
    return {};
  }
  const bool none = question.task == LocateTask::kReadText;
  if (none && !question.query.empty()) return Fail(Code::kUsage, "QUERY is given, but --task read_text takes none");
  if (!none && question.query.empty()) return Fail(Code::kUsage, "no QUERY is given, expected what to find");
  if (question.task != LocateTask::kDetect && question.query.size() > 1) {
    return Fail(Code::kUsage, fmt::format("{} texts are given, but --task {} takes one: put it in quotes",
                                          question.query.size(), NameOf(question.task)));
  }
  return {};
}

Status LocateVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckPictures());
  SIGHTLINE_RETURN_IF_ERROR(CheckQuestion());
  if (!grid_.empty()) {
    auto grid = ParseGrid(grid_, "--grid");
    if (!grid) return Fail(Code::kUsage, grid.error().message);
    locate_.scaling.grid = *grid;
  }
  if (const Status checked = CheckGenerationOptions(locate_.generation); !checked) {
    return Fail(Code::kUsage, checked.error().message);
  }
  return {};
}

}  // namespace

std::unique_ptr<Verb> MakeLocateVerb() { return std::make_unique<LocateVerb>(); }

}  // namespace sightline
