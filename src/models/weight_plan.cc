#include "models/weight_plan.h"

#include <fmt/format.h>

#include <cstring>

namespace sightline {
namespace {

constexpr std::string_view kVectorLayout = "f32";

}  // namespace

std::filesystem::path PackedPath(const std::filesystem::path& cache_folder, std::string_view model,
                                 std::string_view key) {
  if (cache_folder.empty()) return {};
  return cache_folder / "packed" /
         fmt::format("{}-{}{}", model, Sha256Hex(AsBytes(key)).substr(0, 16), kPackedExtension);
}

void WeightPlan::Matrix(WeightMatrix* destination, std::string name, Precision precision, int64_t outputs,
                        int64_t inputs, FillFloats fill) {
  *destination = {precision, outputs, inputs, {}};
  const auto pack = [this, precision, outputs, inputs, fill = std::move(fill)](std::span<std::byte> bytes) -> Status {
    std::vector<float> values(static_cast<size_t>(outputs * inputs));
    SIGHTLINE_RETURN_IF_ERROR(fill(values));
    backend_.Pack(precision, values, outputs, inputs, bytes);
    return {};
  };
  entries_.push_back({std::move(name),
                      backend_.PackedLayout(precision),
                      {outputs, inputs},
                      backend_.PackedBytes(precision, outputs, inputs),
                      pack});
  targets_.push_back({destination, nullptr});
}

void WeightPlan::Vector(WeightVector* destination, std::string name, Shape shape, FillFloats fill) {
  const size_t count = static_cast<size_t>(ElementCount(shape));
  const auto copy = [count, fill = std::move(fill)](std::span<std::byte> bytes) -> Status {
    return fill({reinterpret_cast<float*>(bytes.data()), count});
  };
  entries_.push_back({std::move(name), std::string(kVectorLayout), std::move(shape), count * sizeof(float), copy});
  targets_.push_back({nullptr, destination});
}

Result<PackedFile> WeightPlan::Bind(const std::filesystem::path& path, std::string_view key) const {
  SIGHTLINE_ASSIGN_OR_RETURN(PackedFile file, OpenOrWritePackedFile(path, key, entries_, progress_));
  for (size_t i = 0; i < entries_.size(); ++i) {
    const PackedEntrySpec& wanted = entries_[i];
    const PackedFile::Entry* found = file.Find(wanted.name);
    if (found == nullptr || found->layout != wanted.layout || found->shape != wanted.shape ||
        found->bytes.size() != wanted.bytes) {
      return Fail(Code::kCorruptWeights,
                  fmt::format("{}: entry {} is {}, expected {} {}", path.string(), wanted.name,
                              found == nullptr ? "missing" : found->layout + " " + ToString(found->shape),
                              wanted.layout, ToString(wanted.shape)));
    }
    if (targets_[i].matrix != nullptr) {
      targets_[i].matrix->packed = found->bytes;
    } else {
      *targets_[i].vector = {reinterpret_cast<const float*>(found->bytes.data()), found->bytes.size() / sizeof(float)};
    }
  }
  return file;
}

}  // namespace sightline
