#include <csignal>
#include <cstdint>

#include "cli/engine_options.h"
#include "cli/verb.h"
#include "server/server.h"

namespace sightline {
namespace {

class ServeVerb : public Verb {
 public:
  VerbText text() const override {
    return {"serve", "Answer over HTTP", "sightline serve gaze-lle --toy --port 20000",
            "Ready when the log says: Application startup complete. SIGTERM finishes what runs, then ends."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  LogLevel log_level() const override { return log_level_; }
  Result<int> Run() override;

 private:
  void DeclareLimits(OptionSet& options);

  std::string model_;
  GazeServerOptions server_;
  int max_body_mib_ = 32;
  double deadline_s_ = 120;
  LogLevel log_level_ = LogLevel::kInfo;
};

void ServeVerb::Declare(OptionSet& options) {
  DeclareModel(options, model_, "what to serve");
  options.Group("Network");
  options.Text("--host", server_.host, "ADDRESS", "address to listen on (default 127.0.0.1)");
  options.Whole("--port", server_.port, 0, 65'535, "exactly this one; 0: any (default 20000 or the next free one)");
  DeclareWeights(options, server_.weights);
  DeclareCompute(options, server_.engine.precision, server_.engine.threads);
  DeclareProfile(options, server_.engine.profile);
  options.Flag("--reference-images", server_.images.reference, "ignore EXIF and alpha, as the published program does");
  DeclareLimits(options);
  options.Group("Log");
  options.Choice("--log-level", {"quiet", "info", "debug"}, "on standard error (default info)",
                 [this](size_t index) { log_level_ = static_cast<LogLevel>(index); });
}

void ServeVerb::DeclareLimits(OptionSet& options) {
  options.Group("Limits");
  options.Whole("--max-heads", server_.max_heads, 1, kMostHeads, "heads in a request (default 10)");
  options.Real("--head-threshold", server_.head_threshold, 0, 1, "least score of a found head (default 0.5)");
  options.Whole("--max-queue", server_.engine.max_queue, 1, 100'000, "requests inside at once (default 32)");
  options.Whole("--max-body-mib", max_body_mib_, 1, 4096, "size of a request (default 32)");
  options.Whole("--max-pixels", server_.images.max_pixels, 1, kMostPixels, "of a picture (default 100000000)");
  options.Real("--deadline-s", deadline_s_, 0.001, 86'400, "longest time for an answer (default 120)");
}

Status ServeVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelGiven(model_));
  server_.max_body_bytes = static_cast<size_t>(max_body_mib_) << 20;
  server_.request_deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline_s_ * 1000));
  return {};
}

Result<int> ServeVerb::Run() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelKnown(model_));
  std::signal(SIGPIPE, SIG_IGN);  // a log or client that goes away must not end the server
  server_.model = model_;
  return ServeGazeLle(server_);
}

}  // namespace

std::unique_ptr<Verb> MakeServeVerb() { return std::make_unique<ServeVerb>(); }

}  // namespace sightline
