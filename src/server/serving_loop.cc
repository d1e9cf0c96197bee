#include "server/serving_loop.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "server/listen_port.h"

namespace sightline {
namespace {

constexpr int kPortTaken = 1;  // the exit code of the contract for this one case
// How long a shutdown waits for weights that are just being loaded.
constexpr std::chrono::milliseconds kLoadingGrace{500};

std::string UrlOf(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}", host, port)
                                             : fmt::format("http://[{}]:{}", host, port);
}

HttpServerOptions HttpOptions(const ServerOptions& options) {
  HttpServerOptions http;
  http.host = options.host;
  http.max_body_bytes = options.max_body_bytes;
  http.request_deadline = options.request_deadline;
  return http;
}

// Opens the engine on a thread of its own, while the server already says that it is starting.
class Loading {
 public:
  // Wakes `signals` when there will be no engine.
  Loading(const EngineOpener& open, ShutdownSignals& signals, std::string ready)
      : thread_([this, &open, &signals, ready = std::move(ready)] {
          auto engine = open();
          if (engine) {
            LogInfo("Application startup complete");
            LogInfo(ready);
          } else {
            signals.Wake();
          }
          const std::lock_guard lock(mutex_);
          result_ = std::move(engine);
          changed_.notify_all();
        }) {}

  ~Loading() { thread_.join(); }

  bool WaitFor(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return result_.has_value(); });
  }

  // After WaitFor was true.
  Result<std::unique_ptr<Engine>>& result() { return *result_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<std::unique_ptr<Engine>>> result_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace

void LogThreads(int asked_for) {
  std::string why;
  DefaultThreadCount(&why);
  LogInfo(asked_for > 0 ? fmt::format("{} threads, as asked for", asked_for) : why);
}

PackingProgress LogPacking() {
  using Clock = std::chrono::steady_clock;
  return [logged = Clock::now()](size_t done, size_t total) mutable {
    constexpr std::chrono::seconds kBetweenLines{10};
    if (done < total && Clock::now() - logged < kBetweenLines) return;
    logged = Clock::now();
    LogInfo(fmt::format("packing weights for this processor: {:.0f} %",
                        100.0 * static_cast<double>(done) / static_cast<double>(total)));
  };
}

int ServeUntilStopped(const ServerOptions& options, const std::string& name, ShutdownSignals& signals, Service& service,
                      const EngineOpener& open) {
  auto http = ListenOn(options.port, HttpOptions(options), service.Callbacks());
  if (!http) {
    LogError(http.error().message);
    return http.error().code == Code::kUsage ? kPortTaken : Describe(http.error().code).exit_code;
  }
  service.SetServer(http->get());
  const std::string url = UrlOf(options.host, (*http)->port());
  LogInfo(fmt::format("listening on {}, loading weights", url));
  Loading loading(open, signals, fmt::format("{} answers on {}", name, url));
  const int signal = signals.Wait();
  if (signal != 0) LogInfo(fmt::format("{}: finishing what runs", signal == SIGINT ? "SIGINT" : "SIGTERM"));
  (*http)->AnnounceStop();
  service.Drain();
  (*http)->Stop(options.drain);
  service.SetServer(nullptr);
  if (!loading.WaitFor(kLoadingGrace)) std::_Exit(0);  // nobody waits for these weights any more
  if (signal == 0) {
    LogError(loading.result().error().message);
    return Describe(loading.result().error().code).exit_code;
  }
  service.FinishWork();
  LogInfo("stopped");
  return 0;
}

}  // namespace sightline
