// hub: the Hugging Face hub, and its cache on this machine. Knows repositories, files, revisions and digests; knows
// nothing of packages. The cache has the layout of huggingface_hub, so that either uses what the other has fetched:
// https://huggingface.co/docs/huggingface_hub/guides/manage-cache. Everything may be called from any thread unless a
// comment says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "net/net.h"

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// Errors

enum class HubFault {
  kNone,           // nothing of the hub: disk, memory, a cancelled request; see the code
  kOffline,        // HF_HUB_OFFLINE is set and the cache does not have it
  kUnreachable,    // no answer: name, connection, certificate, time-out, or 5xx to the end
  kGated,          // the repository exists, its conditions were not accepted
  kNoRepo,         // missing, or private: the hub does not say which
  kTokenRejected,  // the hub does not know the token
  kForbidden,      // the token may not do this
  kNoRevision,     // no such branch, tag or commit
  kNoEntry,        // no such file
  kIncomplete,     // the cache has only a part of it, and the hub cannot be asked
  kRateLimited,    // 429 to the end
  kConflict,       // others wrote at the same time, again and again
  kDamaged,        // bytes or answers that contradict their digests or each other
  kUnsafe,         // names in the repository that could lead out of a folder
  kRefused,        // any other refusal
};

// What a card of the command line is headed with: "you do not have access". The wording of kNoRepo differs for weights.
std::string_view HubFaultTitle(HubFault fault);

// An Error whose message is one whole sentence with what to do; its parts are here for those who lay it out themselves.
struct HubError : Error {
  HubError() = default;
  HubError(Error error) : Error(std::move(error)) {}  // NOLINT: implicit on purpose, as for disks and memory
  HubError(HubFault what, Code which, std::string sentence) : Error{which, std::move(sentence), {}}, fault(what) {}

  HubFault fault = HubFault::kNone;
  std::string advice;    // what to do, a sentence without subject; may be empty
  std::string evidence;  // what the hub said, its first line without a request number; may be empty
};

template <typename T>
using HubResult = tl::expected<T, HubError>;
using HubStatus = HubResult<void>;

// ---------------------------------------------------------------------------------------------------------------------
// Settings

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT, without a slash at the end
  std::filesystem::path cache;  // HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub; holds models--ORG--NAME
  std::string cache_variable = "HF_HUB_CACHE";  // for advice: what to set for another cache
  bool offline = false;                         // HF_HUB_OFFLINE: no request is ever made
  std::string token;                            // sent to the endpoint's scheme, host and port alone; empty: none
  std::filesystem::path token_file;             // HF_TOKEN_PATH, $HF_HOME/token: where a token that is to be kept goes
  std::string token_source;                     // for messages: "HF_TOKEN", "the file /home/u/.cache/huggingface/token"

  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{30};      // without a byte, then the request is made again
  int attempts = 6;                            // per request, counted anew whenever bytes have come
  std::chrono::milliseconds first_pause{400};  // doubled each time, with a random part
  std::chrono::milliseconds longest_pause{20'000};
  std::chrono::seconds longest_retry_after{300};  // a hub that asks for more is answered with an error
  int files_at_once = 4;
  int ranges_at_once = 4;           // of one file
  uint64_t range_bytes = 8u << 20;  // files up to this size are fetched in one piece
};
// Home: HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. Token: HF_TOKEN, HUGGING_FACE_HUB_TOKEN,
// the file HF_TOKEN_PATH, $HF_HOME/token. True is 1, ON, YES or TRUE in any case. "~" and $NAME are expanded in
// folders. kUsage names the variable that makes no sense.
Result<HubSettings> HubSettingsFromEnvironment();
// HubSettings::cache alone, for those who look only at what is there.
Result<std::filesystem::path> HubCacheFromEnvironment();

// ---------------------------------------------------------------------------------------------------------------------
// Names

// "org/name" as the hub allows it: kUsage with the sentence "... is not a repo id" otherwise.
Status CheckRepoId(std::string_view repo);
// A relative name that stays inside a folder: parts of letters and signs, no "..", no empty part, no backslash, no
// control bytes, UTF-8, parts of at most 255 bytes. kInvalidRequest says what is wrong.
Status CheckHubPath(std::string_view path);
bool IsCommit(std::string_view revision);  // 40 lower-case hexadecimal digits
// "models--org--name", and back; nothing where that is no such name of a repository.
std::string CacheFolderName(std::string_view repo);
std::optional<std::string> RepoOfCacheFolder(std::string_view name);

// Shell patterns as Python's fnmatch has them: * (crosses /), ?, [a-z], [!a-z]; one that ends in / means what is below.
bool MatchesHubPattern(std::string_view pattern, std::string_view path);
struct HubPatterns {
  std::vector<std::string> allow{};   // empty: everything
  std::vector<std::string> ignore{};  // wins
  bool Select(std::string_view path) const;
};

// ---------------------------------------------------------------------------------------------------------------------
// What the hub says

struct HubFile {
  std::string path;
  uint64_t size = 0;
  std::string blob_id{};  // git's SHA-1 of the blob (for LFS: of its pointer)
  std::string sha256{};   // of the content, for LFS files
  const std::string& digest() const { return sha256.empty() ? blob_id : sha256; }  // names the blob in the cache
};

struct HubRepo {
  std::string id;
  std::string commit;  // of the revision that was asked for
  bool is_private = false;
  std::string gated{};  // "", "auto" or "manual"
  std::vector<std::string> tags{};
  std::string license{};  // of the card: an identifier ("mit", "other")
  std::string license_name{};
  std::string license_link{};
  std::string modified{};  // ISO 8601
  uint64_t downloads = 0;
  uint64_t likes = 0;
};

struct HubUser {
  std::string name;
  std::vector<std::string> organizations;
};

struct HubQuery {
  std::string text{};
  std::vector<std::string> tags{};
  std::string author{};
  int limit = 20;
};

// ---------------------------------------------------------------------------------------------------------------------
// Progress

enum class HubPhase { kListing, kDownloading, kHashing, kUploading, kCommitting };
struct HubProgress {
  HubPhase phase = HubPhase::kListing;
  uint64_t bytes_done = 0;  // of all files of this call, with what was there before
  uint64_t bytes_total = 0;
  uint64_t bytes_moved = 0;  // by this call: what a rate is made of
  int files_done = 0;
  int files_total = 0;
};
// Told what happens; called from several threads, one at a time, at most some ten times a second and once at the end of
// a phase. Must not block.
class HubProgressSink {
 public:
  virtual ~HubProgressSink() = default;
  virtual void OnProgress(const HubProgress& progress) = 0;
  // One line worth showing: a retry, a wait that the hub asked for, a file that is loaded again.
  virtual void OnNote(std::string_view line) = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// The cache on disk

struct CachedSnapshot {
  std::filesystem::path folder;  // <cache>/models--org--name/snapshots/<commit>
  std::string commit;
  bool fetched = false;    // something came over the network
  bool hub_asked = false;  // the commit is the hub's answer, not only what the cache remembers
  uint64_t bytes = 0;      // of the files selected, each content once; 0 where the cache does not know the list
};

struct CachedRevision {
  std::string commit;
  std::vector<std::string> refs;  // branches and tags that name it
  int files = 0;
  uint64_t bytes = 0;
};
struct CachedRepo {
  std::string id;
  std::filesystem::path folder;
  std::vector<CachedRevision> revisions;
  uint64_t bytes = 0;             // of complete blobs, each once
  uint64_t unfinished_bytes = 0;  // of *.incomplete
  std::chrono::system_clock::time_point modified{};
};

enum class CacheProblemKind {
  kWrongDigest,  // a blob's bytes are not what its name says
  kDangling,     // a file of a snapshot without a blob
  kOutside,      // a link that leads out of the repository's folder (and not into the shared blobs of this cache)
  kBrokenRef,    // a branch or tag that names no snapshot
  kForeign,      // something that nobody's cache puts there
};
struct CacheProblem {
  CacheProblemKind kind;
  std::filesystem::path path;
  std::string sentence;
  bool repaired = false;  // removed; the next download brings it back
};
struct CacheReport {
  std::vector<CacheProblem> problems;  // empty: what is there is right
  int blobs = 0;                       // read and compared
  uint64_t bytes = 0;
  int unfinished = 0;  // downloads that can be resumed: no problem
  uint64_t unfinished_bytes = 0;
};

// A folder with models--ORG--NAME folders. Asks no network.
class HubCache {
 public:
  explicit HubCache(std::filesystem::path root);
  const std::filesystem::path& root() const { return root_; }

  // A revision is a commit, a branch or tag that refs/ knows, or the beginning of exactly one commit that is there.
  // kNoRevision when it is not there; absolute revisions and ".." are kUnsafe.
  HubResult<CachedSnapshot> Find(const std::string& repo, const std::string& revision = "main") const;
  // As Find, but kIncomplete unless every file that `patterns` select is there. Where the cache has no list of the
  // commit's files, unfinished downloads alone make it incomplete.
  HubResult<CachedSnapshot> FindComplete(const std::string& repo, const std::string& revision,
                                         const HubPatterns& patterns = {}) const;
  // kNoEntry also when the cache remembers that the hub has no such file.
  HubResult<std::filesystem::path> FindFile(const std::string& repo, const std::string& revision,
                                            const std::string& path) const;
  // Bytes of a revision that need not be fetched again: its blobs, each once, and unfinished ones. 0 where there is
  // nothing or the revision is no plain name.
  uint64_t BytesThere(const std::string& repo, const std::string& revision) const;
  // Writes refs/main with `commit` unless there is one: what lets others find a snapshot that was pinned by commit.
  // Returns whether it was written.
  HubResult<bool> EnsureMainRef(const std::string& repo, const std::string& commit) const;

  Result<std::vector<CachedRepo>> List() const;  // sorted by id; an absent cache has none
  HubResult<CachedRepo> Describe(const std::string& repo) const;
  // Reads every blob. With `repair`, what is wrong and can be fetched again is removed, and killed removals are
  // finished. A folder that cannot be listed is an error, here and wherever something is removed.
  HubResult<CacheReport> Verify(const std::string& repo, bool repair, HubProgressSink* progress = nullptr,
                                std::stop_token stop = {}) const;
  // Removes the whole repository; false when there was none.
  HubResult<bool> Remove(const std::string& repo) const;
  // Removes one commit's snapshot, the refs that name it and the blobs that nothing else uses.
  HubStatus RemoveRevision(const std::string& repo, const std::string& commit) const;
  // Removes blobs that no snapshot uses, unfinished downloads nobody works on, and temporary files of processes that
  // were killed. A blob goes under its exclusive lock alone: where the disk knows no locks, or another process holds
  // it, the blob stays. Returns the bytes freed, those of CollectTrash too.
  HubResult<uint64_t> CollectGarbage(const std::string& repo) const;
  // Finishes removals of whole repositories that were killed. Returns the bytes freed.
  HubResult<uint64_t> CollectTrash() const;

 private:
  std::filesystem::path root_;
};

// ---------------------------------------------------------------------------------------------------------------------
// The client

struct HubDownload {
  std::string repo;
  std::string revision = "main";
  HubPatterns patterns{};
  bool ensure_main_ref = true;  // as HubCache::EnsureMainRef, after success
};

enum class HubVisibility { kPublic, kPrivate };

struct HubUploadFile {
  std::string path;              // in the repository
  std::filesystem::path source;  // a regular file, or a link to one
};
struct HubUpload {
  std::string repo;
  std::string revision = "main";
  std::vector<HubUploadFile> files{};
  std::vector<std::string> deletions{};  // files; those that are not there are left out
  std::string summary = "Upload";
};
struct HubUploadReport {
  std::string commit;   // the revision's commit at the end, also when there was nothing to do
  int commits = 0;      // made by this call
  int files_sent = 0;   // large ones whose bytes went out, and small ones inside commits
  int files_there = 0;  // the same content was there already
  int deleted = 0;
  uint64_t bytes_sent = 0;
};
// Every file below `folder` with its relative name, sorted; links to files count. ".git" and ".cache/huggingface" are
// left out, as huggingface_hub does; names that the hub refuses are errors.
Result<std::vector<HubUploadFile>> ListUploadFolder(const std::filesystem::path& folder);

// One hub. Requests are repeated after broken connections, time-outs, 408, 429 and 5xx, with growing pauses, and with
// the pause that Retry-After asks for. Safe beside other processes that use the same cache, huggingface_hub's included.
class Hub {
 public:
  explicit Hub(HubSettings settings);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  const HubSettings& settings() const;
  const HubCache& cache() const;

  HubResult<HubRepo> Info(const std::string& repo, const std::string& revision = "main", std::stop_token stop = {});
  // Every file; a name that could lead out of a folder, or two that cannot both be files, are kUnsafe.
  HubResult<std::vector<HubFile>> Tree(const std::string& repo, const std::string& revision, std::stop_token stop = {});
  HubResult<HubUser> WhoAmI(std::stop_token stop = {});
  HubResult<std::vector<HubRepo>> Search(const HubQuery& query, std::stop_token stop = {});
  // The commit of a revision: a commit is itself, without a request.
  HubResult<std::string> ResolveRevision(const std::string& repo, const std::string& revision,
                                         std::stop_token stop = {});

  // Brings the files of a revision into the cache. What is there is not fetched; partly loaded files are resumed; a
  // file becomes visible when its digest is right and its bytes are on the disk. Where the hub cannot be reached, or
  // refuses what is pinned by commit, and the cache has all of it, that is the answer (hub_asked false). Of a commit
  // whose list is known and that is complete, nothing is asked. Needs no right to write where everything is there.
  // kNoSpace before anything is fetched when the disk cannot hold the rest.
  HubResult<CachedSnapshot> Download(const HubDownload& download, HubProgressSink* progress = nullptr,
                                     std::stop_token stop = {});
  // One file, by the same rules; returns its name in the snapshot.
  HubResult<std::filesystem::path> Fetch(const std::string& repo, const std::string& revision, const std::string& path,
                                         HubProgressSink* progress = nullptr, std::stop_token stop = {});

  // True when it was created, false when it was there, whose visibility is left alone.
  HubResult<bool> CreateRepo(const std::string& repo, HubVisibility visibility, std::stop_token stop = {});
  HubStatus SetVisibility(const std::string& repo, HubVisibility visibility, std::stop_token stop = {});
  // Sends what the revision does not have yet and commits it, in several commits when there is much. A second call
  // after a failure goes on where the first one ended. Commits of others in between are kept.
  HubResult<HubUploadReport> Upload(const HubUpload& upload, HubProgressSink* progress = nullptr,
                                    std::stop_token stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sightline
