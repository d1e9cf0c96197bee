#include "server/gaze_service.h"

#include <any>
#include <chrono>
#include <utility>

#include "server/access_log.h"
#include "server/documents.h"
#include "server/header_fields.h"
#include "server/predict_request.h"
#include "server/routes.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

// Two requests can be read or written while a third is on the device.
constexpr int kWorkers = 2;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// What Admission keeps with a request.
struct Admitted {
  std::string id;
  std::string_view route = kOtherRoutes;
};

// What the observer is told beside the response.
struct Outcome {
  std::string_view code = "ok";
  std::optional<double> inference_ms;
};

// Null for a request whose head was no good.
const Admitted* AdmittedOf(const HttpRequest& request) { return std::any_cast<Admitted>(&request.context); }

}  // namespace

// One POST /predict on its way.
struct GazeService::Call {
  std::shared_ptr<HttpRequest> request;
  HttpReply reply;
  GazeEngine::Ticket ticket;
  GazeDocumentOptions document;
  DecodedImage picture;           // without its pixels: those go to the engine
  std::vector<Warning> warnings;  // about the request
  double read_ms = 0;
};

GazeService::GazeService(const GazeServerOptions& options)
    : options_(options),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      metrics_(options.model),
      workers_(kWorkers) {}

void GazeService::SetEngine(GazeEngine& engine) {
  info_ = engine.info();
  engine_ = &engine;
}

void GazeService::Drain() {
  draining_ = true;
  if (GazeEngine* engine = engine_) engine->Drain();
}

HttpCallbacks GazeService::Callbacks() {
  HttpCallbacks callbacks;
  callbacks.handler = [this](std::shared_ptr<HttpRequest> request, HttpReply reply) {
    Handle(std::move(request), std::move(reply));
  };
  callbacks.format_error = [this](const Error& error, const HttpRequest& request) {
    return FormatError(error, request);
  };
  callbacks.admission = [this](HttpRequest& head) { return Admit(head); };
  callbacks.observer = [this](const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer) {
    Observe(request, response, transfer);
  };
  return callbacks;
}

// ---------------------------------------------------------------------------------------------------------------------
// Before the body

Status GazeService::Admit(HttpRequest& head) {
  const RouteDescription* route = FindRoute(head.path);
  head.context = Admitted{RequestId(head), route == nullptr ? kOtherRoutes : route->path};
  if (route == nullptr) return Fail(Code::kNotFound, "there is no such route; GET / lists those there are");
  if (!Allows(*route, head.method)) {
    return Fail(Code::kMethodNotAllowed, "the route " + head.path + " takes " + MethodsOf(*route) + " only");
  }
  if (head.path != kPredictPath) return {};
  SIGHTLINE_RETURN_IF_ERROR(CheckContentType(head));
  // A full house refuses here, before the body. The place is taken when the body is there: whoever sends slowly holds
  // up nobody.
  const auto ticket = TakePlace();
  return ticket ? Status{} : tl::make_unexpected(ticket.error());
}

Result<GazeEngine::Ticket> GazeService::TakePlace() const {
  if (draining_) return Fail(Code::kDraining, "the server is shutting down");
  GazeEngine* engine = engine_;
  if (engine == nullptr) return Fail(Code::kStarting, "the server is loading its weights");
  return engine->Admit();
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

void GazeService::Handle(std::shared_ptr<HttpRequest> request, HttpReply reply) {
  if (request->path == kPredictPath) return StartPredict(std::move(request), std::move(reply));
  Result<HttpResponse> response = Describe(*request);
  if (!response) return reply(FormatError(response.error(), *request));
  response->headers.emplace_back("X-Request-Id", AdmittedOf(*request)->id);
  response->context = Outcome{};
  reply(std::move(*response));
}

Result<HttpResponse> GazeService::Describe(const HttpRequest& request) const {
  const GazeEngine* engine = engine_;
  HttpResponse response;
  if (request.path == "/health") {
    response.body = HealthDocument(Condition(), options_.model, engine == nullptr ? "" : info_.device);
  } else if (request.path == "/info") {
    if (engine == nullptr) return Fail(Code::kStarting, "the server is loading its weights");
    response.body = InfoDocument(options_, info_);
  } else if (request.path == "/v1/models") {
    response.body = ModelsDocument(options_.model, created_);
  } else if (request.path == "/metrics") {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = MetricsText();
  } else {
    response.body = RoutesDocument(Routes());
  }
  return response;
}

// "stalled": the device has been busy with one request for longer than any may take, so that nobody will be answered
// until somebody looks at it.
std::string_view GazeService::Condition() const {
  const GazeEngine* engine = engine_;
  if (draining_) return "draining";
  if (engine == nullptr) return "starting";
  const bool stalled = engine->load().running_ms > static_cast<double>(options_.request_deadline.count());
  return stalled ? "stalled" : "ok";
}

std::string GazeService::MetricsText() const {
  const GazeEngine* engine = engine_;
  const HttpServer* server = server_;
  Metrics::Snapshot now;
  now.ready = Condition() == "ok";
  if (engine != nullptr) now.load = engine->load();
  if (server != nullptr) now.http = server->counters();
  return metrics_.Text(now);
}

// ---------------------------------------------------------------------------------------------------------------------
// POST /predict

void GazeService::StartPredict(std::shared_ptr<HttpRequest> request, HttpReply reply) {
  auto ticket = TakePlace();
  if (!ticket) return reply(FormatError(ticket.error(), *request));
  auto call = std::make_shared<Call>();
  call->ticket = std::move(*ticket);
  call->document = {.model = options_.model, .request_id = AdmittedOf(*request)->id, .received = request->received};
  call->request = std::move(request);
  call->reply = std::move(reply);
  workers_.Post([this, call] { Guard(*call, [&] { Predict(call); }); });
}

// Memory can run out while a picture is read or an answer written; that ends one request and not the server.
template <typename Work>
void GazeService::Guard(Call& call, Work work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    call.reply(FormatError(Error{Code::kOutOfMemory, "there is no memory for this request", {}}, *call.request));
  } catch (const std::exception&) {
    call.reply(FormatError(Error{Code::kInternal, "the request could not be answered", {}}, *call.request));
  }
}

// On a worker: reads the request and hands it to the engine, whose device thread hands the answer back to a worker.
void GazeService::Predict(const std::shared_ptr<Call>& call) {
  const auto start = Clock::now();
  Result<GazeRequest> gaze = ReadPredictRequest(*call);
  call->request->body = std::string();  // megabytes that nobody needs any more
  call->read_ms = MillisecondsSince(start);
  if (!gaze) return AnswerPredict(*call, tl::make_unexpected(std::move(gaze).error()));
  GazeEngine* engine = engine_;
  engine->Run(std::exchange(call->ticket, {}), std::move(*gaze), [this, call](Result<GazeAnswer> answer) {
    auto shared = std::make_shared<Result<GazeAnswer>>(std::move(answer));
    workers_.Post([this, call, shared] { Guard(*call, [&] { AnswerPredict(*call, std::move(*shared)); }); });
  });
}

Result<GazeRequest> GazeService::ReadPredictRequest(Call& call) const {
  HttpRequest& request = *call.request;
  if (request.stop.stop_requested()) return Fail(Code::kCancelled, "the client left");
  const PredictLimits limits{options_.max_heads, options_.head_threshold};
  SIGHTLINE_ASSIGN_OR_RETURN(PredictRequest asked, ParsePredictRequest(request.body, limits));
  auto picture = DecodeImage(asked.file, options_.images);
  if (!picture) return Fail(picture.error().code, picture.error().message, "image");
  call.document.heatmap_format = asked.heatmap_format;
  call.document.image_sha256 = Sha256Hex(AsBytes(asked.file));
  call.warnings = std::move(asked.warnings);

  GazeRequest gaze;
  gaze.picture_digest = call.document.image_sha256;
  gaze.boxes.assign(asked.boxes.begin(), asked.boxes.end());
  gaze.units = asked.units;
  gaze.detect_heads = asked.detect_heads;
  gaze.heads = {asked.head_threshold, asked.max_heads};
  gaze.max_boxes = options_.max_heads;
  gaze.stop = request.stop;
  auto pixels = std::make_shared<DecodedImage>(std::move(*picture));
  call.picture.format = pixels->format;
  call.picture.exif_orientation = pixels->exif_orientation;
  call.picture.warnings = pixels->warnings;
  gaze.picture = std::move(pixels);
  return gaze;
}

void GazeService::AnswerPredict(Call& call, Result<GazeAnswer> answer) {
  call.ticket = {};
  if (!answer) return call.reply(FormatError(answer.error(), *call.request));
  const auto start = Clock::now();
  answer->warnings.insert(answer->warnings.end(), call.warnings.begin(), call.warnings.end());
  HttpResponse response;
  response.body = GazeDocument(*answer, call.picture, info_, call.document);
  response.headers.emplace_back("X-Request-Id", call.document.request_id);
  response.context = Outcome{"ok", answer->encode_ms + answer->decode_ms};
  metrics_.CountAnswer(*answer, call.read_ms, MillisecondsSince(start));
  call.reply(std::move(response));
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors and the log

HttpResponse GazeService::FormatError(const Error& error, const HttpRequest& request) const {
  const Admitted* admitted = AdmittedOf(request);
  const std::string id = admitted == nullptr ? RequestId(request) : admitted->id;
  const bool seed_route = request.path == kPredictPath;
  const CodeDescription& description = sightline::Describe(error.code);
  HttpResponse response;
  response.status = seed_route ? description.seed_http_status : description.http_status;
  response.body = ErrorDocument(error, id, seed_route);
  response.headers.emplace_back("X-Request-Id", id);
  if (const int seconds = RetryAfterSeconds(error.code)) {
    response.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  const RouteDescription* route = FindRoute(request.path);
  if (error.code == Code::kMethodNotAllowed && route != nullptr) {
    response.headers.emplace_back("Allow", MethodsOf(*route));
  }
  response.context = Outcome{description.name, std::nullopt};
  return response;
}

void GazeService::Observe(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer) {
  const Admitted* admitted = AdmittedOf(request);
  const auto* outcome = std::any_cast<Outcome>(&response.context);
  const std::string_view code = outcome == nullptr ? "ok" : outcome->code;
  std::string_view id = admitted == nullptr ? "-" : std::string_view(admitted->id);
  for (const auto& [name, value] : response.headers) {
    if (name == "X-Request-Id") id = value;
  }
  metrics_.CountRequest(admitted == nullptr ? kOtherRoutes : admitted->route, response.status, code, transfer.total_ms);
  LogInfo(AccessLogLine(request, response, transfer,
                        {id, code, outcome == nullptr ? std::nullopt : outcome->inference_ms}));
}

}  // namespace sightline
