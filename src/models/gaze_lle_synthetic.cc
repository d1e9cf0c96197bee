#include <fmt/format.h>

#include "models/models.h"

namespace sightline {
namespace {

// Writes both files and counts what is done.
class SyntheticWriter {
 public:
  SyntheticWriter(SynthesisRules rules, const SyntheticGazeOptions& options,
                  const std::function<void(int done, int total)>& progress)
      : rules_(std::move(rules)), options_(options), progress_(progress) {}

  Result<SyntheticGazeFiles> Write() {
    SIGHTLINE_ASSIGN_OR_RETURN(const SynthesisRules::Size size, rules_.FindSize(options_.size));
    const GazeDimensions dimensions{size.embed_dim, size.depth, size.heads, options_.inout};
    const std::vector<TensorSpec> backbone = GazeBackboneTensors(dimensions), decoder = GazeDecoderTensors(dimensions);
    total_ = static_cast<int>(backbone.size() + decoder.size());
    std::error_code error;
    if (!options_.folder.empty()) std::filesystem::create_directories(options_.folder, error);
    if (error) return tl::make_unexpected(ErrnoError("create", options_.folder, error.value()));
    const SyntheticGazeFiles files{options_.folder / fmt::format("dinov2_{}_seed{}.pth", options_.size, options_.seed),
                                   options_.folder / fmt::format("gazelle_{}{}_seed{}.pt", options_.size,
                                                                 options_.inout ? "_inout" : "", options_.seed)};
    SIGHTLINE_RETURN_IF_ERROR(WritePart("backbone", files.backbone, backbone));
    SIGHTLINE_RETURN_IF_ERROR(WritePart("decoder", files.decoder, decoder));
    return files;
  }

 private:
  Status WritePart(std::string_view part, const std::filesystem::path& path, std::span<const TensorSpec> tensors) {
    const auto fill = [&](size_t index, std::span<float> values) -> Status {
      SIGHTLINE_RETURN_IF_ERROR(rules_.Fill(part, tensors[index], options_.size, options_.seed, values));
      if (++done_; progress_) progress_(done_, total_);
      return {};
    };
    return WriteTorchCheckpoint(path, tensors, fill, kSyntheticNote);
  }

  SynthesisRules rules_;
  const SyntheticGazeOptions& options_;
  const std::function<void(int done, int total)>& progress_;
  int done_ = 0, total_ = 0;
};

}  // namespace

Result<SyntheticGazeFiles> WriteSyntheticGazeLle(const SyntheticGazeOptions& options,
                                                 const std::function<void(int done, int total)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(SynthesisRules rules,
                             options.rules.empty() ? SynthesisRules::Default() : SynthesisRules::Open(options.rules));
  return SyntheticWriter(std::move(rules), options, progress).Write();
}

}  // namespace sightline
