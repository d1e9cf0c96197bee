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
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/base.h"
#include "heads/heads.h"
#include "media/media.h"
#include "models/models.h"
#include "text/text.h"

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
  PackingProgress packing = {};        // told while weights are packed, once for a processor and format
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

// A place among the requests inside an engine, given back when the last copy goes.
class QueueTicket {
 public:
  QueueTicket() = default;

 private:
  friend class Admission;
  explicit QueueTicket(std::shared_ptr<void> place) : place_(std::move(place)) {}
  std::shared_ptr<void> place_;
};

// What an engine is busy with.
struct EngineLoad {
  int admitted = 0;  // inside, at any stage
  int queued = 0;    // waiting for the device
  bool running = false;
  double running_ms = 0;                                    // of the request on the device now
  uint64_t scene_cache_hits = 0, scene_cache_misses = 0;    // pictures whose features were known
  uint64_t prefix_cache_hits = 0, prefix_cache_misses = 0;  // prompts whose beginning was known, of LocateEngine
};

// What a server needs to know of any engine. All methods may be called from any thread.
class Engine {
 public:
  virtual ~Engine() = default;

  // kBusy when max_queue requests are inside, kDraining after Drain. Take a ticket before reading pictures, so that a
  // full house costs nothing.
  virtual Result<QueueTicket> Admit() = 0;
  // Lets the running request finish, ends queued ones with kDraining and admits no more. Returns at once.
  virtual void Drain() = 0;
  virtual EngineLoad load() const = 0;
};

// Owns backend, model, head detector, scene cache and the device thread. All methods may be called from any thread.
class GazeEngine : public Engine {
 public:
  static Result<std::unique_ptr<GazeEngine>> Open(GazeWeights weights, const GazeEngineOptions& options);
  ~GazeEngine() override;  // as Drain, then waits for the device thread

  const GazeEngineInfo& info() const;

  Result<QueueTicket> Admit() override;

  // Prepares on the calling thread (checks boxes, finds heads, resizes), computes on the device thread, then calls
  // `done` there once. Keep `done` short: it holds up the next request. A request whose `stop` is asked for ends with
  // kCancelled, at once while it waits (`done` is then called on the thread that asks), else within one backbone block.
  void Run(QueueTicket ticket, GazeRequest request, std::function<void(Result<GazeAnswer>)> done);
  // The same, waiting for the answer.
  Result<GazeAnswer> Run(GazeRequest request);

  void Drain() override;
  EngineLoad load() const override;

 private:
  struct State;
  explicit GazeEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One line of a benchmark.
struct BenchStage {
  std::string name;
  double best_ms = 0;         // sum over its operations of the best time that each of them took in any pass
  double fastest_ms = 0;      // of the fastest pass
  double median_ms = 0;       // of all passes
  double gflop = 0;           // multiplications and additions
  double gbyte = 0;           // weights read from memory, where that can limit
  double share_of_limit = 0;  // the time that the machine's measured limits allow, by best_ms
};

// Times the model alone, stage by stage, on one picture-sized input of synthetic pixels.
struct GazeBenchOptions {
  int iterations = 10;
  int threads = 0;
  std::optional<Precision> precision;
  PackingProgress packing = {};
};
struct GazeBench {
  std::vector<BenchStage> stages;  // patch embedding, backbone linear layers, attention, ... , decoder
  BenchStage backbone;             // patch embedding to final LayerNorm
  BenchStage model_one_head, model_ten_heads;
  double peak_gflops = 0;     // measured in this run, same threads, same format
  std::string output_sha256;  // of the heat maps of one head
  size_t activation_bytes = 0;
  double load_ms = 0;  // from open files to ready
  GazeEngineInfo info;
};
Result<GazeBench> BenchGazeLle(GazeWeights weights, const GazeBenchOptions& options,
                               const std::function<void(int done, int total)>& progress = {});

// =====================================================================================================================
// LocateAnything: where weights come from, pictures, benchmark

struct LocateWeightsOptions {
  // At most one of these is set: the folder as downloaded; a size of synthetic weights (tiny, full, puppet), seed 1,
  // made once in the cache folder. Neither: the Hugging Face cache.
  std::filesystem::path folder{};
  std::string synthetic{};
};
struct LocateWeights {
  std::filesystem::path folder;
  std::string repo, revision;  // of the Hugging Face cache, else empty
  bool synthetic = false;      // random numbers: answers have no meaning
};
Result<LocateWeights> OpenLocateWeights(const LocateWeightsOptions& options,
                                        const std::function<void(int done, int total)>& progress = {});

// How a picture becomes patches.
struct LocateScaling {
  int64_t token_limit = 1024;     // patches at most, before both sides are rounded up to pairs of patches
  std::optional<PatchGrid> grid;  // then pressed into exactly this grid, whatever the aspect
};

// Times the model on the published measuring point: 1056 patches, a prompt of 303 tokens.
struct LocateBenchOptions {
  int iterations = 5;
  int threads = 0;
  LocatePrecision precision;
  PackingProgress packing = {};
};
struct LocateBench {
  std::vector<BenchStage> stages;  // operations of each part
  BenchStage vision, prefill;
  BenchStage window_step, single_step;                      // against arithmetic and memory, whichever is slower
  BenchStage five_boxes;                                    // a whole request
  BenchStage second_question;                               // another category in the same picture, to its first box
  double vision_peak_gflops = 0, language_peak_gflops = 0;  // measured in this run, in the formats used
  double read_gbytes_per_second = 0;
  size_t packed_bytes = 0, activation_bytes = 0;
  double load_ms = 0;
  std::string output_sha256;  // of logits
  std::string device, isa, variant;
  int threads = 0;
  LocatePrecision precision;
  bool synthetic = false;
};
Result<LocateBench> BenchLocateAnything(const LocateWeights& weights, const LocateBenchOptions& options,
                                        const std::function<void(int done, int total)>& progress = {});

// How far a number format strays from the most exact one: the same pictures and questions, the same tokens fed.
struct LocateDriftOptions {
  int pictures = 4;
  int tokens = 24;  // of each answer
  int threads = 0;
  LocatePrecision precision;
  PackingProgress packing = {};
};
struct LocateDrift {
  LocatePrecision reference;
  int64_t rows = 0;           // of logits compared
  double top1_agreement = 0;  // share of rows with the same most probable token
  double correlation = 0;     // Pearson's, of the logits of a row; the mean over rows
  int64_t boxes = 0;          // of the reference's own answers
  double mean_iou = 0;        // with the box in the same place of the other's answer; 0 where there is none
};
// Loads one network after the other. The reference is f32, or bf16 where that is the same (docs/numerics.md).
Result<LocateDrift> MeasureLocateDrift(const LocateWeights& weights, const LocateDriftOptions& options,
                                       const std::function<void(int done, int total)>& progress = {});

// =====================================================================================================================
// LocateAnything: prompts and answers

// What is asked about a picture. The templates are those of the official worker and model card.
enum class LocateTask {
  kDetect,     // "detect": every instance of each category
  kGroundOne,  // "ground_one": one instance of a phrase
  kGroundAll,  // "ground_all": all instances of a phrase
  kPoint,      // "point": points on what a phrase names
  kReadText,   // "read_text": all text, with boxes
  kFindText,   // "find_text": where a text stands
  kGuiBox,     // "gui_box": an element of a user interface
  kGuiPoint,   // "gui_point": the same as a point
  kRaw,        // "raw": a prompt as it is
};
std::string_view NameOf(LocateTask task);
Result<LocateTask> ParseLocateTask(std::string_view name);

struct LocateQuestion {
  LocateTask task = LocateTask::kDetect;
  // kDetect: categories, in one or several texts, joined by "</c>"; kReadText: nothing; else one text. It is taken
  // literally: what looks like a token ("<box>", "<|im_end|>", "<image-2>") is ordinary text. Only "</c>" separates
  // categories in kDetect and kRaw.
  std::vector<std::string> query{};
  std::optional<std::string> system{};  // replaces the official system message
  // kRaw only: the text is read as the official processor reads it. Added tokens are tokens, and "<image-K>" is where
  // picture K is to stand.
  bool reference = false;
};

struct LocatePrompt {
  std::vector<TokenId> ids;
  std::vector<size_t> pictures;         // which picture each block of image tokens shows, in the order of `ids`
  std::vector<std::string> categories;  // of kDetect
  int64_t shared =
      0;  // leading ids that are the same for every question about the same pictures, as far as the last one
};
// Pictures stand before the question; `picture_tokens` has the number of image tokens of each. kInvalidRequest with
// param "query" for a text that is missing, empty or too much, or that names a picture that is not there; kInvalidUtf8.
Result<LocatePrompt> MakeLocatePrompt(const Tokenizer& tokenizer, const LocateTokens& tokens,
                                      const LocateQuestion& question, std::span<const int64_t> picture_tokens);
// kInvalidRequest unless the prompt has pictures and as many image tokens as they need: with `reference` a text may
// hold
// "<IMG_CONTEXT>" itself.
Status CheckPictureTokens(const LocatePrompt& prompt, const LocateTokens& tokens,
                          std::span<const int64_t> picture_tokens);

// One box, point or "None" of an answer.
struct LocateFinding {
  enum class Kind { kBox, kPoint, kNone };
  Kind kind = Kind::kBox;
  std::optional<std::string> label;  // the last <ref> before it; of read_text, the text itself
  std::array<int, 4> thousandths{};  // x1 y1 x2 y2 as written, 0 to 1000 of the picture's sides; x y x y of a point
  Box normalized;                    // the same from 0 to 1, not put in order
  double score = 0;  // "token_prob": geometric mean of the probabilities of its coordinates, or of "None"
};

enum class CategoryStatus {
  kFound,        // "found": has a box or a point
  kNone,         // "none": the model says that there is none
  kNotAnswered,  // "not_answered": the answer does not come to it
};
std::string_view NameOf(CategoryStatus status);
struct CategoryAnswer {
  std::string name;
  CategoryStatus status = CategoryStatus::kNotAnswered;
  int count = 0;  // boxes and points
};

struct LocateReading {
  std::vector<LocateFinding> findings;
  std::vector<CategoryAnswer> categories;  // of the prompt, in its order
  int malformed = 0;                       // boxes that are left out, for they hold no coordinates as boxes have them
  // At most eight of a code. Codes: box_unordered, box_without_area, box_repeated, box_malformed, label_unfinished,
  // label_missing, label_unknown, text_outside. `param` is "findings[i]" where there is one.
  std::vector<Warning> warnings;
};
// What the ids of an answer say. Labels of a category match without regard to case or outer white space. An answer
// without labels is about the only category; one that is but "None" is about all. `probabilities` are of each id.
LocateReading ReadLocateAnswer(const Tokenizer& tokenizer, const LocateTokens& tokens, std::span<const TokenId> ids,
                               std::span<const double> probabilities, std::span<const std::string> categories);

// ---- The readers of published programs, which read the answer's text. In pixels of a width x height picture. Integers
// are what Python's \d+ takes, Unicode digits included, up to 15 digits behind leading zeros.

// NVlabs/Eagle locateanything_worker.py: no labels, nothing clamped or put in order.
struct WorkerReading {
  std::vector<Box> boxes;
  std::vector<Point> points;
};
WorkerReading ReadLikeWorker(std::string_view text, int width, int height);

// changh95/tt-locate-anything tt/pipeline.py, parse_detections: as the worker, with the label that stands before.
struct PortReading {
  struct Detection {
    std::optional<std::string> label;
    Box box;
    std::array<int64_t, 4> box_norm{};
  };
  struct Location {
    std::optional<std::string> label;
    Point point;
    std::array<int64_t, 2> point_norm{};
  };
  std::vector<Detection> detections;
  std::vector<Location> points;
};
PortReading ReadLikePort(std::string_view text, int width, int height);

// NVlabs/Eagle evaluation/*.py: only what stands right behind a label, clamped to the picture, corners put in order.
// Detection takes boxes alone; grounding and ScreenSpot-Pro also points, those of a label first.
enum class EvaluationTask { kDetection, kGrounding };
struct EvaluationLabel {
  std::string label;
  std::vector<std::vector<double>> places;  // x1 y1 x2 y2, or x y
};
std::vector<EvaluationLabel> ReadLikeEvaluation(std::string_view text, int width, int height, EvaluationTask task);

// =====================================================================================================================
// LocateAnything: questions and answers

struct LocateProgress {
  std::string_view stage;      // "vision", "prompt", "answer"
  int64_t tokens = 0;          // of the answer so far
  std::string_view text = {};  // they read
};

struct LocateRequest {
  struct Picture {
    std::shared_ptr<const DecodedImage> image;
    std::string digest;  // SHA-256 of the file; key of the caches. Empty: not kept
  };
  std::vector<Picture> pictures;
  LocateQuestion question;
  LocateScaling scaling;
  GenerationOptions generation;                         // `tokens` is the engine's business
  int64_t max_tokens = 0;                               // of prompt and answer together; 0: what the model takes
  std::stop_token stop;                                 // the client is gone, or the deadline has passed
  std::function<void(const LocateProgress&)> progress;  // on the device thread; keep it short
};

// A finding in pixels of the upright first picture. (An answer does not say which of several pictures it means.)
struct LocatePlace {
  LocateFinding finding;
  Box box;      // of a box; corners as written, not clamped, not put in order
  Point point;  // of a point
};
// The place of a finding in a width x height picture: its thousandths of the sides, 1000 being the far edge itself.
LocatePlace PlaceOf(const LocateFinding& finding, int width, int height);

struct LocateAnswer {
  int width = 0, height = 0;  // of the first picture
  struct SeenPicture {
    PatchGrid grid;
    bool from_cache = false;
  };
  std::vector<SeenPicture> pictures;
  std::vector<LocatePlace> places;  // boxes and points; "None" is told by `categories`
  std::vector<CategoryAnswer> categories;
  int malformed = 0;         // boxes of the answer that are left out
  std::string empty_reason;  // why `places` is empty, else empty
  std::string text;          // the answer with its tokens, "<ref>car</ref><box>..."
  Generation generation;
  DecodingMode mode = DecodingMode::kHybrid;
  int64_t image_tokens = 0, prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, known from an earlier question
  double gflop = 0;           // estimate of what picture and prompt cost without caches
  std::vector<Warning> warnings;
  double prepare_ms = 0, wait_ms = 0, vision_ms = 0, prefill_ms = 0, decode_ms = 0;
};

struct LocateEngineOptions {
  LocatePrecision precision;
  int threads = 0;                                // 0: DefaultThreadCount()
  std::filesystem::path cache_folder;             // of packed weights; empty: CacheFolder()
  int max_queue = 32;                             // requests admitted and not yet answered
  int64_t max_token_limit = 25'600;               // the largest LocateScaling::token_limit that is taken
  size_t picture_cache_bytes = size_t{64} << 20;  // what the vision tower found in recent pictures
  size_t prefix_cache_bytes = size_t{256} << 20;  // keys and values of recent pictures; 0 turns a cache off
  PackingProgress packing = {};                   // told while weights are packed, once for a processor and format
};

struct LocateEngineInfo {
  std::string device;   // "CPU AVX2, 2 threads"
  std::string backend;  // "cpu"
  std::string isa;
  int threads = 0;
  LocatePrecision precision;
  LocateConfig config;
  std::filesystem::path folder;
  std::string repo, revision;
  bool synthetic = false;
};

// Owns backend, model, tokenizer, caches and the device thread. All methods may be called from any thread. Answers do
// not depend on what the caches hold, on what is computed before or after, or on the number of threads.
class LocateEngine : public Engine {
 public:
  static Result<std::unique_ptr<LocateEngine>> Open(const LocateWeights& weights, const LocateEngineOptions& options);
  ~LocateEngine() override;  // as Drain, then waits for the device thread

  const LocateEngineInfo& info() const;
  const Tokenizer& tokenizer() const;

  // As GazeEngine's. A stop request ends a running request within one layer of a forward pass.
  Result<QueueTicket> Admit() override;
  void Run(QueueTicket ticket, LocateRequest request, std::function<void(Result<LocateAnswer>)> done);
  Result<LocateAnswer> Run(LocateRequest request);
  void Drain() override;
  EngineLoad load() const override;

 private:
  struct State;
  explicit LocateEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sightline
