// GET /metrics: what happened and what is happening, in Prometheus' text format. Label values come from fixed lists, so
// that no client can make the number of series grow.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "net/net.h"
#include "pipeline/pipeline.h"

namespace sightline {

// All methods may be called from any thread.
class Metrics {
 public:
  explicit Metrics(std::string_view model);
  ~Metrics();

  // `route` and `code` must come from fixed lists; code "ok" for answers that are no errors.
  void CountRequest(std::string_view route, int status, std::string_view code, double total_ms);
  // Where the time of one answered request went.
  void CountAnswer(const GazeAnswer& answer, double read_ms, double write_ms);

  // What is true now.
  struct Snapshot {
    bool ready = false;
    GazeEngine::Load load;
    HttpServer::Counters http;
  };
  std::string Text(const Snapshot& now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sightline
