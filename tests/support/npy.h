// Reads little-endian float32 .npy files of the goldens.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/base.h"

namespace sightline {

// The values in C order; throws on anything but version 1 '<f4' without Fortran order.
inline std::vector<float> ReadNpy(const std::filesystem::path& path) {
  const auto file = ReadFile(path, size_t{1} << 30);
  if (!file) throw std::runtime_error(file.error().message);
  const std::string text(reinterpret_cast<const char*>(file->data()), file->size());
  if (!text.starts_with("\x93NUMPY\x01")) throw std::runtime_error(path.string() + " is not an npy file");
  const size_t header = static_cast<uint8_t>(text[8]) + 256u * static_cast<uint8_t>(text[9]);
  const std::string description = text.substr(10, header);
  if (description.find("'<f4'") == std::string::npos || description.find("False") == std::string::npos) {
    throw std::runtime_error(path.string() + " is not float32 in C order");
  }
  std::vector<float> values((text.size() - 10 - header) / sizeof(float));
  std::memcpy(values.data(), text.data() + 10 + header, values.size() * sizeof(float));
  return values;
}

}  // namespace sightline
