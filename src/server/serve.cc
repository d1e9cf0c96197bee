#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "server/gaze_service.h"
#include "server/listen_port.h"
#include "server/server.h"
#include "server/shutdown_signals.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPortTaken = 1;  // the exit code of the contract for this one case
// How long a shutdown waits for weights that are just being loaded.
constexpr std::chrono::milliseconds kLoadingGrace{500};

std::string UrlOf(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}", host, port)
                                             : fmt::format("http://[{}]:{}", host, port);
}

HttpServerOptions HttpOptions(const GazeServerOptions& options) {
  HttpServerOptions http;
  http.host = options.host;
  http.max_body_bytes = options.max_body_bytes;
  http.request_deadline = options.request_deadline;
  return http;
}

void LogThreads(const GazeEngineOptions& options) {
  std::string why;
  DefaultThreadCount(&why);
  LogInfo(options.threads > 0 ? fmt::format("{} threads, as asked for", options.threads) : why);
}

// Opens weights and engine on a thread of its own, while the server already says that it is starting.
class Loading {
 public:
  Loading(const GazeServerOptions& options, GazeService& service, ShutdownSignals& signals, std::string url)
      : thread_([this, &options, &service, &signals, url = std::move(url)] {
          auto engine = Open(options);
          if (engine) {
            service.SetEngine(**engine);
            LogInfo("Application startup complete");
            LogInfo(fmt::format("{} answers on {}", options.model, url));
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
  Result<std::unique_ptr<GazeEngine>>& result() { return *result_; }

 private:
  static Result<std::unique_ptr<GazeEngine>> Open(const GazeServerOptions& options);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<std::unique_ptr<GazeEngine>>> result_;
  std::thread thread_;  // last: it uses the members above
};

Result<std::unique_ptr<GazeEngine>> Loading::Open(const GazeServerOptions& options) {
  const auto start = Clock::now();
  auto weights = OpenGazeWeights(options.weights, [](int done, int total) {
    if (done == total) LogInfo("synthetic weights were made and kept in the cache folder");
  });
  if (!weights) return tl::make_unexpected(std::move(weights).error());
  SIGHTLINE_ASSIGN_OR_RETURN(auto engine, GazeEngine::Open(std::move(*weights), options.engine));
  const GazeEngineInfo& info = engine->info();
  LogInfo(fmt::format("{}, {}, profile {}, {} with {} and {}, loaded in {:.2f} s", info.device, NameOf(info.precision),
                      NameOf(info.profile), info.dimensions.variant(), info.backbone, info.decoder,
                      std::chrono::duration<double>(Clock::now() - start).count()));
  if (info.synthetic) LogWarning("synthetic weights: answers mean nothing as gaze");
  if (info.toy) LogWarning("toy weights: answers mean nothing on photographs");
  return engine;
}

}  // namespace

int ServeGazeLle(const GazeServerOptions& options) {
  ShutdownSignals signals;
  GazeService service(options);
  auto http = ListenOn(options.port, HttpOptions(options), service.Callbacks());
  if (!http) {
    LogError(http.error().message);
    return http.error().code == Code::kUsage ? kPortTaken : Describe(http.error().code).exit_code;
  }
  service.SetServer(http->get());
  LogInfo(fmt::format("listening on {}, loading weights", UrlOf(options.host, (*http)->port())));
  LogThreads(options.engine);
  Loading loading(options, service, signals, UrlOf(options.host, (*http)->port()));
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
