#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "cli/engine_options.h"
#include "cli/locate.h"
#include "cli/locate_report.h"
#include "cli/outputs.h"
#include "cli/picture_run.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class LocateRun : public PictureRun {
 public:
  explicit LocateRun(const LocateOptions& options)
      : PictureRun(options.images, {options.decode, options.json, options.keep_going}), options_(options) {}

  // One question about all pictures.
  Status AnswerTogether();

 private:
  Status PlanFiles() override;
  Status OpenEngine() override;
  Status Answer(const ReadPicture& picture, size_t index) override;
  Status AnswerAbout(const std::vector<ReadPicture>& pictures, const std::filesystem::path& overlay);
  Result<LocateAnswer> Ask(const std::vector<ReadPicture>& pictures);
  std::string Document(const std::vector<ReadPicture>& pictures, const LocateAnswer& answer) const;

  const LocateOptions& options_;
  std::vector<std::filesystem::path> overlays_;  // one for each picture
  std::unique_ptr<LocateEngine> engine_;
};

Status LocateRun::PlanFiles() {
  SIGHTLINE_ASSIGN_OR_RETURN(overlays_, PlanOutputs("--overlay", options_.overlay, ".png", pictures()));
  return {};
}

Status LocateRun::OpenEngine() {
  auto weights = OpenLocateWeights(options_.weights, [this](int done, int total) {
    progress().Show(fmt::format("making synthetic weights, tensor {} of {}", done, total));
  });
  if (!weights) return tl::make_unexpected(weights.error());
  progress().Show("loading weights");
  LocateEngineOptions engine = options_.engine;
  engine.packing = ShowPacking(progress());
  SIGHTLINE_ASSIGN_OR_RETURN(engine_, LocateEngine::Open(*weights, engine));
  return {};
}

Result<LocateAnswer> LocateRun::Ask(const std::vector<ReadPicture>& pictures) {
  LocateRequest request;
  for (const ReadPicture& picture : pictures) request.pictures.push_back({picture.image, picture.digest});
  request.question = options_.question;
  request.scaling = options_.scaling;
  request.generation = options_.generation;
  request.progress = [this](const LocateProgress& now) { progress().Show(ProgressText(now)); };
  return engine_->Run(std::move(request));
}

std::string LocateRun::Document(const std::vector<ReadPicture>& pictures, const LocateAnswer& answer) const {
  LocateDocumentOptions document;
  document.query = JoinQuery(options_.question.query);
  document.task = options_.question.task;
  document.sampled = options_.generation.sampling.temperature > 0;
  for (const ReadPicture& picture : pictures) {
    document.pictures.push_back({.format = picture.image->format,
                                 .width = picture.image->image.width,
                                 .height = picture.image->image.height,
                                 .exif_orientation = picture.image->exif_orientation,
                                 .sha256 = picture.digest,
                                 .warnings = picture.image->warnings});
  }
  return LocateDocument(answer, engine_->info(), document);
}

Status LocateRun::AnswerAbout(const std::vector<ReadPicture>& pictures, const std::filesystem::path& overlay) {
  const auto asked = std::chrono::steady_clock::now();
  SIGHTLINE_ASSIGN_OR_RETURN(const LocateAnswer answer, Ask(pictures));
  std::chrono::duration<double, std::milli> total = std::chrono::steady_clock::now() - asked;
  for (const ReadPicture& picture : pictures) total += std::chrono::duration<double, std::milli>(picture.decode_ms);
  progress().Clear();
  if (!overlay.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto file, LocateOverlay(*pictures.front().image, answer, engine_->info()));
    SIGHTLINE_RETURN_IF_ERROR(WriteFileAtomically(overlay, file));
  }
  for (const std::string& warning : LocateWarningTexts(pictures, answer)) PrintWarning(warning);
  const std::string& name = pictures.front().name;
  if (!options_.json) {
    Print(LocateTable(name, answer, engine_->info(), total.count()));
  } else if (options_.together) {
    Print(Document(pictures, answer) + "\n");
  } else {
    PrintDocument(Document(pictures, answer), name, answer.places.empty());
  }
  return {};
}

Status LocateRun::Answer(const ReadPicture& picture, size_t index) { return AnswerAbout({picture}, overlays_[index]); }

Status LocateRun::AnswerTogether() {
  Pictures as_one = pictures();
  as_one.several = false;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto overlays, PlanOutputs("--overlay", options_.overlay, ".png", as_one));
  std::vector<ReadPicture> read;
  for (const Picture& picture : pictures().pictures) {
    SIGHTLINE_ASSIGN_OR_RETURN(ReadPicture next, Read(picture));
    read.push_back(std::move(next));
  }
  SIGHTLINE_RETURN_IF_ERROR(OpenEngine());
  return AnswerAbout(read, overlays.front());
}

}  // namespace

Result<int> LocateInPictures(const LocateOptions& options) {
  LocateRun run(options);
  if (!options.together) return run.AnswerAll();
  SIGHTLINE_RETURN_IF_ERROR(run.AnswerTogether());
  return 0;
}

}  // namespace sightline
