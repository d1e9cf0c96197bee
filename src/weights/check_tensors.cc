#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "weights/checkpoint_formats.h"
#include "weights/weights.h"

namespace sightline {
namespace {

constexpr size_t kMaxFaults = 4;  // in one message

bool IsFloatingPoint(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

struct Faults {
  std::vector<std::string> wrong, missing, unexpected;
};

template <typename Tensors>
Faults FindFaults(const Tensors& checkpoint, std::span<const TensorSpec> specs, std::span<const std::string> optional) {
  Faults faults;
  std::set<std::string_view> expected;
  for (const TensorSpec& spec : specs) {
    expected.insert(spec.name);
    const TensorView* view = checkpoint.Find(spec.name);
    if (view == nullptr) {
      if (std::ranges::find(optional, spec.name) == optional.end()) faults.missing.push_back(spec.name);
    } else if (view->shape != spec.shape) {
      faults.wrong.push_back(
          fmt::format("{} has shape {}, expected {}", spec.name, ToString(view->shape), ToString(spec.shape)));
    } else if (!IsFloatingPoint(view->dtype)) {
      faults.wrong.push_back(
          fmt::format("{} has type {}, expected a floating-point type", spec.name, NameOf(view->dtype)));
    }
  }
  for (const std::string& name : checkpoint.names()) {
    if (!expected.contains(name)) faults.unexpected.push_back(Printable(name));
  }
  std::ranges::sort(faults.unexpected);
  return faults;
}

// Takes as many of `faults` as `room` still allows.
std::vector<std::string> TakeSome(const std::vector<std::string>& faults, size_t* room) {
  const size_t count = std::min(faults.size(), *room);
  *room -= count;
  return {faults.begin(), faults.begin() + static_cast<ptrdiff_t>(count)};
}

std::string Describe(const Faults& faults) {
  size_t room = kMaxFaults;
  std::vector<std::string> parts = TakeSome(faults.wrong, &room);
  if (const auto some = TakeSome(faults.missing, &room); !some.empty()) {
    parts.push_back(fmt::format("missing: {}", fmt::join(some, ", ")));
  }
  if (const auto some = TakeSome(faults.unexpected, &room); !some.empty()) {
    parts.push_back(fmt::format("unexpected: {}", fmt::join(some, ", ")));
  }
  const size_t total = faults.wrong.size() + faults.missing.size() + faults.unexpected.size();
  if (total > kMaxFaults) parts.push_back(fmt::format("and {} more", total - kMaxFaults));
  return fmt::format("{}", fmt::join(parts, "; "));
}

template <typename Tensors>
Status Check(const Tensors& checkpoint, std::span<const TensorSpec> specs, std::span<const std::string> optional) {
  const Faults faults = FindFaults(checkpoint, specs, optional);
  if (faults.wrong.empty() && faults.missing.empty() && faults.unexpected.empty()) return {};
  return Corrupt(checkpoint.source(), Describe(faults));
}

}  // namespace

Status CheckTensors(const Checkpoint& checkpoint, std::span<const TensorSpec> specs,
                    std::span<const std::string> optional) {
  return Check(checkpoint, specs, optional);
}

Status CheckTensors(const CheckpointFolder& folder, std::span<const TensorSpec> specs,
                    std::span<const std::string> optional) {
  return Check(folder, specs, optional);
}

}  // namespace sightline
