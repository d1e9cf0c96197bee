// models: the networks, as sequences of backend operations over named weights. They see rows of numbers, never pixels,
// never JSON.
#pragma once

#include <array>
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
#include "tensor/tensor.h"
#include "weights/weights.h"

namespace sightline {

// Which of the two published reference programs is followed where they differ (docs/numerics.md).
//   kUpstream  fkryan/gazelle: position table step 37/32.1, decoder LayerNorm eps 1e-5, float resize
//   kPort      changh95/tt-Gaze-LLE's torch reference: step 37/32, eps 1e-6, Pillow resize
enum class Profile { kUpstream, kPort };
std::string_view NameOf(Profile profile);  // "upstream", "port"
Result<Profile> ParseProfile(std::string_view name);

inline constexpr int kGazeInputSize = 448;  // pixels a side
inline constexpr int kPatchSize = 14;
inline constexpr int kGazeGrid = 32;       // 448 / 14 patches a side
inline constexpr int kGazePatches = 1024;  // kGazeGrid squared
inline constexpr int kPatchValues = 588;   // 3 * 14 * 14
inline constexpr int kHeatmapSize = 64;
inline constexpr int kHeatmapCells = 4096;  // kHeatmapSize squared

// Sizes, read from the tensors themselves.
struct GazeDimensions {
  int width = 0;                // of the backbone: 768 for ViT-B, 1024 for ViT-L
  int depth = 0;                // backbone blocks
  int heads = 0;                // width / 64
  bool inout = false;           // has the in/out head
  std::string variant() const;  // "vitb14", "vitl14" or "width 128, depth 2"
};

// Gives every named stage of a forward pass to tests: name, values, shape. Slow; null in the product.
using StageTap = std::function<void(std::string_view name, std::span<const float> values, const Shape& shape)>;

// Where a person's head is on the 32x32 patch grid, row by row, 1 inside.
using HeadMask = std::array<uint8_t, kGazePatches>;

struct GazeMap {
  std::array<float, kHeatmapCells> heatmap;  // row-major, each in (0, 1)
  std::optional<float> inout;                // probability that the target is inside the picture
};

// What the backbone found in one picture, ready for any number of heads. Belongs to the model that made it; owns host
// memory only.
struct GazeScene {
  std::vector<float> features;  // [1024, 256]: projected patches plus the decoder's position table
  Profile profile = Profile::kUpstream;
};

// Gaze-LLE: arXiv 2412.09586; DINOv2 ViT backbone (arXiv 2304.07193) and a three-block decoder.
class GazeLle {
 public:
  struct Files {
    Checkpoint backbone;
    Checkpoint decoder;
  };
  // Checks every tensor by name and shape, packs into `cache_folder` (or maps what is there; in memory when it is
  // empty) and binds. `backend` must outlive the model.
  static Result<std::unique_ptr<GazeLle>> Load(Backend& backend, const Files& files, Precision precision,
                                               const std::filesystem::path& cache_folder,
                                               const PackingProgress& packing = {});

  const GazeDimensions& dimensions() const { return dimensions_; }
  Precision precision() const { return precision_; }

  // patches: [1024, 588] float32, normalised, channel-major inside a patch. Device thread only. Stops within one
  // backbone block of a stop request (kCancelled).
  Result<GazeScene> Encode(std::span<const float> patches, Profile profile, std::stop_token stop = {},
                           const StageTap* tap = nullptr);
  // All heads in one batched pass (in batches of at most kMaxBatch heads, to bound memory; results do not depend on
  // it). Empty masks mean "no person marked". Device thread only.
  Result<std::vector<GazeMap>> Decode(const GazeScene& scene, std::span<const HeadMask> masks,
                                      std::stop_token stop = {}, const StageTap* tap = nullptr);
  static constexpr int kMaxBatch = 16;

  struct Weights;  // prepared and bound; private to this module

 private:
  GazeLle(Backend& backend, GazeDimensions dimensions, Precision precision);
  Status DecodeBatch(const GazeScene& scene, std::span<const HeadMask> masks, std::stop_token stop, const StageTap* tap,
                     std::vector<GazeMap>* maps);
  Status ReadMaps(const Rows& x, int64_t people, int64_t length, const StageTap* tap, std::vector<GazeMap>* maps);
  std::vector<float> InoutLogits(const Rows& x, int64_t people, int64_t length);

  Backend& backend_;
  GazeDimensions dimensions_;
  Precision precision_;
  std::shared_ptr<Weights> weights_;
};

// Patch rows of a normalised picture: [3, 448, 448] to [1024, 588], patches row by row, channel then row then column
// inside a patch, as the convolution kernel is laid out.
std::vector<float> PatchRows(std::span<const float> pixels);

// The official tensors of both files, in file order.
std::vector<TensorSpec> GazeBackboneTensors(const GazeDimensions& dimensions);
std::vector<TensorSpec> GazeDecoderTensors(const GazeDimensions& dimensions);

inline constexpr std::string_view kSyntheticNote = "synthetic weights";  // Checkpoint::note of what we make
// Whether the files hold random numbers, not a trained network: they say so, or they were made by the synthetic rule.
bool IsSynthetic(const GazeLle::Files& files);

struct SyntheticGazeOptions {
  std::string size = "tiny";  // a size of the rules: tiny, vitb14, vitl14
  bool inout = true;
  uint64_t seed = 1;
  std::filesystem::path rules;  // empty: the built-in rules
  std::filesystem::path folder;
};
struct SyntheticGazeFiles {
  std::filesystem::path backbone, decoder;
};
// Writes dinov2_<size>_seed<seed>.pth and gazelle_<size>[_inout]_seed<seed>.pt in the official formats. `progress` is
// called with tensors done and in all.
Result<SyntheticGazeFiles> WriteSyntheticGazeLle(const SyntheticGazeOptions& options,
                                                 const std::function<void(int done, int total)>& progress = {});

// =====================================================================================================================
// LocateAnything-3B (arXiv 2605.27365; NVlabs/Eagle 783f656, Embodied/eaglevl/utils/locany): MoonViT, a projector and
// the Qwen2.5-3B decoder, which writes boxes as tokens.

// Ids with a meaning, as the model's config.json and added_tokens.json give them.
struct LocateTokens {
  TokenId image = 151665;  // <IMG_CONTEXT>: its rows are replaced by image rows
  TokenId image_start = 151666, image_end = 151667;
  TokenId box_start = 151668, box_end = 151669;
  TokenId ref_start = 151672, ref_end = 151673;
  TokenId mask = 151676;                                 // fills the window of six
  TokenId first_coordinate = 151677;                     // <0>
  TokenId last_coordinate = 152677;                      // <1000>
  TokenId null = 152678;                                 // nothing more in this block
  TokenId none = 4064;                                   // the text "None": no such object
  TokenId message_start = 151644, message_end = 151645;  // <|im_start|>, <|im_end|>

  bool IsCoordinate(TokenId id) const { return id >= first_coordinate && id <= last_coordinate; }
};

// Sizes and ids of config.json, and the patch limit of preprocessor_config.json.
struct LocateConfig {
  struct Language {
    int hidden = 0, heads = 0, kv_heads = 0, head_size = 0, intermediate = 0, layers = 0, vocabulary = 0;
    double rope_theta = 0, norm_epsilon = 0;
    int64_t context = 0;  // max_position_embeddings
  } language;
  struct Vision {
    int hidden = 0, heads = 0, intermediate = 0, layers = 0;
    int position_side = 0;  // of the learned position grid
  } vision;
  LocateTokens tokens;
  int64_t token_limit = 0;      // in_token_limit: patches of a picture
  bool synthetic = false;       // the file says that the numbers are random ("synthetic_size")
  std::string variant() const;  // "3b" or "hidden 256, layers 3"
};
// kNotFound, kCorruptWeights (what is missing, odd or contradictory), kUnsupported for another model type.
Result<LocateConfig> ReadLocateConfig(const std::filesystem::path& folder);
// The official tensors, in file order: 770 at full size.
std::vector<TensorSpec> LocateTensors(const LocateConfig& config);

inline constexpr int kWindow = 6;  // tokens that one forward pass proposes (config.json block_size)

// A causal language model with its cache of keys and values: what generation needs, and what tests replace by tables.
// Used by one thread at a time.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  virtual int vocabulary() const = 0;
  virtual int64_t length() const = 0;    // tokens in the cache
  virtual int64_t capacity() const = 0;  // most tokens the cache takes, the window not counted
  // Forgets all tokens from position `tokens` on.
  virtual void Crop(int64_t tokens) = 0;

  // Feeds `ids` as the tokens at positions length(), length() + 1, ...; they see all before them and stay in the cache.
  // With `window`, six more rows follow that do not stay: the last token once more and five masks, at positions T - 1
  // to T + 4 when T tokens are then in the cache; they see each other and every token but the last (spec: MTP forward).
  // Without ids the window repeats the last token of the cache, `last`. `logits` becomes [logit_rows + (window ? 6 :
  // 0), vocabulary()]: of the last `logit_rows` of `ids`, then of the window. kCancelled within one layer of a stop
  // request.
  struct Step {
    std::span<const TokenId> ids = {};
    TokenId last = 0;  // the token before the window: ids.back() when there are ids
    bool window = false;
    int64_t logit_rows = 1;
  };
  virtual Status Forward(const Step& step, std::stop_token stop, std::vector<float>* logits) = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// Generation: from a prompt to the ids of an answer

//   kSlow    token by token
//   kFast    as many tokens a pass as the window of six proposes, unchecked
//   kHybrid  windows for boxes; a box that is not sure is finished token by token, and so is text (see `reference`)
enum class DecodingMode { kHybrid, kFast, kSlow };
std::string_view NameOf(DecodingMode mode);  // "hybrid", "fast", "slow"
Result<DecodingMode> ParseDecodingMode(std::string_view name);

// What happens to logits before a token is chosen, in this order (generate_utils.py, sample_tokens).
struct SamplingOptions {
  // In [0.1, 10]. Logits of all tokens that stand in the prompt or the answer are divided by it where positive and
  // multiplied by it elsewhere.
  double repetition_penalty = 1;
  double temperature = 0;  // 0: the most probable token; else in [0.01, 100], logits are divided by it
  double top_p = 1;        // in (0, 1]: tokens behind the first whose probabilities together exceed it are left out
  int top_k = 0;           // tokens less probable than the k-th are left out; 0: none
  // Of the generator, SplitMix64 (Steele, Lea, Flood 2014); each drawn token takes one number, so that equal logits and
  // equal seeds give equal answers on every machine. Not used without a temperature.
  uint64_t seed = 0;
};

struct GenerationOptions {
  DecodingMode mode = DecodingMode::kHybrid;
  SamplingOptions sampling;
  int64_t max_new_tokens = 2048;
  // The official behaviour, token for token. Without it:
  //   * windows end the answer when their first row says so;
  //   * in hybrid mode text is decoded token by token up to </ref> or </box>, windows being drafts of it;
  //   * an answer that goes in circles ends: the third equal box of one label, or a repeating run of 48 tokens;
  //   * never more than max_new_tokens; the last window of the official code may exceed it by five.
  bool reference = false;
  // The tokens of a window serve as draft for tokens decoded one by one: those that plain decoding confirms are kept,
  // so the answer is the same with fewer passes. Not with `reference`.
  bool draft = true;
  LocateTokens tokens;
};
// kInvalidRequest; `param` names the field.
Status CheckGenerationOptions(const GenerationOptions& options);

// The kind of what a step appended, named as in the official code (handle_pattern).
enum class StepType {
  kText,        // "ref_object": label or other text
  kBox,         // "coord_box"
  kPoint,       // "point_box"
  kNoBox,       // "empty_box"
  kBrokenBox,   // "error_box": a box that is to be finished token by token
  kEnd,         // "im_end"
  kToken,       // "continue_ar": one token of slow mode or of text
  kCoordinate,  // "coord_ar": one token of a box
  kBoxEnd,      // "box_end_ar"
  kStop,        // "stop_ar": the token that ended the answer
};
std::string_view NameOf(StepType type);

// Which rule made six tokens of a window's six rows.
enum class BlockSource {
  kFrame,   // "frame_empty": the rows say "no such object"
  kBox,     // "bbox": coordinates among the most probable tokens
  kLabel,   // "ref": a label
  kTokens,  // "x0": the token of each row as it is
  kEnd,     // "end": the first row ends the answer; not with `reference`
};
std::string_view NameOf(BlockSource source);

struct GenerationStep {
  StepType type = StepType::kToken;
  std::optional<BlockSource> source;      // of a window; none: one token
  int64_t position = 0;                   // tokens before this step, prompt included
  int64_t forwards = 0;                   // forward passes so far
  std::span<const TokenId> rows;          // token of each row by itself: six of a window, or one
  std::span<const TokenId> appended;      // to the answer
  std::span<const double> probabilities;  // of `appended`
};
// Called after each step on the generating thread; what it points to lives as long as the call.
using GenerationObserver = std::function<void(const GenerationStep&)>;

enum class FinishReason {
  kEnd,        // "end": the model ended its answer
  kLength,     // "length": max_new_tokens, or the model's capacity
  kLoop,       // "loop": the answer went in circles
  kMalformed,  // "malformed": a token that cannot stand inside a box ended the answer
};
std::string_view NameOf(FinishReason reason);

struct Generation {
  std::vector<TokenId> ids;           // the answer, its end token included
  std::vector<double> probabilities;  // of each id among what its row allowed
  FinishReason finish_reason = FinishReason::kEnd;
  int64_t forwards = 0;
  int64_t switches_to_single = 0;  // how often windows were left for single tokens ("switch_to_ar")
};

// Writes the answer to `prompt`. The first model.length() tokens of the prompt are taken as fed already; the rest is
// fed here. Afterwards the model holds prompt and answer but for the last tokens. kCancelled within one layer of a stop
// request, kInvalidRequest for bad options or a prompt that fills the model, kNumeric when logits are no numbers.
Result<Generation> Generate(TokenModel& model, std::span<const TokenId> prompt, const GenerationOptions& options,
                            std::stop_token stop = {}, const GenerationObserver& observer = {});

// A picture's patches of 14 x 14 pixels; both sides are even, because 2 x 2 patches become one token.
struct PatchGrid {
  int height = 0, width = 0;
  int64_t patches() const { return int64_t{height} * width; }
  int64_t tokens() const { return patches() / 4; }
  bool operator==(const PatchGrid&) const = default;
};
inline constexpr int kMaxGridSide = 512;  // patches; a side must be shorter (the official "Exceed pos emb")
// Patches in the order in which MoonViT takes them here: the four of a token side by side, tokens row by row. Element i
// is the place of the i-th patch in row-major order. (Attention has no order; the 2 x 2 merge becomes a change of
// shape.)
std::vector<int32_t> MergeOrder(PatchGrid grid);

// Number formats: kF32 or kBF16 for vision, any for language.
struct LocatePrecision {
  Precision vision = Precision::kBF16;
  Precision language = Precision::kInt8;
};

// LocateAnything's networks over one set of weights. Used by the device thread only.
class LocateAnything {
 public:
  struct Weights;  // prepared and bound; private to this module
  class Session;

  // Checks every tensor by name and shape, packs into `cache_folder` (or maps what is there) and binds. `backend` must
  // outlive the model. A language head that differs from the embedding is named in `warnings`; the embedding is used.
  static Result<std::unique_ptr<LocateAnything>> Load(Backend& backend, const std::filesystem::path& folder,
                                                      LocatePrecision precision,
                                                      const std::filesystem::path& cache_folder,
                                                      std::vector<std::string>* warnings,
                                                      const PackingProgress& packing = {});
  ~LocateAnything();

  const LocateConfig& config() const { return config_; }
  LocatePrecision precision() const { return precision_; }
  size_t packed_bytes() const;
  // What a forward pass of the decoder reads, packed. Lives as long as the model.
  std::vector<std::span<const std::byte>> language_weights() const;

  // patches: [grid.patches(), 588] float32 in MergeOrder, normalised, channel-major inside a patch. Returns the rows
  // that stand for the picture in the prompt, [grid.tokens(), hidden]. Odd sides, and kMaxGridSide or more, are a bug.
  Result<std::vector<float>> Encode(std::span<const float> patches, PatchGrid grid, std::stop_token stop = {},
                                    const StageTap* tap = nullptr);

  // An empty sequence with room for `capacity` tokens and a window.
  std::unique_ptr<Session> NewSession(int64_t capacity);

 private:
  LocateAnything(Backend& backend, LocateConfig config, LocatePrecision precision);
  Rows EmbedPatches(std::span<const float> patches, PatchGrid grid, const StageTap* tap);
  Result<std::vector<float>> Project(const Rows& merged, const StageTap* tap);

  Backend& backend_;
  LocateConfig config_;
  LocatePrecision precision_;
  std::shared_ptr<Weights> weights_;
  PatchGrid positions_grid_;      // of positions_
  std::vector<float> positions_;  // [patches, vision hidden] in MergeOrder
};

// One sequence: tokens fed so far with their keys and values. The model must outlive it.
class LocateAnything::Session : public TokenModel {
 public:
  ~Session() override;

  // Rows [n, hidden] that stand in for the image tokens of the sequence, the first for the first. Image tokens beyond
  // them are embedded like any other.
  void SetImages(std::shared_ptr<const std::vector<float>> rows);
  // Takes over the first `tokens` tokens of another session of the same model, images included.
  void CopyPrefix(const Session& from, int64_t tokens);
  const std::vector<TokenId>& tokens() const { return tokens_; }
  size_t bytes() const;  // of keys and values

  int vocabulary() const override;
  int64_t length() const override { return static_cast<int64_t>(tokens_.size()); }
  int64_t capacity() const override { return capacity_; }
  void Crop(int64_t tokens) override;
  Status Forward(const Step& step, std::stop_token stop, std::vector<float>* logits) override;

  // Stages of the following Forward calls go here; null: nowhere. Slow.
  void Tap(const StageTap* tap) { tap_ = tap; }

 private:
  friend class LocateAnything;
  Session(LocateAnything& model, int64_t capacity);

  std::vector<float> Embed(std::span<const TokenId> ids) const;
  Status RunPart(const Step& step, std::stop_token stop, std::vector<float>* logits);
  Status RunLayers(std::span<const float> embedded, std::span<const int64_t> positions, const Mask& mask,
                   int64_t wanted, std::stop_token stop, std::vector<float>* logits);
  Rows RunLayer(size_t index, const Rows& x, const Rope& rope, const Mask& mask, int64_t kept);
  Status ReadLogits(const Rows& x, int64_t wanted, std::vector<float>* logits);

  LocateAnything& model_;
  int64_t capacity_;
  std::vector<TokenId> tokens_;
  std::vector<KeyValues> layers_;
  std::shared_ptr<const std::vector<float>> images_;
  const StageTap* tap_ = nullptr;
};

// ---------------------------------------------------------------------------------------------------------------------
// Synthetic LocateAnything folders: the official layout, noise for weights.

struct SyntheticLocateOptions {
  std::string size = "tiny";  // "tiny"; "full": the official sizes, 7.7 GB; "puppet": tiny, answers by script
  uint64_t seed = 1;
  std::filesystem::path folder;  // made where it is missing
  // Written as they are: name and contents, for instance of text's ShippedTokenizer().
  std::vector<std::pair<std::string, std::string_view>> tokenizer;
};
// Writes config.json and its like, the tokenizer files, and the tensors as bfloat16 in shards of at most 5 GB; the
// index, which makes the folder complete, comes last. `progress` is told about tensors. Memory: some tens of MB.
Status WriteSyntheticLocateAnything(const SyntheticLocateOptions& options,
                                    const std::function<void(int done, int total)>& progress = {});

// ---------------------------------------------------------------------------------------------------------------------
// The decoder by itself

// Tensors of the decoder as Qwen2ForCausalLM names them; the head is the embedding and left out.
std::vector<TensorSpec> LanguageModelTensors(const LocateConfig& config);
// Writes them as bfloat16 to model.safetensors in `folder`, which exists; the file appears whole or not at all. `from`
// is an official folder, which is checked as Load does.
Status ExtractLanguageModel(const std::filesystem::path& from, const std::filesystem::path& folder,
                            std::vector<std::string>* warnings,
                            const std::function<void(int done, int total)>& progress = {});

}  // namespace sightline
