#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/engine_options.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sightline {
namespace {

class BenchVerb : public Verb {
 public:
  VerbText text() const override {
    return {
        "bench", "Time a model stage by stage", "sightline bench gaze-lle --synthetic --iterations 20",
        "share: of the most this machine computes on the same threads in the same format, measured in the same run."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override { return CheckModelGiven(model_); }
  Result<int> Run() override;

 private:
  std::string model_;
  GazeWeightsOptions weights_;
  GazeBenchOptions bench_;
  bool json_ = false;
};

// What the run took and where it ran, beside the bench itself.
struct Machine {
  std::string processor;    // "AMD EPYC 9554 64-Core Processor", as the kernel names it
  double rss_mib = 0;       // after the last pass
  double peak_rss_mib = 0;  // of the whole run, packing included
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

double TenToOne(const GazeBench& bench) {
  return bench.model_one_head.best_ms > 0 ? bench.model_ten_heads.best_ms / bench.model_one_head.best_ms : 0;
}

std::string StageRow(const BenchStage& stage) {
  return fmt::format("{:<28}{:>10.2f}{:>10.2f}{:>10.2f}{:>8.1f} %\n", stage.name, stage.best_ms, stage.median_ms,
                     stage.gflop, stage.share_of_limit * 100);
}

std::string Table(const GazeBench& bench, const Machine& machine) {
  const GazeEngineInfo& info = bench.info;
  std::string text = fmt::format("gaze-lle {}{}, {}, {}, on {}\n", info.dimensions.variant(),
                                 info.synthetic ? " [synthetic weights]"
                                 : info.toy     ? " [toy weights]"
                                                : "",
                                 info.device, NameOf(info.precision), machine.processor);
  text += fmt::format("{:<28}{:>10}{:>10}{:>10}{:>10}\n", "stage", "best ms", "median", "GFLOP", "share");
  for (const BenchStage& stage : bench.stages) text += StageRow(stage);
  for (const BenchStage* total : {&bench.backbone, &bench.model_one_head, &bench.model_ten_heads}) {
    text += StageRow(*total);
  }
  return text + fmt::format(
                    "ten heads / one head: {:.2f}\npeak: {:.0f} GFLOP/s\nload: {:.0f} ms\nmemory: {:.0f} MiB, at most "
                    "{:.0f} MiB, activations {:.0f} MiB\noutput: sha256 {}\n",
                    TenToOne(bench), bench.peak_gflops, bench.load_ms, machine.rss_mib, machine.peak_rss_mib,
                    static_cast<double>(bench.activation_bytes) / (1 << 20), bench.output_sha256);
}

nlohmann::ordered_json StageJson(const BenchStage& stage) {
  return {{"name", stage.name},
          {"best_ms", stage.best_ms},
          {"median_ms", stage.median_ms},
          {"gflop", stage.gflop},
          {"share_of_peak", stage.share_of_limit}};
}

std::string Json(const GazeBench& bench, const Machine& machine) {
  const GazeEngineInfo& info = bench.info;
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const BenchStage& stage : bench.stages) stages.push_back(StageJson(stage));
  const nlohmann::ordered_json document = {{"model", "gaze-lle"},
                                           {"variant", info.dimensions.variant()},
                                           {"synthetic", info.synthetic},
                                           {"toy", info.toy},
                                           {"processor", machine.processor},
                                           {"isa", info.isa},
                                           {"threads", info.threads},
                                           {"precision", NameOf(info.precision)},
                                           {"stages", stages},
                                           {"backbone", StageJson(bench.backbone)},
                                           {"model_one_head", StageJson(bench.model_one_head)},
                                           {"model_ten_heads", StageJson(bench.model_ten_heads)},
                                           {"ten_to_one", TenToOne(bench)},
                                           {"peak_gflops", bench.peak_gflops},
                                           {"load_ms", bench.load_ms},
                                           {"rss_mib", machine.rss_mib},
                                           {"peak_rss_mib", machine.peak_rss_mib},
                                           {"activation_bytes", bench.activation_bytes},
                                           {"output_sha256", bench.output_sha256}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void BenchVerb::Declare(OptionSet& options) {
  DeclareModel(options, model_, "what to time");
  options.Group("Measuring");
  options.Whole("--iterations", bench_.iterations, 1, 100'000, "passes to time (default 10)");
  DeclareWeights(options, weights_);
  DeclareCompute(options, bench_.precision, bench_.threads);
  options.Group("Results");
  options.Flag("--json", json_, "print JSON instead of a table");
}

Result<int> BenchVerb::Run() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelKnown(model_));
  if (model_ != kGazeLle) return Fail(Code::kUnsupported, fmt::format("bench does not time {} here", model_));
  Progress progress("sightline:");
  auto weights = OpenGazeWeights(weights_, [&progress](int done, int total) {
    progress.Show(fmt::format("making synthetic weights, tensor {} of {}", done, total));
  });
  if (!weights) return tl::make_unexpected(weights.error());
  progress.Show("loading weights");
  Machine machine;
  machine.processor = ProcValue("/proc/cpuinfo", "model name");
  const auto after_pass = [&progress, &machine](int done, int total) {
    machine.rss_mib = StatusMib("VmRSS");  // while the model is there
    progress.Show(fmt::format("pass {} of {}", done, total));
  };
  SIGHTLINE_ASSIGN_OR_RETURN(const GazeBench bench, BenchGazeLle(*std::move(weights), bench_, after_pass));
  machine.peak_rss_mib = StatusMib("VmHWM");
  progress.Clear();
  Print(json_ ? Json(bench, machine) : Table(bench, machine));
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeBenchVerb() { return std::make_unique<BenchVerb>(); }

}  // namespace sightline
