// GET /metrics: what happened and what is happening, in Prometheus' text format. Label values come from fixed lists, so
// that no client can make the number of series grow.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/net.h"
#include "pipeline/pipeline.h"

namespace sightline {

struct StageTime {
  std::string_view stage;
  double ms = 0;
};

// All methods may be called from any thread.
class Metrics {
 public:
  explicit Metrics(std::string_view model);
  ~Metrics();

  // `route` and `code` must come from fixed lists; code "ok" for answers that are no errors.
  void CountRequest(std::string_view route, int status, std::string_view code, double total_ms);
  // Where the time of one answered request went. Names must come from fixed lists.
  void CountAnswer(const std::vector<StageTime>& stages);

  // What is true now.
  struct Snapshot {
    bool ready = false;
    EngineLoad load;
    HttpServer::Counters http;
  };
  std::string Text(const Snapshot& now);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sightline
