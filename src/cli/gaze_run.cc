#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "cli/gaze.h"
#include "cli/outputs.h"
#include "cli/pictures.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 30;
constexpr int kSomeFailed = 20;  // exit code of --keep-going

// One run of `sightline gaze`: weights are loaded when the first readable picture asks for them, so that a mistyped
// name costs nothing.
class Run {
 public:
  Run(const GazeOptions& options, const Pictures& pictures)
      : options_(options), pictures_(pictures), progress_("sightline:") {}

  Result<int> AnswerAll();

 private:
  using Clock = std::chrono::steady_clock;
  Status PlanFiles();
  Status OpenEngine();
  Status AnswerOne(size_t index);
  Result<Answered> Answer(const Picture& picture);
  Result<GazeAnswer> Ask(const Answered& read);
  Status WriteFiles(const Answered& answered, size_t index) const;
  void PrintAnswer(const Answered& answered) const;
  void PrintFailure(const Picture& picture, const Error& error) const;

  const GazeOptions& options_;
  const Pictures& pictures_;
  Progress progress_;
  std::vector<std::filesystem::path> overlays_, heatmaps_;  // one for each picture
  std::unique_ptr<GazeEngine> engine_;
  bool engine_failed_ = false;
};

Status Run::PlanFiles() {
  SIGHTLINE_ASSIGN_OR_RETURN(overlays_, PlanOutputs("--overlay", options_.overlay, ".png", pictures_));
  SIGHTLINE_ASSIGN_OR_RETURN(heatmaps_, PlanOutputs("--heatmap", options_.heatmap, ".npz", pictures_));
  return {};
}

Status Run::OpenEngine() {
  if (engine_ != nullptr) return {};
  engine_failed_ = true;
  auto weights = OpenGazeWeights(options_.weights, [this](int done, int total) {
    progress_.Show(fmt::format("making synthetic weights, tensor {} of {}", done, total));
  });
  if (!weights) return tl::make_unexpected(weights.error());
  progress_.Show("loading weights");
  SIGHTLINE_ASSIGN_OR_RETURN(engine_, GazeEngine::Open(*std::move(weights), options_.engine));
  engine_failed_ = false;
  return {};
}

Result<GazeAnswer> Run::Ask(const Answered& read) {
  GazeRequest request;
  request.picture = read.picture;
  request.picture_digest = read.digest;
  request.boxes = options_.boxes;
  request.units = options_.units;
  request.detect_heads = options_.detect_heads;
  request.heads = options_.heads;
  request.reference = options_.reference;
  return engine_->Run(std::move(request));
}

Result<Answered> Run::Answer(const Picture& picture) {
  if (picture.error) return tl::make_unexpected(*picture.error);
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> file, ReadFile(picture.path, kMostFileBytes));
  const Clock::time_point read = Clock::now();
  Answered answered;
  answered.name = picture.path.string();
  SIGHTLINE_ASSIGN_OR_RETURN(DecodedImage decoded, DecodeImage(file, options_.decode));
  answered.picture = std::make_shared<const DecodedImage>(std::move(decoded));
  answered.digest = Sha256Hex(file);
  const Clock::duration decoding = Clock::now() - read;
  SIGHTLINE_RETURN_IF_ERROR(OpenEngine());
  const Clock::time_point asked = Clock::now();
  SIGHTLINE_ASSIGN_OR_RETURN(answered.answer, Ask(answered));
  answered.total_ms = std::chrono::duration<double, std::milli>(decoding + (Clock::now() - asked)).count();
  return answered;
}

Status Run::WriteFiles(const Answered& answered, size_t index) const {
  if (!overlays_[index].empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto overlay, OverlayFile(answered, engine_->info(), options_.blend_heatmap));
    SIGHTLINE_RETURN_IF_ERROR(WriteFileAtomically(overlays_[index], overlay));
  }
  if (heatmaps_[index].empty()) return {};
  return WriteFileAtomically(heatmaps_[index], HeatmapFile(answered.answer));
}

void Run::PrintAnswer(const Answered& answered) const {
  for (const std::string& warning : WarningTexts(answered)) PrintWarning(warning);
  if (!options_.json) return Print(TableText(answered, engine_->info()));
  GazeDocumentOptions document;
  document.heatmap_format = options_.heatmap_format;
  document.image_sha256 = answered.digest;
  document.total_ms = answered.total_ms;
  std::string text = GazeDocument(answered.answer, *answered.picture, engine_->info(), document);
  if (pictures_.several) {
    text = DocumentLine(text, answered.name, answered.answer.people.empty() ? "empty" : "ok");
  }
  Print(text + "\n");
}

void Run::PrintFailure(const Picture& picture, const Error& error) const {
  if (options_.json) Print(DocumentLine(ErrorDocument(error, "", false), picture.path.string(), "error") + "\n");
  PrintError(fmt::format("{}: {}", picture.path.string(), error.message));
}

Status Run::AnswerOne(size_t index) {
  const Picture& picture = pictures_.pictures[index];
  if (pictures_.several) {
    progress_.Show(fmt::format("{} of {}, {}", index + 1, pictures_.pictures.size(), picture.path.string()));
  }
  const Result<Answered> answered = Answer(picture);
  progress_.Clear();
  if (!answered) return tl::make_unexpected(answered.error());
  SIGHTLINE_RETURN_IF_ERROR(WriteFiles(*answered, index));
  PrintAnswer(*answered);
  return {};
}

Result<int> Run::AnswerAll() {
  SIGHTLINE_RETURN_IF_ERROR(PlanFiles());
  int exit_code = 0;
  for (size_t i = 0; i < pictures_.pictures.size(); ++i) {
    const Status status = AnswerOne(i);
    if (!status) {
      if (engine_failed_ || !pictures_.several) return tl::make_unexpected(status.error());
      PrintFailure(pictures_.pictures[i], status.error());
      if (exit_code == 0) exit_code = options_.keep_going ? kSomeFailed : Describe(status.error().code).exit_code;
    }
    SIGHTLINE_RETURN_IF_ERROR(FlushOutput());
  }
  return exit_code;
}

}  // namespace

Result<int> AnswerPictures(const GazeOptions& options) {
  const Pictures pictures = FindPictures(options.images);
  if (!pictures.skipped.empty()) {
    PrintNote(fmt::format("{} of the files in folders are no pictures by name and were skipped, the first is {}",
                          pictures.skipped.size(), pictures.skipped.front()));
  }
  return Run(options, pictures).AnswerAll();
}

}  // namespace sightline
