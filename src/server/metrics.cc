#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace sightline {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

const Histogram::BucketBoundaries kSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

// Resident memory of this process; 0 where the kernel does not say.
double ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long total = 0, resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return read == 2 ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  std::mutex scrape;  // one Text at a time: counters are brought up to date from totals

  Family<Counter>& requests = prometheus::BuildCounter()
                                  .Name("sightline_requests_total")
                                  .Help("Requests answered, by route, status and error code.")
                                  .Register(registry);
  Family<Histogram>& durations = prometheus::BuildHistogram()
                                     .Name("sightline_request_duration_seconds")
                                     .Help("From the complete request head to the last byte of the answer.")
                                     .Register(registry);
  Family<Histogram>& stages = prometheus::BuildHistogram()
                                  .Name("sightline_stage_duration_seconds")
                                  .Help("Where the time of an answered request went.")
                                  .Register(registry);

  Gauge& MakeGauge(const std::string& name, const std::string& help, const prometheus::Labels& labels = {}) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Counter& MakeCounter(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }

  Gauge& ready = MakeGauge("sightline_ready", "1 when requests are answered, 0 while starting, stopping or stalled.");
  Gauge& admitted = MakeGauge("sightline_requests_admitted", "Requests inside, at any stage.");
  Gauge& queued = MakeGauge("sightline_requests_queued", "Requests waiting for the device.");
  Gauge& running = MakeGauge("sightline_requests_running", "Requests on the device.");
  Gauge& memory = MakeGauge("sightline_resident_memory_bytes", "Resident memory of the process.");
  Gauge& open = MakeGauge("sightline_connections_open", "Open connections.");
  Counter& connections = MakeCounter("sightline_connections_total", "Connections accepted.");
  Counter& refused = MakeCounter("sightline_requests_refused_total", "Requests and connections turned away unread.");
  Counter& cancelled = MakeCounter("sightline_requests_cancelled_total", "Requests whose client left.");
  Counter& timed_out = MakeCounter("sightline_requests_timed_out_total", "Requests ended by a time limit.");
  Counter& hits = MakeCounter("sightline_scene_cache_hits_total", "Pictures whose features were known.");
  Counter& misses = MakeCounter("sightline_scene_cache_misses_total", "Pictures whose features were not known.");

  Counter& prefix_hits = MakeCounter("sightline_prefix_cache_hits_total", "Prompts whose beginning was known.");
  Counter& prefix_misses = MakeCounter("sightline_prefix_cache_misses_total", "Prompts whose beginning was not known.");

  void ObserveStage(const std::string& stage, double ms) {
    stages.Add({{"stage", stage}}, kSeconds).Observe(ms / 1000);
  }
};

namespace {

void BringUpTo(Counter& counter, uint64_t total) {
  const double missing = static_cast<double>(total) - counter.Value();
  if (missing > 0) counter.Increment(missing);
}

}  // namespace

Metrics::Metrics(std::string_view model) : state_(std::make_unique<State>()) {
  state_
      ->MakeGauge("sightline_build_info", "Always 1; the labels say what is running.",
                  {{"version", std::string(Version())}, {"model", std::string(model)}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::CountRequest(std::string_view route, int status, std::string_view code, double total_ms) {
  const std::string path(route);
  state_->requests.Add({{"route", path}, {"status", std::to_string(status)}, {"code", std::string(code)}}).Increment();
  state_->durations.Add({{"route", path}}, kSeconds).Observe(total_ms / 1000);
}

void Metrics::CountAnswer(const std::vector<StageTime>& stages) {
  for (const StageTime& time : stages) state_->ObserveStage(std::string(time.stage), time.ms);
}

std::string Metrics::Text(const Snapshot& now) {
  const std::lock_guard lock(state_->scrape);
  state_->ready.Set(now.ready ? 1 : 0);
  state_->admitted.Set(now.load.admitted);
  state_->queued.Set(now.load.queued);
  state_->running.Set(now.load.running ? 1 : 0);
  state_->memory.Set(ResidentBytes());
  state_->open.Set(static_cast<double>(now.http.open_connections));
  BringUpTo(state_->connections, now.http.connections);
  BringUpTo(state_->refused, now.http.refused);
  BringUpTo(state_->cancelled, now.http.disconnected);
  BringUpTo(state_->timed_out, now.http.timed_out);
  BringUpTo(state_->hits, now.load.scene_cache_hits);
  BringUpTo(state_->misses, now.load.scene_cache_misses);
  BringUpTo(state_->prefix_hits, now.load.prefix_cache_hits);
  BringUpTo(state_->prefix_misses, now.load.prefix_cache_misses);
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace sightline
