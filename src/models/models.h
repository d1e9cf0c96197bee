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
  // Checks every tensor by name and shape, packs into `cache_folder` (or maps what is there) and binds. `backend` must
  // outlive the model.
  static Result<std::unique_ptr<GazeLle>> Load(Backend& backend, const Files& files, Precision precision,
                                               const std::filesystem::path& cache_folder);

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

}  // namespace sightline
