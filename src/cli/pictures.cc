#include "cli/pictures.h"

#include <algorithm>
#include <system_error>

namespace sightline {
namespace {

namespace fs = std::filesystem;

bool IsPictureName(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp";
}

// Files of a folder, sorted. An error code where it cannot be read to the end.
std::vector<fs::path> FilesOf(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->is_directory(unreadable)) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void AddFolder(const fs::path& folder, Pictures& found) {
  std::error_code error;
  const size_t before = found.pictures.size();
  for (const fs::path& file : FilesOf(folder, error)) {
    if (IsPictureName(file)) {
      found.pictures.push_back({file, {}});
    } else {
      found.skipped.push_back(file.string());
    }
  }
  if (error) {
    found.pictures.push_back({folder, ErrnoError("read folder", folder, error.value())});
  } else if (found.pictures.size() == before) {
    const std::string message = folder.string() + " holds no picture, expected .jpg, .jpeg, .png or .webp files";
    found.pictures.push_back({folder, Error{Code::kNotFound, message, {}}});
  }
}

}  // namespace

Pictures FindPictures(const std::vector<std::string>& arguments) {
  Pictures found;
  found.several = arguments.size() > 1;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (argument != "-" && fs::is_directory(argument, error)) {
      found.several = true;
      AddFolder(argument, found);
    } else {
      found.pictures.push_back({argument, {}, true});
    }
  }
  return found;
}

}  // namespace sightline
