#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "hub/blob_digest.h"
#include "hub/cache_lock.h"
#include "hub/faults.h"
#include "hub/names.h"
#include "hub/progress_meter.h"
#include "hub/repo_folder.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

// Where huggingface_hub keeps contents that several repositories share: <cache>/blobs/<2 digits>/<64 digits>.
bool IsInside(const fs::path& path, const fs::path& folder) {
  const auto [end, there] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  static_cast<void>(there);
  return end == folder.end();
}

class Verification {
 public:
  Verification(const RepoFolder& folder, bool repair, ProgressMeter& meter, const std::stop_token& stop)
      : folder_(folder), repair_(repair), meter_(meter), stop_(stop) {}

  HubResult<CacheReport> Run() {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto blobs, ListEntries(folder_.path() / "blobs", false));
    CountBlobs(blobs);
    meter_.Begin(HubPhase::kHashing, 0, total_bytes_, 0, total_blobs_);
    // Blobs first: the links to those that are removed dangle, and go as well.
    for (const fs::directory_entry& blob : blobs) SIGHTLINE_RETURN_IF_ERROR(CheckBlob(blob.path()));
    SIGHTLINE_ASSIGN_OR_RETURN(const auto pointers, ListEntries(folder_.path() / "snapshots", true));
    for (const fs::directory_entry& pointer : pointers) CheckPointer(pointer.path());
    SIGHTLINE_ASSIGN_OR_RETURN(const auto refs, ListEntries(folder_.path() / "refs", true));
    for (const fs::directory_entry& ref : refs) CheckRef(ref);
    return std::move(report_);
  }

 private:
  void CountBlobs(const std::vector<fs::directory_entry>& blobs) {
    for (const fs::directory_entry& blob : blobs) {
      struct stat status;
      if (!IsBlobName(blob.path().filename().string()) || ::stat(blob.path().c_str(), &status) != 0) continue;
      total_bytes_ += static_cast<uint64_t>(status.st_size);
      ++total_blobs_;
    }
  }

  void Report(CacheProblemKind kind, const fs::path& path, std::string sentence, bool removable = true) {
    const bool repaired = repair_ && removable && ::unlink(path.c_str()) == 0;
    report_.problems.push_back({kind, path, std::move(sentence), repaired});
  }

  HubStatus CheckBlob(const fs::path& path) {
    const std::string name = path.filename();
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) return {};  // removed meanwhile
    if (path.extension() == ".incomplete" && S_ISREG(status.st_mode)) {
      ++report_.unfinished;
      report_.unfinished_bytes += static_cast<uint64_t>(status.st_size);
      return {};
    }
    if (!IsBlobName(name)) {
      Report(CacheProblemKind::kForeign, path, path.string() + " is no blob: its name is no digest", false);
      return {};
    }
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error || ::stat(real.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      Report(CacheProblemKind::kDangling, path, path.string() + " leads to no file");
      return {};
    }
    if (fs::is_symlink(path, error) && !IsInside(real, fs::canonical(folder_.root(), error) / "blobs")) {
      Report(CacheProblemKind::kOutside, path, path.string() + " is a link that leads out of the cache");
      return {};
    }
    return CheckBytes(path, name, static_cast<uint64_t>(status.st_size));
  }

  HubStatus CheckBytes(const fs::path& path, const std::string& name, uint64_t size) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return tl::make_unexpected(HubError(ErrnoError("read", path, errno)));
    BlobDigest digest(name, size);
    const Status read = DigestFile(descriptor, path, size, digest, stop_,
                                   [this](uint64_t bytes) { meter_.AddBytes(static_cast<int64_t>(bytes), true); });
    ::close(descriptor);
    SIGHTLINE_RETURN_IF_ERROR(read);
    ++report_.blobs;
    report_.bytes += size;
    meter_.AddFile();
    if (const std::string found = digest.HexDigest(); found != name) {
      Report(CacheProblemKind::kWrongDigest, path, fmt::format("{} has the digest {}", path.string(), found));
    }
    return {};
  }

  void CheckPointer(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (fs::is_directory(status) || !fs::exists(status)) return;  // or removed meanwhile
    if (!fs::exists(path, error)) {
      Report(CacheProblemKind::kDangling, path, path.string() + " is in the snapshot without its bytes");
      return;
    }
    // One hop: the blob itself may be shared.
    const fs::path target = fs::read_symlink(path, error);
    if (error) return;  // a file of its own, where the disk knows no links
    const fs::path parent = (path.parent_path() / target).lexically_normal().parent_path();
    if (parent != (folder_.path() / "blobs").lexically_normal()) {
      Report(CacheProblemKind::kOutside, path, path.string() + " is a link that leads out of its repository's blobs");
    }
  }

  void CheckRef(const fs::directory_entry& ref) {
    std::error_code ignored;
    if (ref.is_directory(ignored)) return;
    const auto commit = folder_.ReadRef(ref.path().lexically_relative(folder_.path() / "refs"));
    if (commit && fs::is_directory(folder_.Snapshot(*commit), ignored)) return;
    Report(CacheProblemKind::kBrokenRef, ref.path(), ref.path().string() + " names no snapshot that is here");
  }

  const RepoFolder& folder_;
  const bool repair_;
  ProgressMeter& meter_;
  const std::stop_token& stop_;
  CacheReport report_{};
  uint64_t total_bytes_ = 0;
  int total_blobs_ = 0;
};

}  // namespace

HubResult<CacheReport> HubCache::Verify(const std::string& repo, bool repair, HubProgressSink* progress,
                                        std::stop_token stop) const {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const RepoFolder folder(root_, repo);
  if (!folder.exists()) {
    return tl::make_unexpected(MakeHubError(HubFault::kNoRevision, Code::kNotFound, {repo, {}, {}},
                                            "nothing of it is on this machine", "pull it first"));
  }
  if (repair) SIGHTLINE_RETURN_IF_ERROR(CollectTrash());
  ProgressMeter meter(progress);
  return Verification(folder, repair, meter, stop).Run();
}

}  // namespace sightline
