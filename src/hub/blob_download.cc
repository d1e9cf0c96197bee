#include "hub/blob_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <random>
#include <thread>

#include "hub/names.h"
#include "hub/range_window.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

std::string UrlOfFile(const HubSession& session, const HubSubject& subject) {
  return session.Url(fmt::format("/{}/resolve/{}/{}", subject.repo, PercentEncoded(subject.revision),
                                 PercentEncoded(subject.path, "/")));
}

// W/"abc" and "abc" are abc.
std::string TagOf(std::string_view text) {
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return std::string(text);
}

std::optional<uint64_t> NumberOf(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

HubResult<HubEntry> EntryOf(const HttpAnswer& answer, const HubSubject& subject) {
  const bool redirects = answer.status / 100 == 3;
  const std::string_view linked_tag = answer.Header("X-Linked-Etag"), linked_size = answer.Header("X-Linked-Size");
  HubEntry entry;
  entry.commit = answer.Header("X-Repo-Commit");
  entry.digest = TagOf(linked_tag.empty() ? answer.Header("ETag") : linked_tag);
  const auto size = NumberOf(linked_size.empty() && !redirects ? answer.Header("Content-Length") : linked_size);
  entry.location = redirects ? ResolveUrl(answer.url, std::string(answer.Header("Location"))) : answer.url;
  if (!IsCommit(entry.commit) || !IsBlobName(entry.digest) || !size || entry.location.empty()) {
    return tl::make_unexpected(
        DamagedError(subject, "the answer has no commit, digest and size to check the file by; is HF_ENDPOINT a hub?"));
  }
  if (UrlOrigin(answer.url).starts_with("https:") && !UrlOrigin(entry.location).starts_with("https:")) {
    return tl::make_unexpected(DamagedError(
        subject, fmt::format("the hub sends us to {}, which is not encrypted", PrintableUrl(entry.location))));
  }
  entry.size = *size;
  return entry;
}

// A file being filled.
class Incomplete {
 public:
  static Result<Incomplete> Open(const fs::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor < 0) return tl::make_unexpected(ErrnoError("write", path, errno));
    return Incomplete(path, descriptor);
  }
  Incomplete(Incomplete&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  Incomplete& operator=(Incomplete&&) = delete;
  ~Incomplete() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  const fs::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  uint64_t size() const {
    struct stat status;
    return ::fstat(descriptor_, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  }
  Status Empty() const {
    if (::ftruncate(descriptor_, 0) != 0) return tl::make_unexpected(ErrnoError("write", path_, errno));
    return {};
  }
  Status Publish(const fs::path& blob) const {
    if (::fsync(descriptor_) != 0) return tl::make_unexpected(ErrnoError("write", path_, errno));
    if (::rename(path_.c_str(), blob.c_str()) != 0) return tl::make_unexpected(ErrnoError("create", blob, errno));
    SyncFolder(blob.parent_path());
    return {};
  }

 private:
  Incomplete(fs::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  fs::path path_;
  int descriptor_;
};

// Fetches the ranges of one window, on several threads.
class RangeFetcher {
 public:
  RangeFetcher(const HubSession& session, const WantedBlob& wanted, std::string location, RangeWindow& window,
               ProgressMeter& meter, const std::stop_token& stop)
      : session_(session),
        wanted_(wanted),
        window_(window),
        meter_(meter),
        stop_(stop),
        location_(std::move(location)) {}

  HubStatus Run(int threads) {
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < threads; ++i) others.emplace_back([this] { Work(); });
      Work();
    }
    return window_.status();
  }

 private:
  using Range = RangeWindow::Range;

  void Work() {
    while (const std::shared_ptr<Range> range = window_.Next()) {
      if (const HubStatus status = Fetch(*range); !status) window_.Fail(status.error());
    }
  }

  HubStatus Fetch(Range& range) {
    Backoff backoff(session_.settings());
    while (range.received < range.size) {
      SIGHTLINE_RETURN_IF_ERROR(window_.status());  // another range has failed for good
      const uint64_t before = range.received;
      Try answer = FetchOnce(range);
      if (range.received > before) backoff.Reset();
      if (answer) {
        if (range.received > before) continue;
        answer = tl::make_unexpected(FailedTry{Damaged("the server sends no bytes"), true});
      }
      SIGHTLINE_RETURN_IF_ERROR(backoff.Wait(answer.error(), &meter_, stop_));
    }
    return {};
  }

  Try FetchOnce(Range& range) {
    HttpCall call;
    call.url = location();
    const bool elsewhere = UrlOrigin(call.url) != UrlOrigin(session_.settings().endpoint);
    call.redirects = elsewhere ? 5 : 0;
    const uint64_t first = range.offset + range.received;
    call.headers = {{"Accept-Encoding", "identity"},
                    {"Range", fmt::format("bytes={}-{}", first, range.offset + range.size - 1)}};
    uint64_t skip = 0;
    bool begun = false;
    std::optional<FailedTry> refused;
    call.sink = [&](const HttpAnswer& head, std::span<const std::byte> bytes) -> Status {
      if (!begun) refused = Begin(head, range, first, skip);
      begun = true;
      if (refused) return Fail(Code::kInternal, "the answer is of no use");
      return Take(range, bytes, skip);
    };
    Try answer = session_.Once(std::move(call), wanted_.subject, stop_);
    if (refused) return tl::make_unexpected(std::move(*refused));
    if (!answer && answer.error().error.code == Code::kCorruptWeights) answer.error().error.fault = HubFault::kDamaged;
    if (!answer && elsewhere) TreatAsExpired(answer.error());
    return answer;
  }

  // What the head of an answer promises; `skip` bytes of it are known already.
  std::optional<FailedTry> Begin(const HttpAnswer& head, Range& range, uint64_t first, uint64_t& skip) {
    const std::string_view encoding = head.Header("Content-Encoding");
    if (!encoding.empty() && encoding != "identity") {
      return FailedTry{Damaged("the server sends it compressed, which nobody asked for"), false};
    }
    if (head.status == 206) {
      const std::string_view told = head.Header("Content-Range");
      if (!told.starts_with(fmt::format("bytes {}-", first)) || !told.ends_with(fmt::format("/{}", wanted_.size))) {
        return FailedTry{
            Damaged(fmt::format("the server sends another range than bytes from {} of {}", first, wanted_.size)), true};
      }
      window_.RangesWork();
      return std::nullopt;
    }
    const bool whole = first == 0 && range.size == wanted_.size;
    if (!whole && !window_.TakeWholeFile(range)) {
      return FailedTry{Damaged("the server sends the whole file in place of a range"), true};
    }
    skip = first;
    return std::nullopt;
  }

  Status Take(Range& range, std::span<const std::byte> bytes, uint64_t& skip) {
    const uint64_t skipped = std::min<uint64_t>(skip, bytes.size());
    skip -= skipped;
    bytes = bytes.subspan(static_cast<size_t>(skipped));
    if (bytes.size() > range.size - range.received) {
      return Fail(Code::kCorruptWeights, wanted_.subject.Name() + ": the server sends more bytes than the file has");
    }
    if (bytes.empty()) return {};
    SIGHTLINE_RETURN_IF_ERROR(window_.Accept(range, bytes));
    meter_.AddBytes(static_cast<int64_t>(bytes.size()), true);
    return {};
  }

  // Links to other hosts are signed for some time only: a refusal there asks for a new one.
  void TreatAsExpired(FailedTry& failed) {
    const HubFault fault = failed.error.fault;
    if (fault == HubFault::kUnreachable || fault == HubFault::kRateLimited || fault == HubFault::kNone) return;
    auto entry = ResolveEntry(session_, wanted_.subject, &meter_, stop_);
    if (!entry) {
      failed = FailedTry{entry.error()};
      return;
    }
    const std::lock_guard lock(mutex_);
    location_ = entry->location;
    failed.again = true;
  }

  std::string location() {
    const std::lock_guard lock(mutex_);
    return location_;
  }

  HubError Damaged(const std::string& what) const { return DamagedError(wanted_.subject, what); }

  const HubSession& session_;
  const WantedBlob& wanted_;
  RangeWindow& window_;
  ProgressMeter& meter_;
  const std::stop_token& stop_;
  std::mutex mutex_;
  std::string location_;
};

HubStatus FetchRest(const HubSession& session, const WantedBlob& wanted, const Incomplete& file, uint64_t start,
                    BlobDigest& digest, ProgressMeter& meter, const std::stop_token& stop) {
  SIGHTLINE_ASSIGN_OR_RETURN(const HubEntry entry, ResolveEntry(session, wanted.subject, &meter, stop));
  if (entry.digest != wanted.digest || entry.size != wanted.size) {
    return tl::make_unexpected(
        DamagedError(wanted.subject, fmt::format("the hub announces {} with {} bytes, and lists {} with {}",
                                                 entry.digest, entry.size, wanted.digest, wanted.size)));
  }
  const HubSettings& settings = session.settings();
  RangeWindow window(file.descriptor(), file.path(), start, wanted.size, settings, digest);
  const uint64_t ranges =
      (wanted.size - start + settings.range_bytes - 1) / std::max<uint64_t>(settings.range_bytes, 1);
  const int threads = static_cast<int>(std::clamp<uint64_t>(ranges, 1, static_cast<uint64_t>(settings.ranges_at_once)));
  return RangeFetcher(session, wanted, entry.location, window, meter, stop).Run(threads);
}

// Completes the file; false when its bytes are not what they should be.
HubResult<bool> Fill(const HubSession& session, const WantedBlob& wanted, const Incomplete& file, uint64_t counted,
                     ProgressMeter& meter, const std::stop_token& stop) {
  uint64_t start = file.size();
  if (start > wanted.size) {
    SIGHTLINE_RETURN_IF_ERROR(file.Empty());
    start = 0;
  }
  meter.AddBytes(static_cast<int64_t>(start - counted), false);
  BlobDigest digest(wanted.digest, wanted.size);
  SIGHTLINE_RETURN_IF_ERROR(DigestFile(file.descriptor(), file.path(), start, digest, stop, [](uint64_t) {}));
  if (start < wanted.size) {
    SIGHTLINE_RETURN_IF_ERROR(FetchRest(session, wanted, file, start, digest, meter, stop));
  }
  return digest.HexDigest() == wanted.digest;
}

fs::path NameOfOwn(const fs::path& blob) {
  std::random_device random;
  return blob.string() + fmt::format(".{:08x}.incomplete", random() & 0xffffffffu);
}

}  // namespace

HubResult<HubEntry> ResolveEntry(const HubSession& session, const HubSubject& subject, HubProgressSink* notes,
                                 const std::stop_token& stop, std::string* known_absent) {
  HttpCall call;
  call.method = "HEAD";
  call.url = UrlOfFile(session, subject);
  call.headers = {{"Accept-Encoding", "identity"}};  // or the size would be that of compressed bytes
  Backoff backoff(session.settings());
  for (;;) {
    const Try answer = session.Once(call, subject, stop);
    if (answer) return EntryOf(*answer, subject);
    if (known_absent != nullptr && answer.error().error.fault == HubFault::kNoEntry) {
      *known_absent = answer.error().commit;
    }
    SIGHTLINE_RETURN_IF_ERROR(backoff.Wait(answer.error(), notes, stop));
  }
}

HubStatus DownloadBlob(const HubSession& session, const RepoFolder& folder, const WantedBlob& wanted, bool exclusive,
                       ProgressMeter& meter, const std::stop_token& stop) {
  const fs::path blob = folder.Blob(wanted.digest);
  SIGHTLINE_ASSIGN_OR_RETURN(const Incomplete file,
                             Incomplete::Open(exclusive ? blob.string() + ".incomplete" : NameOfOwn(blob).string()));
  for (int tries = 0;; ++tries) {
    const auto right = Fill(session, wanted, file, tries == 0 ? wanted.counted : 0, meter, stop);
    if (!right && !exclusive) ::unlink(file.path().c_str());  // nobody would find it again
    if (!right) return tl::make_unexpected(right.error());
    if (*right) break;
    // A part that an earlier try left may be what is wrong: a second download settles it.
    SIGHTLINE_RETURN_IF_ERROR(file.Empty());
    meter.AddBytes(-static_cast<int64_t>(wanted.size), false);
    if (tries > 0) {
      ::unlink(file.path().c_str());
      return tl::make_unexpected(DamagedError(
          wanted.subject,
          fmt::format("the bytes that came twice do not have the digest {}; nothing of them was kept", wanted.digest)));
    }
    meter.OnNote(wanted.subject.Name() + ": its bytes do not have the right digest, loading it again");
  }
  SIGHTLINE_RETURN_IF_ERROR(file.Publish(blob));
  return {};
}

uint64_t UnfinishedBytes(const RepoFolder& folder, const std::string& digest) {
  struct stat status;
  const std::string path = folder.Blob(digest).string() + ".incomplete";
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
}

}  // namespace sightline
