#include "server/service.h"

#include <any>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "server/access_log.h"
#include "server/documents.h"
#include "server/header_fields.h"
#include "server/server.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

// Two requests can be read or written while a third is on the device.
constexpr int kWorkers = 2;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

int64_t SecondsSinceTheEpoch() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
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

Service::Service(ServiceDescription description)
    : description_(std::move(description)),
      routes_(Routes(description_.predict_purpose)),
      created_(SecondsSinceTheEpoch()),
      metrics_(description_.model),
      workers_(kWorkers) {}

void Service::Serve(Engine& engine, std::string device, std::string info) {
  device_ = std::move(device);
  info_ = std::move(info);
  engine_ = &engine;
}

void Service::Drain() {
  draining_ = true;
  if (Engine* engine = engine_) engine->Drain();
}

HttpCallbacks Service::Callbacks() {
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

Status Service::Admit(HttpRequest& head) {
  const RouteDescription* route = FindRoute(routes_, head.path);
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

Result<QueueTicket> Service::TakePlace() const {
  if (draining_) return Fail(Code::kDraining, "the server is shutting down");
  Engine* engine = engine_;
  if (engine == nullptr) return Fail(Code::kStarting, "the server is loading its weights");
  return engine->Admit();
}

// ---------------------------------------------------------------------------------------------------------------------
// Routes that describe the server

void Service::Handle(std::shared_ptr<HttpRequest> request, HttpReply reply) {
  if (request->path == kPredictPath) return StartPredict(std::move(request), std::move(reply));
  Result<HttpResponse> response = Describe(*request);
  if (!response) return reply(FormatError(response.error(), *request));
  response->headers.emplace_back("X-Request-Id", AdmittedOf(*request)->id);
  response->context = Outcome{};
  reply(std::move(*response));
}

Result<HttpResponse> Service::Describe(const HttpRequest& request) const {
  const bool loaded = engine_ != nullptr;
  HttpResponse response;
  if (request.path == "/health") {
    response.body = HealthDocument(Condition(), description_.model, loaded ? device_ : "");
  } else if (request.path == "/info") {
    if (!loaded) return Fail(Code::kStarting, "the server is loading its weights");
    response.body = info_;
  } else if (request.path == "/v1/models") {
    response.body = ModelsDocument(description_.model_id, created_);
  } else if (request.path == "/metrics") {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = MetricsText();
  } else {
    response.body = RoutesDocument(routes_);
  }
  return response;
}

// "stalled": nobody will be answered until somebody looks at the device.
std::string_view Service::Condition() const {
  const Engine* engine = engine_;
  if (draining_) return "draining";
  if (engine == nullptr) return "starting";
  const bool stalled = engine->load().running_ms > static_cast<double>(description_.stalled_after.count());
  return stalled ? "stalled" : "ok";
}

std::string Service::MetricsText() const {
  const Engine* engine = engine_;
  const HttpServer* server = server_;
  Metrics::Snapshot now;
  now.ready = Condition() == "ok";
  if (engine != nullptr) now.load = engine->load();
  if (server != nullptr) now.http = server->counters();
  return metrics_.Text(now);
}

// ---------------------------------------------------------------------------------------------------------------------
// POST /predict

void Service::StartPredict(std::shared_ptr<HttpRequest> request, HttpReply reply) {
  auto ticket = TakePlace();
  if (!ticket) return reply(FormatError(ticket.error(), *request));
  auto call = std::make_shared<Call>();
  call->id = AdmittedOf(*request)->id;
  call->request = std::move(request);
  call->reply = std::move(reply);
  call->ticket = std::move(*ticket);
  Post(
      call,
      [this, call] {
        call->started = Clock::now();
        if (call->request->stop.stop_requested()) return Refuse(*call, Error{Code::kCancelled, "the client left", {}});
        Predict(call);
      },
      WorkerPool::Turn::kInOrder);
}

// Memory can run out while a picture is read or an answer written; that ends one request and not the server.
void Service::Post(std::shared_ptr<Call> call, std::function<void()> work, WorkerPool::Turn turn) {
  workers_.Post(
      [this, call = std::move(call), work = std::move(work)] {
        try {
          work();
        } catch (const std::bad_alloc&) {
          Refuse(*call, Error{Code::kOutOfMemory, "there is no memory for this request", {}});
        } catch (const std::exception&) {
          Refuse(*call, Error{Code::kInternal, "the request could not be answered", {}});
        }
      },
      turn);
}

void Service::Refuse(Call& call, const Error& error) const {
  call.ticket = {};  // before the client hears of it and asks again
  call.reply(FormatError(error, *call.request));
}

double Service::FinishReading(Call& call) {
  call.request->body = std::string();  // megabytes that nobody needs any more
  return MillisecondsSince(call.started);
}

void Service::Reply(const Call& call, Answered answered, double read_ms, Clock::time_point writing) {
  answered.stages.insert(answered.stages.begin(), {"read", read_ms});
  answered.stages.push_back({"write", MillisecondsSince(writing)});
  metrics_.CountAnswer(answered.stages);
  HttpResponse response;
  response.body = std::move(answered.document);
  response.headers.emplace_back("X-Request-Id", call.id);
  response.context = Outcome{"ok", answered.inference_ms};
  call.reply(std::move(response));
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors and the log

HttpResponse Service::FormatError(const Error& error, const HttpRequest& request) const {
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
  const RouteDescription* route = FindRoute(routes_, request.path);
  if (error.code == Code::kMethodNotAllowed && route != nullptr) {
    response.headers.emplace_back("Allow", MethodsOf(*route));
  }
  response.context = Outcome{description.name, std::nullopt};
  return response;
}

void Service::Observe(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer) {
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
