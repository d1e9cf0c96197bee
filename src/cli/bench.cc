#include <fmt/format.h>

#include <fstream>

#include "cli/bench_report.h"
#include "cli/engine_options.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sightline {
namespace {

class BenchVerb : public Verb {
 public:
  VerbText text() const override {
    return {
        "bench", "Time a model stage by stage",
        "sightline bench gaze-lle --synthetic --iterations 20\n"
        "sightline bench locate-anything --synthetic --precision int4",
        "best: the sum of each operation's best time over all passes; fastest and median: of whole passes.\n"
        "share: best against the most this machine computes on the same threads in the same format, the best of short\n"
        "moments of the run; for steps of few rows the median of each step against what it could compute or memory "
        "gave\n"
        "right beside it, whichever is slower."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override;

 private:
  using Report = std::function<void(int done, int total)>;

  Result<int> TimeGaze(Report making, Report after_pass);
  Result<int> TimeLocate(Report making, Report after_pass);
  Result<int> MeasureDrift(const LocateWeights& weights, LocatePrecision precision);
  template <typename Bench>
  void Show(const Bench& bench);

  std::optional<OptionSet> declared_;
  EitherModel model_;
  GazeWeightsOptions gaze_weights_;
  std::optional<int> iterations_;
  bool drift_ = false;
  bool json_ = false;
  BenchMachine machine_;
  Progress progress_{"sightline:"};
};

// The text after "key:" in a file of such lines, as under /proc; empty where there is none.
std::string ProcValue(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return {};
}

double StatusMib(std::string_view key) {
  const std::string text = ProcValue("/proc/self/status", key);  // "  123456 kB"
  return static_cast<double>(std::strtoll(text.c_str(), nullptr, 10)) / 1024.0;
}

void BenchVerb::Declare(OptionSet& options) {
  DeclareModel(options, model_.name, "what to time");
  options.Group("Measuring");
  options.Whole("--iterations", iterations_, 1, 100'000, "passes to time (default 10, of locate-anything 5)");
  DeclareEither(options, model_);
  DeclareGazeWeights(options, gaze_weights_);
  options.Group(kLocateAnything);
  options.Flag("--drift", drift_, "compare answers with those of the most exact format instead of timing");
  options.Group("Results");
  options.Flag("--json", json_, "print JSON instead of a table");
  declared_.emplace(options);
}

Status BenchVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelGiven(model_.name));
  return CheckModelKnown(model_.name) ? CheckForeign(*declared_, model_) : Status();
}

template <typename Bench>
void BenchVerb::Show(const Bench& bench) {
  machine_.peak_rss_mib = StatusMib("VmHWM");
  progress_.Clear();
  Print(json_ ? BenchJson(bench, machine_) : BenchTable(bench, machine_));
}

Result<int> BenchVerb::TimeGaze(Report making, Report after_pass) {
  auto weights = OpenGazeWeights(GazeWeightsOf(model_, gaze_weights_), making);
  if (!weights) return tl::make_unexpected(weights.error());
  progress_.Show("loading weights");
  GazeBenchOptions options{.threads = model_.threads, .precision = model_.precision};
  options.iterations = iterations_.value_or(options.iterations);
  options.packing = ShowPacking(progress_);
  SIGHTLINE_ASSIGN_OR_RETURN(const GazeBench bench, BenchGazeLle(*std::move(weights), options, after_pass));
  Show(bench);
  return 0;
}

Result<int> BenchVerb::TimeLocate(Report making, Report after_pass) {
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateWeights weights, OpenLocateWeights(LocateWeightsOf(model_), making));
  progress_.Show("loading weights");
  LocateBenchOptions options;
  options.threads = model_.threads;
  options.packing = ShowPacking(progress_);
  options.iterations = iterations_.value_or(options.iterations);
  if (model_.precision) options.precision = LocatePrecisionOf(*model_.precision);
  if (drift_) return MeasureDrift(weights, options.precision);
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateBench bench, BenchLocateAnything(weights, options, after_pass));
  Show(bench);
  return 0;
}

Result<int> BenchVerb::MeasureDrift(const LocateWeights& weights, LocatePrecision precision) {
  LocateDriftOptions options;
  options.threads = model_.threads;
  options.precision = precision;
  options.packing = ShowPacking(progress_);
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateDrift drift, MeasureLocateDrift(weights, options, [this](int done, int total) {
                               progress_.Show(fmt::format("answer {} of {}", done, total));
                             }));
  progress_.Clear();
  Print(json_ ? DriftJson(drift, precision, weights.synthetic) : DriftTable(drift, precision, weights.synthetic));
  return 0;
}

Result<int> BenchVerb::Run() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelKnown(model_.name));
  machine_.processor = ProcValue("/proc/cpuinfo", "model name");
  const auto making = [this](int done, int total) {
    progress_.Show(fmt::format("making synthetic weights, tensor {} of {}", done, total));
  };
  const auto after_pass = [this](int done, int total) {
    machine_.rss_mib = StatusMib("VmRSS");  // while the model is there
    progress_.Show(fmt::format("pass {} of {}", done, total));
  };
  return model_.name == kGazeLle ? TimeGaze(making, after_pass) : TimeLocate(making, after_pass);
}

}  // namespace

std::unique_ptr<Verb> MakeBenchVerb() { return std::make_unique<BenchVerb>(); }

}  // namespace sightline
