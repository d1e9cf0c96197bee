// How the tensors of a synthetic LocateAnything come about.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/models.h"

namespace sightline {

// Elements [first, first + count) of a tensor, row-major, are centre + amplitude * v (SyntheticPiece).
struct NoiseRun {
  uint64_t first = 0, count = 0;
  float centre = 0, amplitude = 0;
};

// "tiny", "full" or "puppet", which is as large as tiny.
Result<LocateConfig> SyntheticLocateSize(std::string_view size);

// The noise of a tensor, all elements in order.
std::vector<NoiseRun> LocateNoise(const TensorSpec& tensor);

// A hand-made decoder of the tiny shapes that answers by script in every decoding mode, for tests of whole programs. It
// is not trained and looks at no picture: the first category word that it knows in the question chooses the answer.
class Puppet {
 public:
  explicit Puppet(const LocateConfig& config);

  // The noise that this tensor starts from.
  std::vector<NoiseRun> Noise(const TensorSpec& tensor) const;
  // Elements [first, first + values.size()) of a tensor, whole rows, hold that noise; makes them the puppet's.
  void Edit(const TensorSpec& tensor, uint64_t first, std::span<float> values) const;

 private:
  std::map<std::string, std::vector<float>, std::less<>> made_;  // the tensors that are not noise
  std::map<int64_t, std::map<int64_t, float>> embedding_;        // row, column, value
};

// The small files of the official folder, tokenizer excepted: name and contents.
std::vector<std::pair<std::string, std::string>> SyntheticLocateFiles(std::string_view size,
                                                                      const LocateConfig& config);

// Makes the tensors of one size and seed. Uses a thread team; one call at a time.
class SyntheticLocateTensors {
 public:
  static Result<SyntheticLocateTensors> Make(std::string_view size, uint64_t seed);

  const LocateConfig& config() const { return config_; }
  const std::vector<TensorSpec>& specs() const { return specs_; }
  // Appends all values of one tensor.
  Status Fill(size_t index, PieceSink sink);

 private:
  LocateConfig config_;
  uint64_t seed_ = 0;
  std::vector<TensorSpec> specs_;
  std::optional<Puppet> puppet_;
  std::unique_ptr<ThreadTeam> team_;
  std::vector<float> piece_;
};

}  // namespace sightline
