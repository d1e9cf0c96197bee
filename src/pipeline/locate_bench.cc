#include <algorithm>
#include <numeric>

#include "pipeline/locate_picture.h"
#include "pipeline/packed_cache.h"
#include "pipeline/pipeline.h"
#include "pipeline/stage_clock.h"

namespace sightline {
namespace {

// The published measuring point: a 1920x1080 picture at 1024 patches, one category, 303 tokens.
constexpr PatchGrid kGrid{24, 44};
constexpr int64_t kPromptTokens = 303;
constexpr int64_t kTailTokens = 19;     // of the prompt that follow the picture
constexpr int64_t kQuestionTokens = 7;  // of those, the category and the closing: the rest is the task's own text
constexpr int kFiveBoxSteps = 7;        // label, five boxes, end
constexpr TokenId kAnyToken = 9152;
// A pass repeats what is short, so that its best time is found as surely as that of the long parts.
constexpr int kWindowRepeats = 8, kSingleRepeats = 8, kQuestionRepeats = 2;

std::vector<TokenId> Prompt(const LocateConfig& config) {
  std::vector<TokenId> prompt(kPromptTokens, std::min(kAnyToken, config.language.vocabulary - 1));
  std::fill_n(prompt.end() - kTailTokens - kGrid.tokens(), kGrid.tokens(), config.tokens.image);
  return prompt;
}

// One model, timed part by part.
class Bench {
 public:
  Bench(Isa isa, Backend& backend, LocateAnything& model)
      : isa_(isa),
        backend_(backend),
        model_(model),
        prompt_(Prompt(model.config())),
        vision_(backend, "vision "),
        prefill_(backend, "prefill "),
        window_(backend, "window step "),
        single_(backend, "single step "),
        five_boxes_(backend, ""),
        second_question_(backend, "") {
    const Image image{kGrid.width * kPatchSize, kGrid.height * kPatchSize,
                      SyntheticRgb(1, kGrid.width * kPatchSize, kGrid.height * kPatchSize)};
    patches_ = PrepareLocatePicture(image, {.grid = kGrid}, "image")->patches;
  }

  Status Pass();
  LocateBench Result(double vision_peak, double language_peak) const;

 private:
  Status Encode();
  Status Steps(StageClock& clock, int count, std::vector<double>& rates, FunctionRef<Status()> step);
  Status Step(LocateAnything::Session& session, std::span<const TokenId> ids, bool window, int64_t logit_rows);
  Status FiveBoxes();
  Status SecondQuestion(const LocateAnything::Session& first);

  const Isa isa_;
  Backend& backend_;
  LocateAnything& model_;
  const std::vector<TokenId> prompt_;
  std::vector<float> patches_;
  std::shared_ptr<const std::vector<float>> rows_;
  std::vector<float> logits_;
  StageClock vision_, prefill_, window_, single_;
  std::vector<double> window_rates_, single_rates_;  // GB/s that memory gave beside each step
  StageClock five_boxes_;                            // without vision, which is that of vision_
  StageClock second_question_;
};

Status Bench::Encode() {
  SIGHTLINE_ASSIGN_OR_RETURN(std::vector<float> rows, model_.Encode(patches_, kGrid));
  rows_ = std::make_shared<const std::vector<float>>(std::move(rows));
  return {};
}

Status Bench::Step(LocateAnything::Session& session, std::span<const TokenId> ids, bool window, int64_t logit_rows) {
  return session.Forward({.ids = ids, .last = ids.back(), .window = window, .logit_rows = logit_rows}, {}, &logits_);
}

// What a request with five boxes computes after the picture: the prompt with its window, and a window a box.
Status Bench::FiveBoxes() {
  const auto session = model_.NewSession(kPromptTokens + kWindow * kFiveBoxSteps);
  session->SetImages(rows_);
  SIGHTLINE_RETURN_IF_ERROR(Step(*session, prompt_, true, 0));
  for (int i = 1; i < kFiveBoxSteps; ++i) {
    SIGHTLINE_RETURN_IF_ERROR(Step(*session, std::span(prompt_).first(kWindow), true, 0));
  }
  return {};
}

// The first box of another category in the same picture: what is new in the prompt, the label, the box.
Status Bench::SecondQuestion(const LocateAnything::Session& first) {
  const auto session = model_.NewSession(kPromptTokens + kWindow * kFiveBoxSteps);
  session->CopyPrefix(first, kPromptTokens - kQuestionTokens);
  SIGHTLINE_RETURN_IF_ERROR(Step(*session, std::span(prompt_).last(kQuestionTokens), true, 0));
  return Step(*session, std::span(prompt_).first(kWindow / 2), true, 0);
}

// Steps that wait for memory, whose rate is measured before and after each.
Status Bench::Steps(StageClock& clock, int count, std::vector<double>& rates, FunctionRef<Status()> step) {
  const auto weights = model_.language_weights();
  const auto measure = [&] { return MeasureReadRate(isa_, backend_.threads(), weights) / 1e9; };
  double before = measure();
  for (int i = 0; i < count; ++i) {
    SIGHTLINE_RETURN_IF_ERROR(clock.Run(step));
    const double after = measure();
    rates.push_back((before + after) / 2);
    before = after;
  }
  return {};
}

Status Bench::Pass() {
  SIGHTLINE_RETURN_IF_ERROR(vision_.Run([&] { return Encode(); }));
  const auto session = model_.NewSession(kPromptTokens + 2 * kWindow);
  session->SetImages(rows_);
  SIGHTLINE_RETURN_IF_ERROR(prefill_.Run([&] { return Step(*session, prompt_, false, 1); }));
  const std::span<const TokenId> six = std::span(prompt_).first(kWindow);
  SIGHTLINE_RETURN_IF_ERROR(Steps(window_, kWindowRepeats, window_rates_, [&] {
    session->Crop(kPromptTokens);
    return Step(*session, six, true, 0);
  }));
  SIGHTLINE_RETURN_IF_ERROR(Steps(single_, kSingleRepeats, single_rates_, [&] {
    session->Crop(kPromptTokens + kWindow);
    return Step(*session, six.first(1), false, 1);
  }));
  SIGHTLINE_RETURN_IF_ERROR(five_boxes_.Run([&] { return FiveBoxes(); }));
  for (int i = 0; i < kQuestionRepeats; ++i) {
    SIGHTLINE_RETURN_IF_ERROR(second_question_.Run([&] { return SecondQuestion(*session); }));
  }
  return {};
}

LocateBench Bench::Result(double vision_peak, double language_peak) const {
  LocateBench bench;
  vision_.Append(vision_peak, &bench.stages);
  for (const StageClock* clock : {&prefill_, &window_, &single_}) clock->Append(language_peak, &bench.stages);
  const auto of_steps = [&](const StageClock& clock, const std::vector<double>& rates, const char* name) {
    StageTimes times = clock.total();
    for (const auto& weights : model_.language_weights()) times.gbyte += static_cast<double>(weights.size()) / 1e9;
    times.pass_gbytes_per_second = rates;
    bench.read_gbytes_per_second = std::max(bench.read_gbytes_per_second, std::ranges::max(rates));
    return times.Summarize(name, language_peak);
  };
  bench.vision = vision_.total().Summarize("vision, 1056 patches", vision_peak);
  bench.prefill = prefill_.total().Summarize("prefill, 303 tokens", language_peak);
  bench.window_step = of_steps(window_, window_rates_, "window step, 12 rows");
  bench.single_step = of_steps(single_, single_rates_, "single step, 1 row");
  bench.five_boxes = (vision_.total() + five_boxes_.total()).Summarize("request, five boxes", language_peak);
  bench.second_question = second_question_.total().Summarize("second question, first box", language_peak);
  bench.output_sha256 = Sha256Hex(AsBytes(logits_));
  bench.activation_bytes = backend_.allocated_bytes();
  return bench;
}

}  // namespace

Result<LocateBench> BenchLocateAnything(const LocateWeights& weights, const LocateBenchOptions& options,
                                        const std::function<void(int done, int total)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, DetectIsa());
  const auto backend = MakeCpuBackend({.threads = options.threads, .isa = isa});
  const std::filesystem::path cache = CacheFolderOrMemory();
  const Stopwatch load;
  std::vector<std::string> warnings;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto model, LocateAnything::Load(*backend, weights.folder, options.precision, cache,
                                                                    &warnings, options.packing));
  for (const std::string& warning : warnings) LogWarning(warning);
  const double load_ms = load.ms();

  double vision_peak = 0, language_peak = 0;
  const auto measure_peaks = [&] {
    const auto peak = [&](Precision precision) { return MeasurePeakFlops(isa, precision, backend->threads()) / 1e9; };
    vision_peak = std::max(vision_peak, peak(options.precision.vision));
    language_peak = std::max(language_peak, peak(options.precision.language));
  };
  measure_peaks();
  SIGHTLINE_RETURN_IF_ERROR(Bench(isa, *backend, *model).Pass());  // brings weights and memory in
  Bench bench(isa, *backend, *model);
  for (int i = 0; i < options.iterations; ++i) {
    measure_peaks();
    SIGHTLINE_RETURN_IF_ERROR(bench.Pass());
    if (progress) progress(i + 1, options.iterations);
  }
  LocateBench result = bench.Result(vision_peak, language_peak);
  result.vision_peak_gflops = vision_peak;
  result.language_peak_gflops = language_peak;
  result.packed_bytes = model->packed_bytes();
  result.load_ms = load_ms;
  result.device = backend->name();
  result.isa = backend->isa();
  result.threads = backend->threads();
  result.precision = options.precision;
  result.variant = model->config().variant();
  result.synthetic = weights.synthetic;
  return result;
}

}  // namespace sightline
