// base: what every other module stands on. Errors as values, logging, files that survive a power cut, digests, and the
// one team of threads that does all heavy arithmetic. Everything here may be called from any thread unless a comment
// says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <vector>

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// Errors. What the outside world can get wrong (files, network, input, weights, memory) is a value; a bug aborts.

// One row per kind of failure. `Describe` maps each to its wire name, HTTP statuses and exit code; that table is the
// only place where those numbers exist.
enum class Code {
  kUsage,               // command line
  kInvalidRequest,      // broken JSON, wrong type, unknown value
  kInvalidUtf8,         // request text is not UTF-8
  kMissingField,        // a required field is absent
  kInvalidBase64,       // image text is not base64
  kImageEmpty,          // zero bytes
  kImageTruncated,      // the file ends too early
  kImageUndecodable,    // damaged or contradictory file
  kImageUrlNotAllowed,  // a URL where bytes are wanted
  kInvalidBox,          // NaN, infinite, inverted
  kBoxOutside,          // wholly outside the picture
  kUnitsMismatch,       // pixels sent as normalised or the reverse
  kTooManyBoxes,        // more heads than the limit
  kAspectTooExtreme,    // a picture far longer than wide, or the reverse
  kPromptTooLong,       // prompt and answer do not fit the model or its limit
  kUnsupportedMedia,    // not JPEG, PNG or WebP; not JSON
  kImageTooLarge,       // pixel or side limit
  kBodyTooLarge,        // request body limit
  kHeaderTooLarge,      // request header limit
  kNotFound,            // route, file, package, model
  kMethodNotAllowed,    // route exists, method does not
  kRequestTimeout,      // the client was too slow to send its request
  kBusy,                // queue full
  kStarting,            // weights are loading
  kDraining,            // shutting down
  kDeadline,            // the answer was not ready in time
  kCancelled,           // the client went away
  kUnreachable,         // hub or server cannot be reached
  kCorruptWeights,      // digest, shape or format of weights
  kNoSpace,             // disk full
  kNoPermission,        // not allowed to read or write
  kOutOfMemory,         // allocation refused
  kDeviceLost,          // accelerator missing or gone
  kUnsupported,         // known, but not built in or not possible here
  kNumeric,             // weights give NaN or infinity
  kInternal,            // everything else
};

struct CodeDescription {
  std::string_view name;  // on the wire: "invalid_box"
  int http_status;        // own routes
  int seed_http_status;   // the seed's route, POST /predict
  int exit_code;          // of the command line
};
const CodeDescription& Describe(Code code);

// One sentence, subject first, expected and actual: "weights: norm.bias has shape [3], expected [768]".
// `param` names the offending request field ("bboxes[2]") where there is one.
struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string param;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> Fail(Code code, std::string message, std::string param = {}) {
  return tl::make_unexpected(Error{code, std::move(message), std::move(param)});
}

// Code and sentence of an errno value for an action on a path: "cannot write /x: no space left on device".
Error ErrnoError(std::string_view action, const std::filesystem::path& path, int errno_value);

// Returns the error of `expression` (a Status or Result) to the caller.
#define SIGHTLINE_RETURN_IF_ERROR(expression)                                                          \
  do {                                                                                                 \
    if (auto status_ = (expression); !status_) return tl::make_unexpected(std::move(status_).error()); \
  } while (false)

#define SIGHTLINE_CONCAT_(a, b) a##b
#define SIGHTLINE_CONCAT(a, b) SIGHTLINE_CONCAT_(a, b)
// SIGHTLINE_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
#define SIGHTLINE_ASSIGN_OR_RETURN(lhs, expression) \
  SIGHTLINE_ASSIGN_OR_RETURN_(SIGHTLINE_CONCAT(result_, __LINE__), lhs, expression)
#define SIGHTLINE_ASSIGN_OR_RETURN_(result, lhs, expression)          \
  auto result = (expression);                                         \
  if (!result) return tl::make_unexpected(std::move(result).error()); \
  lhs = std::move(*result)

// A broken invariant of ours: prints the condition and aborts. No input may reach one.
#define SIGHTLINE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::sightline::CheckFailed(#condition, __FILE__, __LINE__))
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

// Number of a token in a model's vocabulary.
using TokenId = int32_t;

// The value of an environment variable; empty where it is unset.
std::string EnvironmentVariable(const char* name);

// ---------------------------------------------------------------------------------------------------------------------
// Logging goes to standard error through spdlog; standard output belongs to results.

enum class LogLevel { kQuiet, kInfo, kDebug };
// Call once, before other threads start.
void SetUpLogging(LogLevel level);
void LogInfo(std::string_view line);
void LogWarning(std::string_view line);
void LogError(std::string_view line);
void LogDebug(std::string_view line);

// Lets standard output and standard error go to `path`, whoever writes there, and from now on a log line that finds the
// file larger than `limit_bytes` begins a new one (see RotateFile). Call once, before other threads start.
Status LogToFile(const std::filesystem::path& path, uint64_t limit_bytes, int keep);
// PATH becomes PATH.1, that one PATH.2, up to PATH.KEEP; what was called so is gone. No file: nothing happens.
Status RotateFile(const std::filesystem::path& path, int keep);

// "0.1.0"
std::string_view Version();

// ---------------------------------------------------------------------------------------------------------------------
// Files

// A whole file mapped read-only; the mapping lives as long as the last copy. An empty file maps to an empty span.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const;
  const std::filesystem::path& path() const;
  int64_t modified_ns() const;  // since the epoch, as it was when mapped
  // Asks the kernel to bring the pages in now.
  void Populate() const;
  // Keeps the mapping alive; for objects that hold pointers into it.
  std::shared_ptr<const void> owner() const;

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
};

// Takes pages of a mapped file out of this process's memory; they come back from the file when read again. A hint, for
// files that are read once from end to end. Bytes that belong to no mapping are a bug.
void ReleasePages(std::span<const std::byte> mapped);

// Whether a path may name a pipe, whose reader waits for whoever writes to it.
enum class Pipes { kRefuse, kRead };
// Reads a whole file, refusing more than `limit` bytes. "-" reads standard input.
Result<std::vector<std::byte>> ReadFile(const std::filesystem::path& path, size_t limit, Pipes pipes = Pipes::kRefuse);

// Writes a file so that `path` holds either its old content or all of the new one, whatever happens between: a
// temporary file with a name of its own in the same folder, fsync, rename, fsync of the folder. Not thread-safe.
class AtomicFile {
 public:
  static Result<AtomicFile> Create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  ~AtomicFile();  // removes the temporary file unless committed

  Status Write(std::span<const std::byte> bytes);
  // Overwrites earlier bytes: for headers that are known last.
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t size() const;
  Status Commit();

 private:
  AtomicFile() = default;
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

Status WriteFileAtomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

// A lock between processes, and between threads of one (flock): the kernel gives it back when its holder ends, however
// it ends. Held while the object lives. Not thread-safe.
class FileLock {
 public:
  enum class Kind { kShared, kExclusive };
  // Waits. The file and its folder are made where they are missing; the file stays afterwards.
  static Result<FileLock> Take(const std::filesystem::path& path, Kind kind);
  // Nothing when another holds it.
  static Result<std::optional<FileLock>> TryTake(const std::filesystem::path& path, Kind kind);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  static Result<FileLock> Open(const std::filesystem::path& path);
  int descriptor_ = -1;
};

// SIGHTLINE_CACHE, else $XDG_CACHE_HOME/sightline, else ~/.cache/sightline; not created. Fails where no home is known.
Result<std::filesystem::path> CacheFolder();

// ---------------------------------------------------------------------------------------------------------------------
// Digests

// SHA-256 through OpenSSL. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Update(std::span<const std::byte> bytes);
  std::string HexDigest();  // 64 lower-case digits; ends the computation

 private:
  void* context_;
};
std::string Sha256Hex(std::span<const std::byte> bytes);

// SHA-1, for names that git gave and nothing else: it protects against damage, not against forgers. Not thread-safe.
class Sha1 {
 public:
  Sha1();
  ~Sha1();
  Sha1(const Sha1&) = delete;
  Sha1& operator=(const Sha1&) = delete;
  void Update(std::span<const std::byte> bytes);
  std::string HexDigest();  // 40 lower-case digits; ends the computation

 private:
  void* context_;
};

// FNV-1a, 64 bit: http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t Fnv1a64(std::span<const std::byte> bytes);

// Standard alphabet, padded: RFC 4648, section 4.
std::string EncodeBase64(std::span<const std::byte> bytes);

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
template <typename T>
std::span<const std::byte> AsBytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// ---------------------------------------------------------------------------------------------------------------------
// Text. UTF-8 as The Unicode Standard 15, 3.9, table 3-7 has it.

// What stands at the front of some bytes: a well-formed character, or the longest part of one that could still become
// one ("maximal subpart"; one byte where not even that).
struct Utf8Part {
  size_t length = 0;
  bool well_formed = false;
  bool cut_off = false;  // the bytes end inside what may be a character
};
Utf8Part NextUtf8(std::string_view bytes);
// Offset of the first byte that belongs to no well-formed character, or npos.
size_t FindInvalidUtf8(std::string_view bytes);
// Every maximal invalid part becomes one U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);
// The longest prefix of `bytes` that does not end inside a character: what a stream may show before the rest has come.
size_t CompleteUtf8Prefix(std::string_view bytes);

// "1.2 GB", "3.4 MB", "5.6 kB", "12 B".
std::string DecimalBytes(uint64_t bytes);

// ---------------------------------------------------------------------------------------------------------------------
// Threads

// How many threads heavy work should use here: the smallest of CPU affinity, cgroup quota (v1 and v2, rounded up) and
// physical cores. `why` gets one line that says which of them decided ("2 threads: affinity 2, cgroup quota none,
// physical cores 2").
int DefaultThreadCount(std::string* why = nullptr);

// Reference to a callable for the length of one call; owns nothing.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& f)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Takes bytes in order; an error ends the stream.
using ByteSink = FunctionRef<Status(std::span<const std::byte> bytes)>;
// Fills the beginning of `bytes` and says how much of it; 0 is the end.
using ByteSource = FunctionRef<Result<size_t>(std::span<std::byte> bytes)>;

// A persistent team that runs numbered tasks. Idle members spin for some tens of microseconds, then sleep, so that a
// busy neighbour costs a fair share and no more. Every member sets flush-to-zero.
class ThreadTeam {
 public:
  // `threads` counts the calling thread too; 0 means DefaultThreadCount().
  explicit ThreadTeam(int threads = 0);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  // Calls body(task, member) once for every task in [0, tasks), on any member in any order, and returns when all are
  // done. The caller is member 0. One Run at a time; a Run inside a Run is a bug. `body` must not throw.
  void Run(int64_t tasks, FunctionRef<void(int64_t task, int member)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sightline
