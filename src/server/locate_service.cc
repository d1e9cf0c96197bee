#include "server/locate_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/documents.h"
#include "server/locate_fields.h"

namespace sightline {
namespace {

constexpr char kModel[] = "LocateAnything-3B";
constexpr char kModelId[] = "nvidia/LocateAnything-3B";

}  // namespace

// What the answer's document needs to know of its request.
struct LocateService::Question {
  LocateDocumentOptions document;
  std::vector<Warning> warnings;                // about the request
  std::shared_ptr<const DecodedImage> to_draw;  // kept for the overlay, if one is wanted
};

LocateService::LocateService(const LocateServerOptions& options, const LocateSettings& settings)
    : Service({.model = kModel,
               .model_id = kModelId,
               .predict_purpose = "where things that a text names are in a picture",
               .stalled_after = options.request_deadline}),
      options_(options),
      settings_(settings) {}

void LocateService::SetEngine(LocateEngine& engine) {
  locate_ = &engine;
  Serve(engine, engine.info().device, InfoDocument(options_, settings_, engine.info()));
}

void LocateService::Predict(std::shared_ptr<Call> call) {
  auto question = std::make_shared<Question>();
  Result<LocateRequest> request = Read(*call, question.get());
  if (!request) return Refuse(*call, request.error());
  Ask<LocateAnswer>(*locate_, std::move(call), std::move(*request),
                    [this, question](LocateAnswer answer) { return Write(std::move(answer), *question); });
}

Result<LocateRequest> LocateService::Read(Call& call, Question* question) const {
  SIGHTLINE_ASSIGN_OR_RETURN(LocateFields asked, ParseLocateFields(call.request->body, settings_.limits));
  LocateRequest request;
  SIGHTLINE_RETURN_IF_ERROR(ReadPictures(asked.files, &request, question));
  request.question = std::move(asked.question);
  request.scaling = asked.scaling;
  request.generation = asked.generation;
  request.max_tokens = settings_.max_sequence;
  request.stop = call.request->stop;

  question->document.query = std::move(asked.query);
  question->document.task = request.question.task;
  question->document.sampled = request.generation.sampling.temperature > 0;
  question->document.request_id = call.id;
  question->warnings = std::move(asked.warnings);
  if (asked.return_overlay) question->to_draw = request.pictures.front().image;
  return request;
}

Status LocateService::ReadPictures(const std::vector<std::vector<std::byte>>& files, LocateRequest* request,
                                   Question* question) const {
  DecodeOptions left = options_.images;  // of the pixels that all pictures together may have
  for (size_t i = 0; i < files.size(); ++i) {
    auto picture = DecodeImage(files[i], left);
    if (!picture) {
      const std::string param = files.size() == 1 ? "image" : fmt::format("images[{}]", i);
      return Fail(picture.error().code, picture.error().message, param);
    }
    left.max_pixels -= int64_t{picture->image.width} * picture->image.height;
    const std::string digest = Sha256Hex(files[i]);
    question->document.pictures.push_back({.format = picture->format,
                                           .width = picture->image.width,
                                           .height = picture->image.height,
                                           .exif_orientation = picture->exif_orientation,
                                           .sha256 = digest,
                                           .warnings = picture->warnings});
    request->pictures.push_back({std::make_shared<const DecodedImage>(std::move(*picture)), digest});
  }
  return {};
}

Service::Answered LocateService::Write(LocateAnswer answer, Question& question) const {
  answer.warnings.insert(answer.warnings.end(), question.warnings.begin(), question.warnings.end());
  if (question.to_draw != nullptr) {
    auto overlay = LocateOverlay(*std::exchange(question.to_draw, nullptr), answer, locate_->info());
    if (overlay) {
      question.document.overlay = std::move(*overlay);
    } else {
      answer.warnings.push_back({"overlay_missing", overlay.error().message, "return_overlay"});
    }
  }
  Answered answered;
  answered.document = LocateDocument(answer, locate_->info(), question.document);
  answered.inference_ms = answer.vision_ms + answer.prefill_ms + answer.decode_ms;
  answered.stages = {{"prepare", answer.prepare_ms}, {"wait", answer.wait_ms}};
  const bool seen = std::ranges::all_of(answer.pictures, &LocateAnswer::SeenPicture::from_cache);
  if (!seen) answered.stages.push_back({"vision", answer.vision_ms});
  answered.stages.push_back({"prefill", answer.prefill_ms});
  answered.stages.push_back({"decode", answer.decode_ms});
  return answered;
}

}  // namespace sightline
