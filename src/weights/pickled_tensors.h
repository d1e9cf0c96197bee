// From a pickle's values to named views.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "weights/checkpoint_formats.h"
#include "weights/pickle.h"

namespace sightline {

// The tensors of the dictionary on top, in its order. Dictionaries inside it are walked too, names joined by dots
// ("model.norm.weight"); values that are neither tensor nor dictionary are passed over. storages[i] holds exactly the
// elements of pickle.storages[i]; every element of every view has been checked to lie in there.
Result<std::vector<NamedTensor>> NameTensors(const Pickle& pickle, std::span<const std::span<const std::byte>> storages,
                                             size_t file_bytes, std::string_view source);

// `bytes` must be exactly the elements of `storage`; gives those its window covers.
Result<std::span<const std::byte>> StorageBytes(const PickleStorage& storage, std::span<const std::byte> bytes,
                                                std::string_view source);

}  // namespace sightline
