#include <fmt/format.h>

#include <csignal>
#include <cstdint>

#include "cli/engine_options.h"
#include "cli/language_model_folder.h"
#include "cli/verb.h"
#include "server/server.h"

namespace sightline {
namespace {

constexpr int64_t kMostTokens = 32'768;

class ServeVerb : public Verb {
 public:
  VerbText text() const override {
    return {"serve", "Answer over HTTP",
            "sightline serve gaze-lle --toy --port 20000\n"
            "sightline serve locate-anything --weights LocateAnything-3B",
            "Ready when the log says: Application startup complete. SIGTERM finishes what runs, then ends.\n"
            "Packages: sightline serve ORG/NAME, or gaze-lle --detach; see sightline help serve-package."};
  }
  void Declare(OptionSet& options) override;
  Status Check() override;
  LogLevel log_level() const override { return log_level_; }
  Result<int> Run() override;

 private:
  void DeclareLimits(OptionSet& options);
  void DeclareGaze(OptionSet& options);
  void DeclareLocate(OptionSet& options);
  int ServeGaze();
  int ServeLocate();

  std::optional<OptionSet> declared_;
  EitherModel model_;
  ServerOptions server_;
  int max_queue_ = 32;
  int max_body_mib_ = 32;
  double deadline_s_ = 0;  // 0: the model's
  GazeServerOptions gaze_;
  LocateServerOptions locate_;
  LogLevel log_level_ = LogLevel::kInfo;
  std::filesystem::path log_file_;
};

void ServeVerb::Declare(OptionSet& options) {
  DeclareModel(options, model_.name, "what to serve");
  options.Group("Network");
  options.Text("--host", server_.host, "ADDRESS", "address to listen on (default 127.0.0.1)");
  options.Whole("--port", server_.port, 0, 65'535, "exactly this one; 0: any (default 20000 or the next free one)");
  DeclareEither(options, model_);
  options.Flag("--reference-images", server_.images.reference, "ignore EXIF and alpha, as the published programs do");
  DeclareLimits(options);
  DeclareGaze(options);
  DeclareLocate(options);
  options.Group("Log");
  options.File("--log-file", log_file_, "instead of standard output and error; rotated at 10 MB, five are kept");
  options.Choice("--log-level", {"quiet", "info", "debug"}, "default info; quiet: warnings and errors alone",
                 [this](size_t index) { log_level_ = static_cast<LogLevel>(index); });
  declared_.emplace(options);
}

void ServeVerb::DeclareLimits(OptionSet& options) {
  options.Group("Limits");
  options.Whole("--max-queue", max_queue_, 1, 100'000, "requests inside at once (default 32)");
  options.Whole("--max-body-mib", max_body_mib_, 1, 4096, "size of a request (default 32)");
  options.Whole("--max-pixels", server_.images.max_pixels, 1, kMostPixels, "of a picture (default 100000000)");
  options.Real("--deadline-s", deadline_s_, 0.001, 86'400,
               "longest time for an answer (default 120, of locate-anything 600)");
}

void ServeVerb::DeclareGaze(OptionSet& options) {
  DeclareGazeWeights(options, gaze_.weights);
  DeclareProfile(options, gaze_.engine.profile);
  options.Whole("--max-heads", gaze_.max_heads, 1, kMostHeads, "heads in a request (default 10)");
  options.Real("--head-threshold", gaze_.head_threshold, 0, 1, "least score of a found head (default 0.5)");
}

void ServeVerb::DeclareLocate(OptionSet& options) {
  options.Group(kLocateAnything);
  options.Whole("--in-token-limit", locate_.token_limit, 4, locate_.engine.max_token_limit,
                "patches of a picture (default 1024)");
  options.Text("--grid", locate_.grid, "HxW", "patches that pictures are pressed into (default 24x44),\nor native");
  options.Whole("--max-seq-len", locate_.max_sequence, 128, kMostTokens, "tokens of prompt and answer (default 4096)");
  options.Whole("--max-new-tokens", locate_.max_new_tokens, 1, kMostTokens, "of an answer, by default (default 128)");
  options.Whole("--max-new-tokens-cap", locate_.max_new_tokens_cap, 1, kMostTokens,
                "of an answer, at most (default 1024)");
  options.Whole("--warmup-runs", locate_.warmup_runs, 0, 100, "before the first request (default 2)");
}

Status ServeVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelGiven(model_.name));
  server_.max_body_bytes = static_cast<size_t>(max_body_mib_) << 20;
  if (deadline_s_ == 0) {
    server_.request_deadline = model_.name == kLocateAnything ? locate_.request_deadline : gaze_.request_deadline;
  } else {
    server_.request_deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline_s_ * 1000));
  }
  return CheckModelKnown(model_.name) ? CheckForeign(*declared_, model_) : Status();
}

int ServeVerb::ServeGaze() {
  static_cast<ServerOptions&>(gaze_) = server_;
  gaze_.weights = GazeWeightsOf(model_, gaze_.weights);
  gaze_.engine.precision = model_.precision;
  gaze_.engine.threads = model_.threads;
  gaze_.engine.max_queue = max_queue_;
  gaze_.model = model_.name;
  return ServeGazeLle(gaze_);
}

int ServeVerb::ServeLocate() {
  static_cast<ServerOptions&>(locate_) = server_;
  locate_.weights = LocateWeightsOf(model_);
  if (model_.precision) locate_.engine.precision = LocatePrecisionOf(*model_.precision);
  locate_.engine.threads = model_.threads;
  locate_.engine.max_queue = max_queue_;
  locate_.extract_language_model = [](const std::filesystem::path& from, const std::filesystem::path& folder,
                                      bool again) -> Status {
    const auto written = WriteLanguageModelFolder(from, folder, again);
    if (!written) return tl::make_unexpected(written.error());
    for (const std::string& warning : written->warnings) LogWarning(warning);
    return {};
  };
  return ServeLocateAnything(locate_);
}

Result<int> ServeVerb::Run() {
  SIGHTLINE_RETURN_IF_ERROR(CheckModelKnown(model_.name));
  constexpr uint64_t kLogBytes = 10'000'000;
  constexpr int kLogsKept = 5;
  if (!log_file_.empty()) SIGHTLINE_RETURN_IF_ERROR(LogToFile(log_file_, kLogBytes, kLogsKept));
  std::signal(SIGPIPE, SIG_IGN);  // a log or client that goes away must not end the server
  return model_.name == kGazeLle ? ServeGaze() : ServeLocate();
}

}  // namespace

std::unique_ptr<Verb> MakeServeVerb() { return std::make_unique<ServeVerb>(); }

}  // namespace sightline
