#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "pipeline/admission.h"
#include "pipeline/locate_picture.h"
#include "pipeline/packed_cache.h"
#include "pipeline/pipeline.h"
#include "pipeline/recent_cache.h"
#include "pipeline/stage_clock.h"

namespace sightline {
namespace {

using Session = LocateAnything::Session;

// Tokens that a step may feed beyond the answer's last: a window's overshoot, and drafts that are taken back.
constexpr int64_t kSpareTokens = 2 * kWindow;

// A request on its way: what the device needs, and the answer as far as it is known.
struct Prepared {
  LocateRequest request;
  LocateAnswer answer;
  LocatePrompt prompt;
  struct Picture {
    std::string key;  // of the caches, or empty
    LocatePicture picture;
    std::shared_ptr<const std::vector<float>> rows;  // from the cache, or null
  };
  std::vector<Picture> pictures;
};

// Multiplications and additions: matrix products and attention of the vision tower, and of the decoder for the prompt.
double EstimateGflop(const LocateConfig& config, const std::vector<LocateAnswer::SeenPicture>& pictures,
                     int64_t prompt_tokens) {
  const auto& vision = config.vision;
  const auto& language = config.language;
  double sum = 0;
  for (const auto& picture : pictures) {
    const auto patches = static_cast<double>(picture.grid.patches());
    const double width = vision.hidden;
    const double block = patches * width * (4 * width + 2.0 * vision.intermediate) + 2 * patches * patches * width;
    sum += vision.layers * block + patches * width * kPatchValues;
  }
  const auto tokens = static_cast<double>(prompt_tokens);
  const double hidden = language.hidden, kv = 2.0 * language.kv_heads * language.head_size;
  const double layer = hidden * (2 * hidden + kv + 3.0 * language.intermediate);
  sum += language.layers * (tokens * layer + tokens * tokens * hidden);
  return 2e-9 * sum;
}

std::string PictureKey(const std::string& digest, PatchGrid grid, const LocateScaling& scaling) {
  if (digest.empty()) return {};
  return fmt::format("{} {}x{} of {}", digest, grid.height, grid.width, scaling.token_limit);
}

// The model means by an id what the tokenizer reads and writes for it; else every answer is nonsense that looks sound.
Status CheckTokens(const Tokenizer& tokenizer, const LocateTokens& tokens) {
  const auto expect = [&](TokenId id, std::string_view text) -> Status {
    const std::string found = tokenizer.Decode(std::span(&id, 1));
    if (found == text) return {};
    return Fail(Code::kCorruptWeights,
                fmt::format("token {} is '{}' in the tokenizer, expected '{}' as the model has it", id, found, text));
  };
  const std::pair<TokenId, std::string_view> named[] = {
      {tokens.image, "<IMG_CONTEXT>"}, {tokens.image_start, "<img>"},      {tokens.image_end, "</img>"},
      {tokens.box_start, "<box>"},     {tokens.box_end, "</box>"},         {tokens.ref_start, "<ref>"},
      {tokens.ref_end, "</ref>"},      {tokens.mask, "<text_mask>"},       {tokens.null, "<null>"},
      {tokens.none, "None"},           {tokens.message_end, "<|im_end|>"}, {tokens.message_start, "<|im_start|>"}};
  for (const auto& [id, text] : named) SIGHTLINE_RETURN_IF_ERROR(expect(id, text));
  for (TokenId id = tokens.first_coordinate; id <= tokens.last_coordinate; ++id) {
    SIGHTLINE_RETURN_IF_ERROR(expect(id, fmt::format("<{}>", id - tokens.first_coordinate)));
  }
  return {};
}

Status CheckRequest(const LocateRequest& request, const LocateEngineOptions& options) {
  if (request.pictures.empty()) return Fail(Code::kMissingField, "image: no picture was given", "image");
  const int64_t limit = request.scaling.token_limit;
  if (limit < 4 || limit > options.max_token_limit) {
    return Fail(Code::kInvalidRequest,
                fmt::format("in_token_limit is {}, expected 4 to {}", limit, options.max_token_limit),
                "in_token_limit");
  }
  const auto& grid = request.scaling.grid;
  if (grid &&
      (grid->height < 2 || grid->width < 2 || grid->height % 2 != 0 || grid->width % 2 != 0 ||
       grid->height >= kMaxGridSide || grid->width >= kMaxGridSide || grid->patches() > options.max_token_limit)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("grid is {}x{}, expected even sides from 2 to {} and at most {} patches", grid->height,
                            grid->width, kMaxGridSide - 2, options.max_token_limit),
                "grid");
  }
  return CheckGenerationOptions(request.generation);
}

// Leading tokens of the prompt that are the first ones of `known`. The last token is always fed: it is what the answer
// begins with.
int64_t KnownTokens(const std::vector<TokenId>& known, const std::vector<TokenId>& prompt) {
  const auto differs = std::ranges::mismatch(prompt, known).in1;
  return std::min(differs - prompt.begin(), std::ssize(prompt) - 1);
}

// Scales findings to pixels and says why there are none.
void AddPlaces(const LocateReading& reading, LocateAnswer* answer) {
  bool none = false;
  for (const LocateFinding& finding : reading.findings) {
    none |= finding.kind == LocateFinding::Kind::kNone;
    if (finding.kind == LocateFinding::Kind::kNone) continue;
    answer->places.push_back(PlaceOf(finding, answer->width, answer->height));
  }
  if (!answer->places.empty()) return;
  if (none) {
    answer->empty_reason = "the model answers that there is no such object in the picture";
  } else if (answer->generation.finish_reason == FinishReason::kLength) {
    answer->empty_reason = fmt::format("the answer of {} tokens was cut off before its first box; allow more tokens",
                                       answer->generation.ids.size());
  } else {
    answer->empty_reason = "the model's answer holds no box and no point";
  }
}

}  // namespace

struct LocateEngine::State {
  LocateEngineOptions options;
  LocateEngineInfo info;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<LocateAnything> model;
  std::optional<Tokenizer> tokenizer;
  RecentCache<const std::vector<float>> pictures;
  RecentCache<const Session> prefixes;
  Admission admission;
  DeviceQueue queue;  // last: its thread ends before anything it uses

  explicit State(const LocateEngineOptions& given)
      : options(given),
        pictures(given.picture_cache_bytes),
        prefixes(given.prefix_cache_bytes),
        admission(given.max_queue) {}

  Result<Prepared> Prepare(LocateRequest request);
  Status PreparePictures(Prepared* prepared);
  Status CheckLength(const Prepared& prepared) const;
  Result<LocateAnswer> Compute(Prepared prepared, double wait_ms);
  Result<std::shared_ptr<const std::vector<float>>> Encode(Prepared* prepared);
  std::string PrefixKey(const Prepared& prepared) const;
  void KeepPrompt(const std::string& key, const Prepared& prepared, const Session& session);
  Status Write(Prepared* prepared, Session& session);
};

Result<Prepared> LocateEngine::State::Prepare(LocateRequest request) {
  const Stopwatch stopwatch;
  Prepared prepared;
  prepared.request = std::move(request);
  prepared.request.generation.tokens = info.config.tokens;
  SIGHTLINE_RETURN_IF_ERROR(CheckRequest(prepared.request, options));
  SIGHTLINE_RETURN_IF_ERROR(PreparePictures(&prepared));
  std::vector<int64_t> picture_tokens;
  for (const auto& seen : prepared.answer.pictures) picture_tokens.push_back(seen.grid.tokens());
  const LocateTokens& tokens = info.config.tokens;
  SIGHTLINE_ASSIGN_OR_RETURN(prepared.prompt,
                             MakeLocatePrompt(*tokenizer, tokens, prepared.request.question, picture_tokens));
  SIGHTLINE_RETURN_IF_ERROR(CheckPictureTokens(prepared.prompt, tokens, picture_tokens));
  LocateAnswer& answer = prepared.answer;
  answer.mode = prepared.request.generation.mode;
  answer.prompt_tokens = static_cast<int64_t>(prepared.prompt.ids.size());
  answer.image_tokens = std::ranges::count(prepared.prompt.ids, tokens.image);
  answer.gflop = EstimateGflop(info.config, answer.pictures, answer.prompt_tokens);
  SIGHTLINE_RETURN_IF_ERROR(CheckLength(prepared));
  answer.prepare_ms = stopwatch.ms();
  return prepared;
}

Status LocateEngine::State::PreparePictures(Prepared* prepared) {
  LocateRequest& request = prepared->request;
  LocateAnswer& answer = prepared->answer;
  answer.width = request.pictures.front().image->image.width;
  answer.height = request.pictures.front().image->image.height;
  for (size_t i = 0; i < request.pictures.size(); ++i) {
    LocateRequest::Picture& given = request.pictures[i];
    const std::string param = request.pictures.size() == 1 ? "image" : fmt::format("images[{}]", i);
    const Image& image = given.image->image;
    SIGHTLINE_ASSIGN_OR_RETURN(const PatchGrid grid, PlanGrid(image.width, image.height, request.scaling, param));
    Prepared::Picture& picture = prepared->pictures.emplace_back();
    picture.key = PictureKey(given.digest, grid, request.scaling);
    if (!picture.key.empty()) picture.rows = pictures.Find(picture.key);
    if (picture.rows == nullptr) {
      SIGHTLINE_ASSIGN_OR_RETURN(picture.picture, PrepareLocatePicture(image, request.scaling, param));
    }
    answer.pictures.push_back({grid, picture.rows != nullptr});
    given.image.reset();  // up to 300 MB that a waiting request needs no more
  }
  return {};
}

Status LocateEngine::State::CheckLength(const Prepared& prepared) const {
  const int64_t context = info.config.language.context;
  const int64_t most = prepared.request.max_tokens > 0 ? std::min(prepared.request.max_tokens, context) : context;
  const int64_t wanted = prepared.request.generation.max_new_tokens;
  if (prepared.answer.prompt_tokens + wanted <= most) return {};
  return Fail(
      Code::kPromptTooLong,
      fmt::format("the prompt has {} tokens ({} of them for pictures) and the answer may have {}, expected at most "
                  "{} together; ask for less, or lower in_token_limit or max_new_tokens",
                  prepared.answer.prompt_tokens, prepared.answer.image_tokens, wanted, most),
      "query");
}

// The rows of all pictures, in the order of the prompt.
Result<std::shared_ptr<const std::vector<float>>> LocateEngine::State::Encode(Prepared* prepared) {
  for (size_t i = 0; i < prepared->pictures.size(); ++i) {
    Prepared::Picture& picture = prepared->pictures[i];
    // Another request may have come first.
    if (picture.rows == nullptr && !picture.key.empty()) picture.rows = pictures.Find(picture.key);
    if (picture.rows != nullptr) continue;
    SIGHTLINE_ASSIGN_OR_RETURN(std::vector<float> rows,
                               model->Encode(picture.picture.patches, picture.picture.grid, prepared->request.stop));
    const size_t bytes = rows.size() * sizeof(float);
    picture.rows = std::make_shared<const std::vector<float>>(std::move(rows));
    picture.picture.patches = {};
    if (!picture.key.empty()) pictures.Insert(picture.key, picture.rows, bytes);
  }
  const std::vector<size_t>& order = prepared->prompt.pictures;
  if (order.size() == 1) return prepared->pictures[order[0]].rows;
  std::vector<float> all;
  for (const size_t i : order) {
    all.insert(all.end(), prepared->pictures[i].rows->begin(), prepared->pictures[i].rows->end());
  }
  return std::make_shared<const std::vector<float>>(std::move(all));
}

// Names the leading tokens that questions about the same pictures share; empty when they are not to be kept.
std::string LocateEngine::State::PrefixKey(const Prepared& prepared) const {
  if (prepared.prompt.shared == 0) return {};
  std::string key =
      Sha256Hex(std::as_bytes(std::span(prepared.prompt.ids).first(static_cast<size_t>(prepared.prompt.shared))));
  for (const size_t i : prepared.prompt.pictures) {
    if (prepared.pictures[i].key.empty()) return {};
    key += " " + prepared.pictures[i].key;
  }
  return key;
}

// Keeps the prompt for further questions about the same pictures, unless what is kept shares half of this question too.
void LocateEngine::State::KeepPrompt(const std::string& key, const Prepared& prepared, const Session& session) {
  const int64_t tokens = std::min(prepared.answer.prompt_tokens, session.length());
  if (2 * (prepared.answer.cached_tokens - prepared.prompt.shared) >= tokens - prepared.prompt.shared) return;
  std::shared_ptr<Session> prompt = model->NewSession(tokens);
  if (prompt->bytes() > options.prefix_cache_bytes) return;
  prompt->CopyPrefix(session, tokens);
  prefixes.Insert(key, prompt, prompt->bytes());
}

// Generates and times the parts.
Status LocateEngine::State::Write(Prepared* prepared, Session& session) {
  LocateAnswer& answer = prepared->answer;
  const auto& progress = prepared->request.progress;
  std::vector<TokenId> ids;
  const Stopwatch stopwatch;
  bool first = true;
  const auto after_step = [&](const GenerationStep& step) {
    if (std::exchange(first, false)) answer.prefill_ms = stopwatch.ms();
    if (!progress) return;
    ids.insert(ids.end(), step.appended.begin(), step.appended.end());
    progress({"answer", static_cast<int64_t>(ids.size()), tokenizer->Decode(ids)});
  };
  if (progress) progress({"prompt"});
  SIGHTLINE_ASSIGN_OR_RETURN(answer.generation, Generate(session, prepared->prompt.ids, prepared->request.generation,
                                                         prepared->request.stop, after_step));
  answer.decode_ms = stopwatch.ms() - answer.prefill_ms;
  return {};
}

Result<LocateAnswer> LocateEngine::State::Compute(Prepared prepared, double wait_ms) {
  LocateAnswer& answer = prepared.answer;
  answer.wait_ms = wait_ms;
  if (prepared.request.progress) prepared.request.progress({"vision"});
  const Stopwatch vision;
  SIGHTLINE_ASSIGN_OR_RETURN(const auto rows, Encode(&prepared));
  answer.vision_ms = vision.ms();

  const auto session =
      model->NewSession(answer.prompt_tokens + prepared.request.generation.max_new_tokens + kSpareTokens);
  const std::string key = PrefixKey(prepared);
  const auto known = key.empty() ? nullptr : prefixes.Find(key);
  if (known != nullptr) {
    answer.cached_tokens = KnownTokens(known->tokens(), prepared.prompt.ids);
    session->CopyPrefix(*known, answer.cached_tokens);
  }
  session->SetImages(rows);
  SIGHTLINE_RETURN_IF_ERROR(Write(&prepared, *session));
  if (!key.empty()) KeepPrompt(key, prepared, *session);

  answer.text = tokenizer->Decode(answer.generation.ids);
  const LocateReading reading = ReadLocateAnswer(*tokenizer, info.config.tokens, answer.generation.ids,
                                                 answer.generation.probabilities, prepared.prompt.categories);
  answer.categories = reading.categories;
  answer.malformed = reading.malformed;
  answer.warnings.insert(answer.warnings.end(), reading.warnings.begin(), reading.warnings.end());
  AddPlaces(reading, &answer);
  return std::move(answer);
}

Result<std::unique_ptr<LocateEngine>> LocateEngine::Open(const LocateWeights& weights,
                                                         const LocateEngineOptions& options) {
  auto state = std::make_unique<State>(options);
  SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, DetectIsa());
  state->backend = MakeCpuBackend({.threads = options.threads, .isa = isa});
  SIGHTLINE_ASSIGN_OR_RETURN(state->tokenizer, Tokenizer::Open(weights.folder));
  const std::filesystem::path cache = options.cache_folder.empty() ? CacheFolderOrMemory() : options.cache_folder;
  std::vector<std::string> warnings;
  SIGHTLINE_ASSIGN_OR_RETURN(state->model, LocateAnything::Load(*state->backend, weights.folder, options.precision,
                                                                cache, &warnings, options.packing));
  for (const std::string& warning : warnings) LogWarning(warning);

  LocateEngineInfo& info = state->info;
  info.device = state->backend->name();
  info.backend = "cpu";
  info.isa = state->backend->isa();
  info.threads = state->backend->threads();
  info.precision = options.precision;
  info.config = state->model->config();
  info.folder = weights.folder;
  info.repo = weights.repo;
  info.revision = weights.revision;
  info.synthetic = weights.synthetic;
  if (state->tokenizer->size() > info.config.language.vocabulary) {
    return Fail(Code::kCorruptWeights,
                fmt::format("{}: the tokenizer has {} tokens, the model's vocabulary {}", weights.folder.string(),
                            state->tokenizer->size(), info.config.language.vocabulary));
  }
  if (const Status same = CheckTokens(*state->tokenizer, info.config.tokens); !same) {
    return Fail(same.error().code, fmt::format("{}: {}", weights.folder.string(), same.error().message));
  }
  return std::unique_ptr<LocateEngine>(new LocateEngine(std::move(state)));
}

LocateEngine::LocateEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
LocateEngine::~LocateEngine() = default;

const LocateEngineInfo& LocateEngine::info() const { return state_->info; }
const Tokenizer& LocateEngine::tokenizer() const { return *state_->tokenizer; }

Result<QueueTicket> LocateEngine::Admit() {
  if (state_->queue.draining()) return Fail(Code::kDraining, "the server is shutting down");
  return state_->admission.Take();
}

void LocateEngine::Run(QueueTicket ticket, LocateRequest request, std::function<void(Result<LocateAnswer>)> done) {
  auto prepared = state_->Prepare(std::move(request));
  if (!prepared) return EndAtOnce<LocateAnswer>(std::move(ticket), tl::make_unexpected(prepared.error()), done);
  const std::stop_token stop = prepared->request.stop;
  RunOnDevice<LocateAnswer, Prepared>(
      state_->queue, std::move(ticket), std::move(*prepared), stop,
      [state = state_.get()](Prepared ready, double wait_ms) { return state->Compute(std::move(ready), wait_ms); },
      std::move(done));
}

Result<LocateAnswer> LocateEngine::Run(LocateRequest request) {
  SIGHTLINE_ASSIGN_OR_RETURN(QueueTicket ticket, Admit());
  return WaitForAnswer<LocateAnswer>([&](auto done) { Run(std::move(ticket), std::move(request), std::move(done)); });
}

void LocateEngine::Drain() { state_->queue.Drain(); }

EngineLoad LocateEngine::load() const {
  EngineLoad load;
  load.admitted = state_->admission.inside();
  load.queued = state_->queue.queued();
  const std::optional<double> running = state_->queue.running_ms();
  load.running = running.has_value();
  load.running_ms = running.value_or(0);
  load.scene_cache_hits = state_->pictures.hits();
  load.scene_cache_misses = state_->pictures.misses();
  load.prefix_cache_hits = state_->prefixes.hits();
  load.prefix_cache_misses = state_->prefixes.misses();
  return load;
}

}  // namespace sightline
