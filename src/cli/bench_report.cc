#include "cli/bench_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace sightline {
namespace {

using Json = nlohmann::ordered_json;

double TenToOne(const GazeBench& bench) {
  return bench.model_one_head.best_ms > 0 ? bench.model_ten_heads.best_ms / bench.model_one_head.best_ms : 0;
}

std::string StageHead() {
  return fmt::format("{:<42}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "stage", "best ms", "fastest", "median", "GFLOP",
                     "share");
}

std::string TimesRow(const BenchStage& stage) {
  return fmt::format("{:<42}{:>10.2f}{:>10.2f}{:>10.2f}", stage.name, stage.best_ms, stage.fastest_ms, stage.median_ms);
}

std::string StageRow(const BenchStage& stage) {
  return TimesRow(stage) + fmt::format("{:>10.2f}{:>8.1f} %\n", stage.gflop, stage.share_of_limit * 100);
}

// What the columns mean.
constexpr std::string_view kLegend =
    "best: sum over operations of each one's best time; fastest, median: of whole passes; share: best against the "
    "peak\n";

}  // namespace

std::string BenchTable(const GazeBench& bench, const BenchMachine& machine) {
  const GazeEngineInfo& info = bench.info;
  std::string text = fmt::format("gaze-lle {}{}, {}, {}, on {}\n", info.dimensions.variant(),
                                 info.synthetic ? " [synthetic weights]"
                                 : info.toy     ? " [toy weights]"
                                                : "",
                                 info.device, NameOf(info.precision), machine.processor);
  text += StageHead();
  for (const BenchStage& stage : bench.stages) text += StageRow(stage);
  for (const BenchStage* total : {&bench.backbone, &bench.model_one_head, &bench.model_ten_heads}) {
    text += StageRow(*total);
  }
  return text + std::string(kLegend) +
         fmt::format(
             "ten heads / one head: {:.2f}\npeak: {:.0f} GFLOP/s\nload: {:.0f} ms\nmemory: {:.0f} MiB, at most "
             "{:.0f} MiB, activations {:.0f} MiB\noutput: sha256 {}\n",
             TenToOne(bench), bench.peak_gflops, bench.load_ms, machine.rss_mib, machine.peak_rss_mib,
             static_cast<double>(bench.activation_bytes) / (1 << 20), bench.output_sha256);
}

namespace {

Json TimesJson(const BenchStage& stage) {
  return {{"best_ms", stage.best_ms}, {"fastest_ms", stage.fastest_ms}, {"median_ms", stage.median_ms}};
}

Json StageJson(const BenchStage& stage) {
  Json json = {{"name", stage.name}};
  json.update(TimesJson(stage));
  json.update({{"gflop", stage.gflop}, {"share_of_peak", stage.share_of_limit}});
  return json;
}

Json StagesJson(const std::vector<BenchStage>& stages) {
  Json list = Json::array();
  for (const BenchStage& stage : stages) list.push_back(StageJson(stage));
  return list;
}

std::string Text(const Json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string BenchJson(const GazeBench& bench, const BenchMachine& machine) {
  const GazeEngineInfo& info = bench.info;
  const Json document = {{"model", "gaze-lle"},
                         {"variant", info.dimensions.variant()},
                         {"synthetic", info.synthetic},
                         {"toy", info.toy},
                         {"processor", machine.processor},
                         {"isa", info.isa},
                         {"threads", info.threads},
                         {"precision", NameOf(info.precision)},
                         {"stages", StagesJson(bench.stages)},
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
  return Text(document);
}

std::string BenchTable(const LocateBench& bench, const BenchMachine& machine) {
  std::string text = fmt::format("locate-anything {}{}, {}, vision {}, language {}, on {}\n", bench.variant,
                                 bench.synthetic ? " [synthetic weights]" : "", bench.device,
                                 NameOf(bench.precision.vision), NameOf(bench.precision.language), machine.processor);
  text += StageHead();
  for (const BenchStage& stage : bench.stages) text += StageRow(stage);
  for (const BenchStage* part : {&bench.vision, &bench.prefill, &bench.window_step, &bench.single_step}) {
    text += StageRow(*part);
  }
  for (const BenchStage* whole : {&bench.five_boxes, &bench.second_question}) {
    text += TimesRow(*whole) + "\n";
  }
  return text + std::string(kLegend) +
         fmt::format(
             "boxes a second, after the prompt: {:.2f}\npeak: vision {:.0f} GFLOP/s, language {:.0f} GFLOP/s; "
             "memory read: {:.1f} GB/s\nload: {:.0f} ms\nmemory: {:.0f} MiB, at most {:.0f} MiB, packed weights "
             "{:.0f} MiB, activations {:.0f} MiB\noutput: sha256 {}\n",
             1000 / bench.window_step.best_ms, bench.vision_peak_gflops, bench.language_peak_gflops,
             bench.read_gbytes_per_second, bench.load_ms, machine.rss_mib, machine.peak_rss_mib,
             static_cast<double>(bench.packed_bytes) / (1 << 20),
             static_cast<double>(bench.activation_bytes) / (1 << 20), bench.output_sha256);
}

std::string BenchJson(const LocateBench& bench, const BenchMachine& machine) {
  return Text({{"model", "locate-anything"},
               {"variant", bench.variant},
               {"synthetic", bench.synthetic},
               {"processor", machine.processor},
               {"isa", bench.isa},
               {"threads", bench.threads},
               {"precision_vision", NameOf(bench.precision.vision)},
               {"precision_language", NameOf(bench.precision.language)},
               {"stages", StagesJson(bench.stages)},
               {"vision", StageJson(bench.vision)},
               {"prefill", StageJson(bench.prefill)},
               {"window_step", StageJson(bench.window_step)},
               {"single_step", StageJson(bench.single_step)},
               {"five_boxes", TimesJson(bench.five_boxes)},
               {"second_question", TimesJson(bench.second_question)},
               {"boxes_per_second", 1000 / bench.window_step.best_ms},
               {"vision_peak_gflops", bench.vision_peak_gflops},
               {"language_peak_gflops", bench.language_peak_gflops},
               {"read_gbytes_per_second", bench.read_gbytes_per_second},
               {"load_ms", bench.load_ms},
               {"rss_mib", machine.rss_mib},
               {"peak_rss_mib", machine.peak_rss_mib},
               {"packed_bytes", bench.packed_bytes},
               {"activation_bytes", bench.activation_bytes},
               {"output_sha256", bench.output_sha256}});
}

std::string DriftTable(const LocateDrift& drift, LocatePrecision precision, bool synthetic) {
  std::string text = fmt::format("locate-anything{}: language {} against {}\n", synthetic ? " [synthetic weights]" : "",
                                 NameOf(precision.language), NameOf(drift.reference.language));
  text += fmt::format("same most probable token: {:.1f} % of {} rows\ncorrelation of logits: {:.5f}\n",
                      drift.top1_agreement * 100, drift.rows, drift.correlation);
  if (drift.boxes == 0) return text + "boxes: none in the reference's answers\n";
  return text + fmt::format("mean IoU of {} boxes: {:.4f}\n", drift.boxes, drift.mean_iou);
}

std::string DriftJson(const LocateDrift& drift, LocatePrecision precision, bool synthetic) {
  return Text({{"model", "locate-anything"},
               {"synthetic", synthetic},
               {"precision_language", NameOf(precision.language)},
               {"reference_language", NameOf(drift.reference.language)},
               {"rows", drift.rows},
               {"top1_agreement", drift.top1_agreement},
               {"logits_correlation", drift.correlation},
               {"boxes", drift.boxes},
               {"mean_iou", drift.boxes == 0 ? Json(nullptr) : Json(drift.mean_iou)}});
}

}  // namespace sightline
