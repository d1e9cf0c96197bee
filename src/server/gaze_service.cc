#include "server/gaze_service.h"

#include <utility>

#include "server/documents.h"
#include "server/gaze_fields.h"

namespace sightline {

// What the answer's document needs to know of its request.
struct GazeService::Question {
  GazeDocumentOptions document;
  DecodedImage picture;           // without its pixels: those go to the engine
  std::vector<Warning> warnings;  // about the request
};

GazeService::GazeService(const GazeServerOptions& options)
    : Service({.model = options.model,
               .model_id = options.model,
               .predict_purpose = "where each person in a picture looks",
               .stalled_after = options.request_deadline}),
      options_(options) {}

void GazeService::SetEngine(GazeEngine& engine) {
  gaze_ = &engine;
  Serve(engine, engine.info().device, InfoDocument(options_, engine.info()));
}

void GazeService::Predict(std::shared_ptr<Call> call) {
  auto question = std::make_shared<Question>();
  Result<GazeRequest> request = Read(*call, question.get());
  if (!request) return Refuse(*call, request.error());
  Ask<GazeAnswer>(*gaze_, std::move(call), std::move(*request),
                  [this, question](GazeAnswer answer) { return Write(std::move(answer), *question); });
}

Result<GazeRequest> GazeService::Read(Call& call, Question* question) const {
  const GazeLimits limits{options_.max_heads, options_.head_threshold};
  SIGHTLINE_ASSIGN_OR_RETURN(GazeFields asked, ParseGazeFields(call.request->body, limits));
  auto picture = DecodeImage(asked.file, options_.images);
  if (!picture) return Fail(picture.error().code, picture.error().message, "image");
  question->document = {.model = options_.model,
                        .heatmap_format = asked.heatmap_format,
                        .image_sha256 = Sha256Hex(AsBytes(asked.file)),
                        .request_id = call.id,
                        .received = call.request->received};
  question->warnings = std::move(asked.warnings);
  question->picture.format = picture->format;
  question->picture.exif_orientation = picture->exif_orientation;
  question->picture.warnings = picture->warnings;

  GazeRequest gaze;
  gaze.picture_digest = question->document.image_sha256;
  gaze.boxes.assign(asked.boxes.begin(), asked.boxes.end());
  gaze.units = asked.units;
  gaze.detect_heads = asked.detect_heads;
  gaze.heads = {asked.head_threshold, asked.max_heads};
  gaze.max_boxes = options_.max_heads;
  gaze.stop = call.request->stop;
  gaze.picture = std::make_shared<DecodedImage>(std::move(*picture));
  return gaze;
}

Service::Answered GazeService::Write(GazeAnswer answer, const Question& question) const {
  answer.warnings.insert(answer.warnings.end(), question.warnings.begin(), question.warnings.end());
  Answered answered;
  answered.document = GazeDocument(answer, question.picture, gaze_->info(), question.document);
  answered.inference_ms = answer.encode_ms + answer.decode_ms;
  answered.stages = {{"prepare", answer.prepare_ms}, {"wait", answer.wait_ms}, {"decode", answer.decode_ms}};
  if (!answer.scene_from_cache) answered.stages.push_back({"encode", answer.encode_ms});
  return answered;
}

}  // namespace sightline
