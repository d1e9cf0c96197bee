#include "hub/upload_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace sightline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSampleBytes = 512;
constexpr size_t kPieceBytes = 1u << 20;

struct OpenFile {
  explicit OpenFile(int opened) : descriptor(opened) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(descriptor); }
  const int descriptor;
};

Result<std::shared_ptr<OpenFile>> Open(const fs::path& path, uint64_t* size) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  auto file = std::make_shared<OpenFile>(descriptor);
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  if (!S_ISREG(status.st_mode)) return Fail(Code::kInvalidRequest, path.string() + " is not a file");
  *size = static_cast<uint64_t>(status.st_size);
  return file;
}

Result<size_t> ReadAt(int descriptor, const fs::path& path, uint64_t offset, std::span<std::byte> bytes) {
  ssize_t count;
  do {
    count = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  } while (count < 0 && errno == EINTR);
  if (count < 0) return tl::make_unexpected(ErrnoError("read", path, errno));
  if (count == 0) return Fail(Code::kInvalidRequest, path.string() + " became shorter while it was read");
  return static_cast<size_t>(count);
}

bool IsLeftOut(const fs::path& relative) {
  const auto first = relative.begin();
  if (*first == ".git") return true;
  return *first == ".cache" && std::next(first) != relative.end() && *std::next(first) == "huggingface";
}

}  // namespace

Result<LocalFile> ReadLocalFile(const HubUploadFile& file, ProgressMeter& meter, const std::stop_token& stop) {
  LocalFile local{file.path, file.source};
  SIGHTLINE_ASSIGN_OR_RETURN(const std::shared_ptr<OpenFile> open, Open(file.source, &local.size));
  Sha256 sha256;
  Sha1 blob_id;
  const std::string header = "blob " + std::to_string(local.size);
  blob_id.Update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
  std::vector<std::byte> piece(kPieceBytes);
  for (uint64_t offset = 0; offset < local.size;) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "cancelled");
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(kPieceBytes, local.size - offset));
    SIGHTLINE_ASSIGN_OR_RETURN(const size_t got,
                               ReadAt(open->descriptor, file.source, offset, std::span(piece).first(wanted)));
    const auto bytes = std::span(piece).first(got);
    if (offset == 0) {
      local.sample.assign(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kSampleBytes));
    }
    sha256.Update(bytes);
    blob_id.Update(bytes);
    offset += got;
    meter.AddBytes(static_cast<int64_t>(got), true);
  }
  local.sha256 = sha256.HexDigest();
  local.blob_id = blob_id.HexDigest();
  meter.AddFile();
  return local;
}

Result<HttpBodyReader> ReaderOf(const LocalFile& file, uint64_t offset, uint64_t size) {
  uint64_t there = 0;
  SIGHTLINE_ASSIGN_OR_RETURN(const std::shared_ptr<OpenFile> open, Open(file.source, &there));
  if (there != file.size) return Fail(Code::kInvalidRequest, file.source.string() + " changed while it was uploaded");
  HttpBodyReader reader;
  reader.size = size;
  reader.read = [open, offset, path = file.source](uint64_t at, std::span<std::byte> bytes) {
    return ReadAt(open->descriptor, path, offset + at, bytes);
  };
  return reader;
}

Result<std::vector<HubUploadFile>> ListUploadFolder(const fs::path& folder) {
  std::vector<HubUploadFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path relative = entry->path().lexically_relative(folder);
    std::error_code inner;
    if (IsLeftOut(relative)) continue;
    if (fs::is_directory(entry->symlink_status(inner))) continue;
    if (fs::is_directory(entry->path(), inner)) {
      return Fail(Code::kInvalidRequest, entry->path().string() + " is a link to a folder, expected files");
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckHubPath(relative.string()));
    files.push_back({relative.string(), entry->path()});
  }
  if (error) return tl::make_unexpected(ErrnoError("read", folder, error.value()));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace sightline
