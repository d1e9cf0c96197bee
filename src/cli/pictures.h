// The pictures that IMAGE arguments stand for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"

namespace sightline {

struct Picture {
  std::filesystem::path path;  // "-" for standard input
  std::optional<Error> error;  // an argument that stands for nothing
  bool named = false;          // by an argument of its own, not found in a folder
};

struct Pictures {
  std::vector<Picture> pictures;
  bool several = false;              // more than one argument, or a folder
  std::vector<std::string> skipped;  // files of folders that are no pictures by name
};

// A folder stands for its .jpg, .jpeg, .png and .webp files (in any case), sorted by name; folders inside it are not
// entered. Everything else stands for itself: what a file holds is found out when it is read.
Pictures FindPictures(const std::vector<std::string>& arguments);

}  // namespace sightline
