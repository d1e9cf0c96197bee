// What the server of every model does alike, between net's requests and an engine: admission, the routes that describe
// the server, errors, log, metrics, draining. A model's own service reads questions and writes answers.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/net.h"
#include "pipeline/pipeline.h"
#include "server/metrics.h"
#include "server/routes.h"
#include "server/worker_pool.h"

namespace sightline {

struct ServiceDescription {
  std::string model;                        // in /health and metrics
  std::string model_id;                     // in /v1/models
  std::string_view predict_purpose;         // in the list of routes
  std::chrono::milliseconds stalled_after;  // a request that is on the device for longer will not come back
};

// Answers as soon as it exists; POST /predict and /info only once an engine is there. All public methods may be called
// from any thread.
class Service {
 public:
  virtual ~Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // For HttpServer::Start. The service must outlive that server.
  HttpCallbacks Callbacks();
  // Whose counters /metrics shows; null before it is destroyed.
  void SetServer(const HttpServer* server) { server_ = server; }
  // From here on new requests are refused and queued ones ended; the running one goes on.
  void Drain();
  // Waits until no request uses the engine or this service. Call after HttpServer::Stop; derived destructors do too.
  void FinishWork() { workers_.WaitUntilIdle(); }

 protected:
  // One POST /predict on its way.
  struct Call {
    std::shared_ptr<HttpRequest> request;
    std::string id;
    HttpReply reply;
    QueueTicket ticket;
    std::chrono::steady_clock::time_point started;  // on a worker
  };
  // A document and what the log and the metrics are told beside it.
  struct Answered {
    std::string document;
    double inference_ms = 0;
    std::vector<StageTime> stages;
  };

  explicit Service(ServiceDescription description);

  // From here on requests are answered. The engine must live until FinishWork has returned. `info` is the document of
  // GET /info.
  void Serve(Engine& engine, std::string device, std::string info);

  // On a worker, after Serve: reads the question, then calls Ask or Refuse once. May throw std::exception.
  virtual void Predict(std::shared_ptr<Call> call) = 0;
  void Refuse(Call& call, const Error& error) const;
  // Hands the question to the engine, whose device thread hands the answer back to a worker, where `write` makes a
  // document of it.
  template <typename Answer, typename AskedEngine, typename Question>
  void Ask(AskedEngine& engine, std::shared_ptr<Call> call, Question question, std::function<Answered(Answer)> write) {
    const double read_ms = FinishReading(*call);
    engine.Run(std::move(call->ticket), std::move(question), [this, call, write, read_ms](Result<Answer> answer) {
      auto shared = std::make_shared<Result<Answer>>(std::move(answer));
      Post(
          call,
          [this, call, write, read_ms, shared] {
            if (!*shared) return Refuse(*call, shared->error());
            const auto start = std::chrono::steady_clock::now();
            Reply(*call, write(std::move(**shared)), read_ms, start);
          },
          WorkerPool::Turn::kFirst);
    });
  }

 private:
  Status Admit(HttpRequest& head);
  Result<QueueTicket> TakePlace() const;
  void Handle(std::shared_ptr<HttpRequest> request, HttpReply reply);
  Result<HttpResponse> Describe(const HttpRequest& request) const;
  std::string_view Condition() const;
  std::string MetricsText() const;

  void StartPredict(std::shared_ptr<HttpRequest> request, HttpReply reply);
  void Post(std::shared_ptr<Call> call, std::function<void()> work, WorkerPool::Turn turn);
  static double FinishReading(Call& call);
  void Reply(const Call& call, Answered answered, double read_ms, std::chrono::steady_clock::time_point writing);
  HttpResponse FormatError(const Error& error, const HttpRequest& request) const;
  void Observe(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer);

  const ServiceDescription description_;
  const std::vector<RouteDescription> routes_;
  const int64_t created_;  // seconds since the epoch
  mutable Metrics metrics_;
  std::string device_, info_;  // written before engine_
  std::atomic<Engine*> engine_{nullptr};
  std::atomic<const HttpServer*> server_{nullptr};
  std::atomic<bool> draining_{false};
  WorkerPool workers_;  // last: its tasks use the members above
};

}  // namespace sightline
