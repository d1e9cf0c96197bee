// The routes of the gaze server, between net's requests and the pipeline's.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "net/net.h"
#include "pipeline/pipeline.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/worker_pool.h"

namespace sightline {

// Answers as soon as it exists; POST /predict and /info only once an engine is there. All methods may be called from
// any thread.
class GazeService {
 public:
  explicit GazeService(const GazeServerOptions& options);

  // For HttpServer::Start. The service must outlive that server.
  HttpCallbacks Callbacks();
  // Whose counters /metrics shows; null before it is destroyed.
  void SetServer(const HttpServer* server) { server_ = server; }
  // From here on requests are answered. The engine must live until FinishWork has returned.
  void SetEngine(GazeEngine& engine);
  // From here on new requests are refused and queued ones ended; the running one goes on.
  void Drain();
  // Waits until no request uses the engine's methods. Call after HttpServer::Stop.
  void FinishWork() { workers_.WaitUntilIdle(); }

 private:
  struct Call;

  Status Admit(HttpRequest& head);
  Result<GazeEngine::Ticket> TakePlace() const;
  void Handle(std::shared_ptr<HttpRequest> request, HttpReply reply);
  HttpResponse FormatError(const Error& error, const HttpRequest& request) const;
  void Observe(const HttpRequest& request, const HttpResponse& response, const HttpTransfer& transfer);

  void StartPredict(std::shared_ptr<HttpRequest> request, HttpReply reply);
  template <typename Work>
  void Guard(Call& call, Work work);
  void Predict(const std::shared_ptr<Call>& call);
  Result<GazeRequest> ReadPredictRequest(Call& call) const;
  void AnswerPredict(Call& call, Result<GazeAnswer> answer);

  Result<HttpResponse> Describe(const HttpRequest& request) const;
  std::string_view Condition() const;
  std::string MetricsText() const;

  const GazeServerOptions options_;
  const int64_t created_;  // seconds since the epoch
  mutable Metrics metrics_;
  GazeEngineInfo info_;  // of the engine, written before engine_
  std::atomic<GazeEngine*> engine_{nullptr};
  std::atomic<const HttpServer*> server_{nullptr};
  std::atomic<bool> draining_{false};
  WorkerPool workers_;  // last: its tasks use the members above
};

}  // namespace sightline
