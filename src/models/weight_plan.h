// One description of a model's prepared weights that serves twice: to write the packed file and to bind its entries.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "weights/weights.h"

namespace sightline {

struct NormWeights {
  WeightVector gain, bias;
};
struct LinearWeights {
  WeightMatrix matrix;  // [outputs, inputs]
  WeightVector bias;    // [outputs] or empty
};

// Fills a prepared tensor, float32, row-major, from the checkpoint.
using FillFloats = std::function<Status(std::span<float>)>;

// Where a model's weights of `key` are kept; empty, which means in memory, for an empty folder.
std::filesystem::path PackedPath(const std::filesystem::path& cache_folder, std::string_view model,
                                 std::string_view key);

class WeightPlan {
 public:
  explicit WeightPlan(const Backend& backend, PackingProgress progress = {})
      : backend_(backend), progress_(std::move(progress)) {}

  // `destination` must stay where it is until Bind.
  void Matrix(WeightMatrix* destination, std::string name, Precision precision, int64_t outputs, int64_t inputs,
              FillFloats fill);
  void Vector(WeightVector* destination, std::string name, Shape shape, FillFloats fill);

  // Maps the packed file of `key` (made first if need be) and points every destination into it. The file must live as
  // long as the destinations are used.
  Result<PackedFile> Bind(const std::filesystem::path& path, std::string_view key) const;

 private:
  struct Target {
    WeightMatrix* matrix = nullptr;
    WeightVector* vector = nullptr;
  };
  const Backend& backend_;
  const PackingProgress progress_;
  std::vector<PackedEntrySpec> entries_;
  std::vector<Target> targets_;
};

}  // namespace sightline
