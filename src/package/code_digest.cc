#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "package/package.h"

namespace sightline {
namespace {

using std::filesystem::path;

struct File {
  std::vector<std::string> parts;  // of its path below the folder
  path at;
};

Status Collect(const path& folder, std::vector<File>& files) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const auto type = entry->symlink_status(error).type();
    if (error) break;
    if (type == std::filesystem::file_type::directory) continue;
    if (type != std::filesystem::file_type::regular) {
      return Fail(Code::kInvalidRequest, fmt::format("{} is neither file nor folder", entry->path().string()));
    }
    File file{{}, entry->path()};
    for (const path& part : entry->path().lexically_relative(folder)) file.parts.push_back(part.string());
    files.push_back(std::move(file));
  }
  if (error) return tl::make_unexpected(ErrnoError("cannot read", folder, error.value()));
  return {};
}

Status Update(Sha256& digest, const File& file) {
  std::string name;
  for (const std::string& part : file.parts) name += (name.empty() ? "" : "/") + part;
  digest.Update(AsBytes(name));
  std::ifstream stream(file.at, std::ios::binary);
  std::vector<char> buffer(1u << 20);
  while (stream) {
    stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    digest.Update(std::as_bytes(std::span(buffer.data(), static_cast<size_t>(stream.gcount()))));
  }
  if (stream.eof()) return {};
  return Fail(Code::kNoPermission, fmt::format("cannot read {}", file.at.string()));
}

}  // namespace

Result<std::string> CodeDigest(const path& folder) {
  std::vector<File> files;
  SIGHTLINE_RETURN_IF_ERROR(Collect(folder, files));
  // Part by part: as plain text, "a-b" would come before "a/b".
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.parts < b.parts; });
  Sha256 digest;
  for (const File& file : files) SIGHTLINE_RETURN_IF_ERROR(Update(digest, file));
  return digest.HexDigest();
}

}  // namespace sightline
