#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "cli/engine_options.h"
#include "cli/gaze.h"
#include "cli/outputs.h"
#include "cli/picture_run.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class GazeRun : public PictureRun {
 public:
  explicit GazeRun(const GazeOptions& options)
      : PictureRun(options.images, {options.decode, options.json, options.keep_going}), options_(options) {}

 private:
  Status PlanFiles() override;
  Status OpenEngine() override;
  Status Answer(const ReadPicture& picture, size_t index) override;
  Result<GazeAnswer> Ask(const ReadPicture& picture);
  Status WriteFiles(const Answered& answered, size_t index) const;
  void PrintAnswer(const Answered& answered) const;

  const GazeOptions& options_;
  std::vector<std::filesystem::path> overlays_, heatmaps_;  // one for each picture
  std::unique_ptr<GazeEngine> engine_;
};

Status GazeRun::PlanFiles() {
  SIGHTLINE_ASSIGN_OR_RETURN(overlays_, PlanOutputs("--overlay", options_.overlay, ".png", pictures()));
  SIGHTLINE_ASSIGN_OR_RETURN(heatmaps_, PlanOutputs("--heatmap", options_.heatmap, ".npz", pictures()));
  return {};
}

Status GazeRun::OpenEngine() {
  auto weights = OpenGazeWeights(options_.weights, [this](int done, int total) {
    progress().Show(fmt::format("making synthetic weights, tensor {} of {}", done, total));
  });
  if (!weights) return tl::make_unexpected(weights.error());
  progress().Show("loading weights");
  GazeEngineOptions engine = options_.engine;
  engine.packing = ShowPacking(progress());
  SIGHTLINE_ASSIGN_OR_RETURN(engine_, GazeEngine::Open(*std::move(weights), engine));
  return {};
}

Result<GazeAnswer> GazeRun::Ask(const ReadPicture& picture) {
  GazeRequest request;
  request.picture = picture.image;
  request.picture_digest = picture.digest;
  request.boxes = options_.boxes;
  request.units = options_.units;
  request.detect_heads = options_.detect_heads;
  request.heads = options_.heads;
  request.reference = options_.reference;
  return engine_->Run(std::move(request));
}

Status GazeRun::Answer(const ReadPicture& picture, size_t index) {
  const auto asked = std::chrono::steady_clock::now();
  Answered answered{picture.name, picture.image, picture.digest, {}, 0};
  SIGHTLINE_ASSIGN_OR_RETURN(answered.answer, Ask(picture));
  const std::chrono::duration<double, std::milli> asking = std::chrono::steady_clock::now() - asked;
  answered.total_ms = picture.decode_ms + asking.count();
  progress().Clear();
  SIGHTLINE_RETURN_IF_ERROR(WriteFiles(answered, index));
  PrintAnswer(answered);
  return {};
}

Status GazeRun::WriteFiles(const Answered& answered, size_t index) const {
  if (!overlays_[index].empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto overlay, OverlayFile(answered, engine_->info(), options_.blend_heatmap));
    SIGHTLINE_RETURN_IF_ERROR(WriteFileAtomically(overlays_[index], overlay));
  }
  if (heatmaps_[index].empty()) return {};
  return WriteFileAtomically(heatmaps_[index], HeatmapFile(answered.answer));
}

void GazeRun::PrintAnswer(const Answered& answered) const {
  for (const std::string& warning : WarningTexts(answered)) PrintWarning(warning);
  if (!options_.json) return Print(TableText(answered, engine_->info()));
  GazeDocumentOptions document;
  document.heatmap_format = options_.heatmap_format;
  document.image_sha256 = answered.digest;
  document.total_ms = answered.total_ms;
  PrintDocument(GazeDocument(answered.answer, *answered.picture, engine_->info(), document), answered.name,
                answered.answer.people.empty());
}

}  // namespace

Result<int> AnswerPictures(const GazeOptions& options) { return GazeRun(options).AnswerAll(); }

}  // namespace sightline
