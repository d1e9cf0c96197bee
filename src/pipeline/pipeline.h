// pipeline: a typed question to a typed answer. Checks boxes, prepares pictures, queues work for the one device thread,
// runs the model and maps results back to pixels. It never sees HTTP or JSON; the server, the command line and
// evaluation all enter here with the same types.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/base.h"
#include "heads/heads.h"
#include "media/media.h"
#include "models/models.h"

namespace sightline {

// Something the user should know about an answer that is given all the same: {"box_clipped", "the box reaches ...",
// "bboxes[2]"}.
struct Warning {
  std::string code;
  std::string message;
  std::string param;  // the request field it is about, or empty
};

// ---------------------------------------------------------------------------------------------------------------------
// Where weights come from

struct GazeWeightsOptions {
  // At most one of these is set: a folder with one dinov2* and one gazelle* file; two files; the shipped toy; synthetic
  // ViT-B/14 weights, seed 1, made once in the cache folder. None: the Hugging Face cache.
  std::filesystem::path folder{};
  std::filesystem::path backbone{}, decoder{};
  bool toy = false;
  bool synthetic = false;
};

struct GazeWeights {
  GazeLle::Files files;
  std::string repo, revision;     // of the Hugging Face cache, else empty
  std::string backbone, decoder;  // file names
  bool synthetic = false;         // random numbers: answers mean nothing as gaze
  bool toy = false;               // trained on drawings: answers mean nothing on photographs
};

// Fails with kUsage when options contradict each other, kNotFound with both ways to get weights when there are none.
// `progress` is called while synthetic weights are being made.
Result<GazeWeights> OpenGazeWeights(const GazeWeightsOptions& options,
                                    const std::function<void(int done, int total)>& progress = {});

// ---------------------------------------------------------------------------------------------------------------------
// Head boxes

enum class BoxUnits { kPixels, kNormalized };

// A box after the guards: what the model gets and what the user is told.
struct HeadRegion {
  Box normalized;  // fractions of the upright picture, clipped to it
  HeadMask mask;
  int cells = 0;  // marked cells
};

// Guards (default): NaN, infinity, inverted or empty boxes are kInvalidBox; boxes wholly outside kBoxOutside; pixel
// boxes sent as normalised and the reverse kUnitsMismatch; boxes partly outside are clipped ("box_clipped"), boxes that
// would mark no cell are widened to one ("box_widened"). `param` names the box in errors and warnings.
Result<HeadRegion> MarkHead(const Box& box, BoxUnits units, int width, int height, const std::string& param,
                            std::vector<Warning>* warnings);
// The official rule without guards: cells round(v * 32), half to even, as Python slices of a 32x32 array
// (fkryan/gazelle model.py, get_input_head_maps); negative starts wrap, empty masks are allowed. No box marks nobody.
Result<HeadRegion> MarkHeadLikeReference(const std::optional<Box>& box, BoxUnits units, int width, int height,
                                         const std::string& param);

// ---------------------------------------------------------------------------------------------------------------------
// Questions and answers

struct GazeRequest {
  std::shared_ptr<const DecodedImage> picture;
  std::string picture_digest;             // SHA-256 of the file; key of the scene cache
  std::vector<std::optional<Box>> boxes;  // nullopt ("no person marked") only with `reference`
  BoxUnits units = BoxUnits::kPixels;
  bool detect_heads = false;  // adds the heads that the detector finds after `boxes`
  HeadOptions heads;
  int max_boxes = 0;       // more given boxes are kTooManyBoxes; 0: any number
  bool reference = false;  // official box rules, no guards
  std::stop_token stop;    // the client is gone, or the deadline has passed
};

struct GazePerson {
  Box box;                           // as given, in the request's units; for detected heads pixels
  Box normalized;                    // what was used, clipped
  bool marked = true;                // false: reference mode without a box
  int cells = 0;                     // patch cells marked as this person's head
  std::optional<double> head_score;  // of the detector, when it found this head
  std::array<float, kHeatmapCells> heatmap;
  int row = 0, column = 0;     // of the largest heat map value, the first in row-major order
  float score = 0;             // that value
  Point target_normalized;     // (column / 64, row / 64): fkryan/gazelle utils.py, gazefollow_l2
  Point target;                // the same in pixels
  std::optional<float> inout;  // probability that the target is inside the picture
};

struct GazeAnswer {
  int width = 0, height = 0;  // of the upright picture
  std::vector<GazePerson> people;
  std::string heads_source;  // "request", "detector" or "request+detector"
  int heads_found = 0;       // above the threshold, before max_heads
  std::string empty_reason;  // why `people` is empty, else empty
  std::vector<Warning> warnings;
  bool scene_from_cache = false;
  double prepare_ms = 0, detect_ms = 0, wait_ms = 0, encode_ms = 0, decode_ms = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Engine

struct GazeEngineOptions {
  Profile profile = Profile::kUpstream;
  std::optional<Precision> precision;  // none: the backend's preference
  int threads = 0;                     // 0: DefaultThreadCount()
  std::filesystem::path cache_folder;  // empty: CacheFolder()
  int max_queue = 32;                  // requests admitted and not yet answered
  int scene_cache_entries = 32;        // 1 MiB each; 0 turns the cache off
};

// What an engine is, for /info and headings.
struct GazeEngineInfo {
  std::string device;   // "CPU AVX2, 2 threads"
  std::string backend;  // "cpu"
  std::string isa;
  int threads = 0;
  Precision precision = Precision::kF32;
  Profile profile = Profile::kUpstream;
  GazeDimensions dimensions;
  std::string repo, revision, backbone, decoder;
  bool synthetic = false, toy = false;
};

// Owns backend, model, head detector, scene cache and the device thread. All methods may be called from any thread.
class GazeEngine {
 public:
  static Result<std::unique_ptr<GazeEngine>> Open(GazeWeights weights, const GazeEngineOptions& options);
  ~GazeEngine();  // as Drain, then waits for the device thread

  const GazeEngineInfo& info() const;

  // A place in the queue, given back when destroyed. kBusy when max_queue requests are inside, kDraining after Drain.
  // Take one before reading pictures, so that a full house costs nothing.
  class Ticket {
   public:
    Ticket() = default;

   private:
    friend class GazeEngine;
    std::shared_ptr<void> place_;
  };
  Result<Ticket> Admit();

  // Prepares on the calling thread (checks boxes, finds heads, resizes), computes on the device thread, then calls
  // `done` there once. Keep `done` short: it holds up the next request. A request whose `stop` is asked for ends with
  // kCancelled, at once while it waits (`done` is then called on the thread that asks), else within one backbone block.
  void Run(Ticket ticket, GazeRequest request, std::function<void(Result<GazeAnswer>)> done);
  // The same, waiting for the answer.
  Result<GazeAnswer> Run(GazeRequest request);

  // Lets the running request finish, ends queued ones with kDraining and admits no more. Returns at once.
  void Drain();

  struct Load {
    int admitted = 0;  // inside, at any stage
    int queued = 0;    // waiting for the device
    bool running = false;
    double running_ms = 0;  // of the request on the device now
    uint64_t scene_cache_hits = 0, scene_cache_misses = 0;
  };
  Load load() const;

 private:
  struct State;
  explicit GazeEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Times the model alone, stage by stage, on one picture-sized input of synthetic pixels.
struct GazeBenchOptions {
  int iterations = 10;
  int threads = 0;
  std::optional<Precision> precision;
};
struct GazeBench {
  struct Stage {
    std::string name;
    double best_ms = 0, median_ms = 0;
    double gflop = 0;          // multiplications and additions of the stage
    double share_of_peak = 0;  // of peak_gflops, at best_ms
  };
  std::vector<Stage> stages;  // patch embedding, backbone linear layers, attention, ... , decoder
  Stage backbone;             // patch embedding to final LayerNorm
  Stage model_one_head, model_ten_heads;
  double peak_gflops = 0;     // measured in this run, same threads, same format
  std::string output_sha256;  // of the heat maps of one head
  size_t activation_bytes = 0;
  double load_ms = 0;  // from open files to ready
  GazeEngineInfo info;
};
Result<GazeBench> BenchGazeLle(GazeWeights weights, const GazeBenchOptions& options,
                               const std::function<void(int done, int total)>& progress = {});

}  // namespace sightline
