#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "pipeline/admission.h"
#include "pipeline/iou.h"
#include "pipeline/packed_cache.h"
#include "pipeline/pipeline.h"
#include "pipeline/recent_cache.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

// A detected head that overlaps a given box this much is the same head (docs/design.md, "Head detection").
constexpr double kSameHeadIou = 0.4;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A request on its way: what the device needs, and the answer as far as it is known.
struct Prepared {
  GazeRequest request;
  GazeAnswer answer;
  std::vector<HeadMask> masks;
  std::shared_ptr<const GazeScene> scene;  // from the cache, or null
  std::vector<float> patches;              // when there is no scene
};

Status CheckBoxCount(const GazeRequest& request) {
  const size_t given = request.boxes.size();
  if (given == 0 && !request.detect_heads) {
    return Fail(Code::kMissingField, "bboxes: no head box was given; give at least one or ask for detect_heads",
                "bboxes");
  }
  if (request.max_boxes > 0 && given > static_cast<size_t>(request.max_boxes)) {
    return Fail(Code::kTooManyBoxes,
                fmt::format("bboxes: {} head boxes were given, the limit is {}", given, request.max_boxes), "bboxes");
  }
  return {};
}

void AddPerson(const Box& box, const HeadRegion& region, std::optional<double> head_score, Prepared* prepared) {
  prepared->masks.push_back(region.mask);
  GazePerson& person = prepared->answer.people.emplace_back();
  person.box = box;
  person.normalized = region.normalized;
  person.cells = region.cells;
  person.head_score = head_score;
}

Status AddGivenBoxes(Prepared* prepared) {
  const GazeRequest& request = prepared->request;
  const Image& image = request.picture->image;
  for (size_t i = 0; i < request.boxes.size(); ++i) {
    const std::optional<Box>& box = request.boxes[i];
    const std::string param = fmt::format("bboxes[{}]", i);
    if (!box && !request.reference) {
      return Fail(Code::kInvalidBox, fmt::format("{} is none, which only reference mode allows", param), param);
    }
    auto region = request.reference
                      ? MarkHeadLikeReference(box, request.units, image.width, image.height, param)
                      : MarkHead(*box, request.units, image.width, image.height, param, &prepared->answer.warnings);
    if (!region) return tl::make_unexpected(std::move(region).error());
    AddPerson(box.value_or(Box{}), *region, std::nullopt, prepared);
    prepared->answer.people.back().marked = box.has_value();
  }
  return {};
}

Box GivenBoxInPixels(const GazePerson& person, const Image& image) {
  const Box& n = person.normalized;
  return {n.x1 * image.width, n.y1 * image.height, n.x2 * image.width, n.y2 * image.height};
}

Status AddDetectedHeads(const HeadsFound& found, Prepared* prepared) {
  const Image& image = prepared->request.picture->image;
  GazeAnswer& answer = prepared->answer;
  answer.heads_found = found.above_threshold;
  const size_t given = answer.people.size();
  for (const Head& head : found.heads) {
    const bool known = std::any_of(
        answer.people.begin(), answer.people.begin() + static_cast<ptrdiff_t>(given),
        [&](const GazePerson& person) { return Iou(GivenBoxInPixels(person, image), head.box) >= kSameHeadIou; });
    if (known) continue;
    const std::string param = fmt::format("heads[{}]", answer.people.size() - given);
    const Box& b = head.box;
    const Box fractions{b.x1 / image.width, b.y1 / image.height, b.x2 / image.width, b.y2 / image.height};
    SIGHTLINE_ASSIGN_OR_RETURN(const HeadRegion region, MarkHead(fractions, BoxUnits::kNormalized, image.width,
                                                                 image.height, param, &answer.warnings));
    AddPerson(head.box, region, head.score, prepared);
  }
  if (found.above_threshold > static_cast<int>(found.heads.size())) {
    answer.warnings.push_back(
        {"heads_dropped",
         fmt::format("{} heads were found, the best {} are answered", found.above_threshold, found.heads.size()),
         "max_heads"});
  }
  return {};
}

std::string HeadsSource(const GazeRequest& request) {
  if (!request.detect_heads) return "request";
  return request.boxes.empty() ? "detector" : "request+detector";
}

std::vector<float> Patches(const Image& image, Profile profile) {
  return PatchRows(profile == Profile::kUpstream ? ResizeUpstream(image, kGazeInputSize)
                                                 : ResizePort(image, kGazeInputSize));
}

// fkryan/gazelle utils.py, gazefollow_l2: the first largest cell, its top left corner.
void Finish(const GazeMap& map, int width, int height, GazePerson* person) {
  const auto peak = std::ranges::max_element(map.heatmap);
  const int cell = static_cast<int>(peak - map.heatmap.begin());
  person->heatmap = map.heatmap;
  person->row = cell / kHeatmapSize;
  person->column = cell % kHeatmapSize;
  person->score = *peak;
  person->target_normalized = {double{person->column * 1.0} / kHeatmapSize, double{person->row * 1.0} / kHeatmapSize};
  person->target = {person->target_normalized.x * width, person->target_normalized.y * height};
  person->inout = map.inout;
}

}  // namespace

struct GazeEngine::State {
  GazeEngineOptions options;
  GazeEngineInfo info;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<GazeLle> model;
  RecentCache<const GazeScene> scenes;
  Admission admission;
  std::mutex detector_mutex;
  std::unique_ptr<HeadDetector> detector;  // loaded when first asked for
  DeviceQueue queue;                       // last: its thread ends before anything it uses

  explicit State(const GazeEngineOptions& given)
      : options(given),
        scenes(static_cast<size_t>(std::max(given.scene_cache_entries, 0))),
        admission(given.max_queue) {}

  Result<HeadsFound> DetectHeads(const Image& image, const HeadOptions& head_options);
  Result<Prepared> Prepare(GazeRequest request);
  Result<GazeAnswer> Compute(Prepared prepared, double wait_ms);
};

Result<HeadsFound> GazeEngine::State::DetectHeads(const Image& image, const HeadOptions& head_options) {
  {
    const std::lock_guard lock(detector_mutex);
    if (detector == nullptr) {
      SIGHTLINE_ASSIGN_OR_RETURN(detector, HeadDetector::Load());
    }
  }
  return detector->Detect(image, head_options);
}

Result<Prepared> GazeEngine::State::Prepare(GazeRequest request) {
  const auto start = Clock::now();
  SIGHTLINE_RETURN_IF_ERROR(CheckBoxCount(request));
  Prepared prepared;
  prepared.request = std::move(request);
  const GazeRequest& asked = prepared.request;
  const Image& image = asked.picture->image;
  GazeAnswer& answer = prepared.answer;
  answer.width = image.width;
  answer.height = image.height;
  answer.heads_source = HeadsSource(asked);
  SIGHTLINE_RETURN_IF_ERROR(AddGivenBoxes(&prepared));
  if (asked.detect_heads) {
    const auto detection_start = Clock::now();
    SIGHTLINE_ASSIGN_OR_RETURN(const HeadsFound found, DetectHeads(image, asked.heads));
    answer.detect_ms = MillisecondsSince(detection_start);
    SIGHTLINE_RETURN_IF_ERROR(AddDetectedHeads(found, &prepared));
  }
  if (answer.people.empty()) {
    answer.empty_reason = fmt::format(
        "no head was found above the threshold {:g}; heads seen from behind or turned away can be missed, give their "
        "boxes yourself",
        asked.heads.threshold);
    return prepared;
  }
  if (!asked.picture_digest.empty()) prepared.scene = scenes.Find(asked.picture_digest);
  if (prepared.scene == nullptr) prepared.patches = Patches(image, info.profile);
  answer.scene_from_cache = prepared.scene != nullptr;
  prepared.request.picture.reset();  // up to 300 MB that a waiting request needs no more
  answer.prepare_ms = MillisecondsSince(start);
  return prepared;
}

Result<GazeAnswer> GazeEngine::State::Compute(Prepared prepared, double wait_ms) {
  const std::stop_token stop = prepared.request.stop;
  prepared.answer.wait_ms = wait_ms;
  if (stop.stop_requested()) return Fail(Code::kCancelled, "gaze: the request was cancelled while it waited");
  GazeAnswer& answer = prepared.answer;
  const auto start = Clock::now();
  if (prepared.scene == nullptr) {
    SIGHTLINE_ASSIGN_OR_RETURN(GazeScene scene, model->Encode(prepared.patches, info.profile, stop));
    prepared.scene = std::make_shared<const GazeScene>(std::move(scene));
    if (!prepared.request.picture_digest.empty()) scenes.Insert(prepared.request.picture_digest, prepared.scene, 1);
    answer.encode_ms = MillisecondsSince(start);
  }
  const auto decode_start = Clock::now();
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<GazeMap> maps, model->Decode(*prepared.scene, prepared.masks, stop));
  answer.decode_ms = MillisecondsSince(decode_start);
  for (size_t i = 0; i < maps.size(); ++i) Finish(maps[i], answer.width, answer.height, &answer.people[i]);
  return std::move(answer);
}

Result<std::unique_ptr<GazeEngine>> GazeEngine::Open(GazeWeights weights, const GazeEngineOptions& options) {
  auto state = std::make_unique<State>(options);
  SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, DetectIsa());
  state->backend = MakeCpuBackend({.threads = options.threads, .isa = isa});
  const std::filesystem::path cache = options.cache_folder.empty() ? CacheFolderOrMemory() : options.cache_folder;
  const Precision precision = options.precision.value_or(state->backend->preferred_precision());
  SIGHTLINE_ASSIGN_OR_RETURN(state->model,
                             GazeLle::Load(*state->backend, weights.files, precision, cache, options.packing));

  GazeEngineInfo& info = state->info;
  info.device = state->backend->name();
  info.backend = "cpu";
  info.isa = state->backend->isa();
  info.threads = state->backend->threads();
  info.precision = precision;
  info.profile = options.profile;
  info.dimensions = state->model->dimensions();
  info.repo = weights.repo;
  info.revision = weights.revision;
  info.backbone = weights.backbone;
  info.decoder = weights.decoder;
  info.synthetic = weights.synthetic;
  info.toy = weights.toy;
  return std::unique_ptr<GazeEngine>(new GazeEngine(std::move(state)));
}

GazeEngine::GazeEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
GazeEngine::~GazeEngine() = default;

const GazeEngineInfo& GazeEngine::info() const { return state_->info; }

Result<QueueTicket> GazeEngine::Admit() {
  if (state_->queue.draining()) return Fail(Code::kDraining, "the server is shutting down");
  return state_->admission.Take();
}

void GazeEngine::Run(QueueTicket ticket, GazeRequest request, std::function<void(Result<GazeAnswer>)> done) {
  auto prepared = state_->Prepare(std::move(request));
  if (!prepared) return EndAtOnce<GazeAnswer>(std::move(ticket), tl::make_unexpected(prepared.error()), done);
  if (prepared->answer.people.empty()) return EndAtOnce<GazeAnswer>(std::move(ticket), prepared->answer, done);
  const std::stop_token stop = prepared->request.stop;
  RunOnDevice<GazeAnswer, Prepared>(
      state_->queue, std::move(ticket), std::move(*prepared), stop,
      [state = state_.get()](Prepared ready, double wait_ms) { return state->Compute(std::move(ready), wait_ms); },
      std::move(done));
}

Result<GazeAnswer> GazeEngine::Run(GazeRequest request) {
  SIGHTLINE_ASSIGN_OR_RETURN(QueueTicket ticket, Admit());
  return WaitForAnswer<GazeAnswer>([&](auto done) { Run(std::move(ticket), std::move(request), std::move(done)); });
}

void GazeEngine::Drain() { state_->queue.Drain(); }

EngineLoad GazeEngine::load() const {
  EngineLoad load;
  load.admitted = state_->admission.inside();
  load.queued = state_->queue.queued();
  const std::optional<double> running = state_->queue.running_ms();
  load.running = running.has_value();
  load.running_ms = running.value_or(0);
  load.scene_cache_hits = state_->scenes.hits();
  load.scene_cache_misses = state_->scenes.misses();
  return load;
}

}  // namespace sightline
