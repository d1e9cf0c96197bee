// containers: child processes, and docker or podman driven through their command lines, whichever is there. Knows
// containers, images and the boot of a server inside one; knows nothing of packages, stores or HTTP. Everything may be
// called from any thread unless a comment says otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base.h"

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// Child processes. Each runs in a process group of its own, so that Ctrl-C on the terminal reaches us alone and an end
// reaches everything it started. No shell is involved anywhere.

struct ProcessCommand {
  std::vector<std::string> arguments;                              // the program first, looked up on PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // set on top of ours
  std::filesystem::path folder{};                                  // to run in; ours when empty
};

struct ProcessLimits {
  std::chrono::milliseconds timeout{0};     // from the start; 0 means none
  std::chrono::milliseconds grace{10'000};  // from SIGTERM to SIGKILL, when the time is up or `stop` asks
  size_t max_output_bytes = 64u << 20;      // of each captured stream; more is read and dropped
  std::stop_token stop{};
};

struct ProcessOutput {
  int exit_code = 0;  // 128 + the signal that ended it, as shells say it
  std::string standard_output;
  std::string standard_error;
};

// Runs to the end with nothing on standard input. Any exit code is an answer. kNotFound when there is no such program,
// kDeadline when the time was up, kCancelled when `limits.stop` asked.
Result<ProcessOutput> RunProcess(const ProcessCommand& command, const ProcessLimits& limits = {});

enum class StreamEnd {
  kExited,     // the process ended
  kSatisfied,  // the callback had enough
  kDeadline,
  kCancelled,
};
struct StreamResult {
  StreamEnd end = StreamEnd::kExited;
  int exit_code = 0;  // only of kExited
};
// Runs and hands over each line of standard output and error together, as it comes: \n, \r\n and \r end a line, bytes
// that are not UTF-8 become U+FFFD, a line over 64 KiB comes in pieces. `line` returns whether it wants more. A process
// that still runs at the end is ended. Standard output is a pipe: some programs buffer there.
Result<StreamResult> StreamProcess(const ProcessCommand& command, const ProcessLimits& limits,
                                   const std::function<bool(std::string_view line)>& line);

// ---------------------------------------------------------------------------------------------------------------------
// The engine

enum class EngineKind { kDocker, kPodman };

struct EngineOptions {
  std::string program{};                     // "docker", "podman", a path; empty: whichever is there
  std::vector<std::string> arguments{};      // before the verb: {"--runtime", "runc"}
  std::vector<std::string> run_arguments{};  // after `run` and its --detach: {"--ulimit", "nofile=1024:1024"}
};
// From SIGHTLINE_CONTAINER_ENGINE, SIGHTLINE_CONTAINER_ARGS and SIGHTLINE_CONTAINER_RUN_ARGS; the latter two are split
// as a shell splits words (blanks, both quotes, backslash), with nothing expanded. kUsage for an open quote.
Result<EngineOptions> EngineOptionsFromEnvironment();

// What `inspect` says of a container, as far as we look.
struct ContainerState {
  std::string id;
  std::string name;  // without the leading slash
  std::string image;
  bool running = false;
  std::optional<int64_t> started{};  // the last time, in seconds since 1970; none: never
  int exit_code = 0;
  std::map<std::string, std::string> labels;
  std::vector<std::string> device_paths;   // HostConfig.Devices, on the host
  std::vector<std::string> mount_sources;  // on the host
  std::string ipc_mode;                    // "host", "private", "container:<id>", ...
  bool privileged = false;
};

// One row of `ps`.
struct ContainerRow {
  std::string name;
  std::string image;
  std::string status;  // in words: "Up 3 minutes"
  std::string ports;
};

// What a failed `run` leaves behind is an Error whose sentence names the cause and the remedy: a port that is taken, a
// name in use, a missing device or image, another architecture, limits that may not be raised, an OCI runtime that does
// not work here. Codes: kBusy (name), kNotFound (image), kDeviceLost (device), kUnsupported (port, architecture,
// runtime, limits), kUnreachable (no daemon), kNoPermission (its socket), kInternal (anything else, with the engine's
// words).
class ContainerEngine {
 public:
  // The program that `options` name, else docker where it is on PATH and its daemon answers, else podman where it is on
  // PATH, else docker as it is. kNotFound with what to install when there is none. Versions are not judged here but in
  // HostPreflight.
  static Result<ContainerEngine> Find(const EngineOptions& options);

  EngineKind kind() const { return kind_; }
  const std::string& program() const { return options_.program; }
  const EngineOptions& options() const { return options_; }
  // program, arguments, then `rest`.
  ProcessCommand Command(std::vector<std::string> rest) const;

  Result<std::string> ServerVersion() const;  // "25.0.3"
  Result<bool> IsRootless() const;

  // Containers that carry `label` ("key" or "key=value"), any state or running ones.
  Result<std::vector<ContainerRow>> List(const std::string& label, bool all) const;
  // Every running container of this engine, ours or not.
  Result<std::vector<ContainerState>> InspectRunning() const;
  // Nothing when there is no container of exactly this name or id.
  Result<std::optional<ContainerState>> Inspect(const std::string& name) const;
  Result<bool> Exists(const std::string& name) const;
  Result<bool> IsRunning(const std::string& name) const;  // false also when there is none
  // Of a container that ended; nothing when it cannot be read.
  std::optional<int> ExitCode(const std::string& name) const;
  // Runs `arguments`, all that follows "run" (with --detach where it is wanted), with options().run_arguments put
  // first, after --detach. Returns what it printed: the id, or the output of a run that is not detached.
  Result<std::string> Run(const std::vector<std::string>& arguments, const ProcessLimits& limits = {}) const;
  // SIGTERM, then SIGKILL after `grace`. Waits.
  Status Stop(const std::string& name, std::chrono::seconds grace) const;
  Status Remove(const std::string& name, bool force) const;
  // `logs` as a command, to stream or to run in the foreground.
  ProcessCommand LogsCommand(const std::string& name, bool follow) const;

  // "sha256:" and 64 digits; nothing when the image is not there.
  Result<std::optional<std::string>> ImageId(const std::string& reference) const;
  Result<uint64_t> ImageBytes(const std::string& reference) const;
  Status Tag(const std::string& reference, const std::string& new_reference) const;
  Status RemoveImage(const std::string& reference) const;
  using LineCallback = std::function<void(std::string_view line)>;
  Status Pull(const std::string& reference, const LineCallback& line, const ProcessLimits& limits = {}) const;
  // `build` with what follows it; output goes to `log_file` too, whose first line is the command. What a disk that has
  // become full does not take is left out there.
  Status Build(const std::vector<std::string>& arguments, const std::filesystem::path& log_file,
               const LineCallback& line, const ProcessLimits& limits = {}) const;
  // `load` of the archive that `produce` writes. Returns what was loaded, one reference or id each.
  Result<std::vector<std::string>> Load(const std::function<Status(ByteSink sink)>& produce,
                                        const ProcessLimits& limits = {}) const;
  // `save` of an image, which `consume` reads.
  Status Save(const std::string& reference, const std::function<Status(ByteSource source)>& consume,
              const ProcessLimits& limits = {}) const;

 private:
  ContainerEngine(EngineKind kind, EngineOptions options) : kind_(kind), options_(std::move(options)) {}
  EngineKind kind_;
  EngineOptions options_;
};

// Whether the image that is present serves for a package: tt-model's rule (section 1.9 of its description). Empty texts
// stand for what is absent.
struct ImageIdentity {
  std::string present_id;       // of the engine; empty: the image is not there
  std::string package_digest;   // of the manifest
  std::string index_digest;     // image_digest of the index entry
  std::string index_loaded_id;  // image_loaded_id of the index entry
};
bool ImageIsCurrent(const ImageIdentity& identity);

// ---------------------------------------------------------------------------------------------------------------------
// The host: Tenstorrent devices and what a container needs of the machine

// One thing that was looked at.
struct PreflightRow {
  std::string name;  // "docker", "tt devices", "hugepages"
  bool passed = false;
  std::string detail;  // "25.0.3 (rootless)"; or what is wrong
  std::string remedy;  // what to do; empty when it passed
  Code code{};         // of what is wrong: kDeviceLost where there is no device
};
// `root` stands for / of the host, so that tests can bring a machine of their own. Docker below 25 fails (its `save`
// writes no OCI layout); podman below 4 does.
std::vector<PreflightRow> HostPreflight(const EngineOptions& options, bool need_devices,
                                        const std::filesystem::path& root = "/");

// Numbers of /dev/tenstorrent under `root`, ascending; empty without the folder.
std::vector<int> ChipInventory(const std::filesystem::path& root = "/");

// Chips that running containers hold: by the label of ours, and, for those that share the host's IPC namespace, by
// device, by mount or by being privileged. A container whose IPC chain cannot be followed counts as sharing.
std::set<int> ClaimedChips(const std::vector<ContainerState>& running, const std::vector<int>& inventory);

// The lowest `count` free ones. kBusy listing the claimed ones; kDeviceLost when the machine has fewer.
Result<std::vector<int>> PickChips(int count, const std::vector<int>& inventory, const std::set<int>& claimed);
// The ones that were asked for ("0,1"): numbers, distinct, as many as needed, present and free.
Result<std::vector<int>> ParseChips(std::string_view text, int count, const std::vector<int>& inventory,
                                    const std::set<int>& claimed);

inline constexpr std::string_view kPackageLabel = "org.tenstorrent.tt-model";
inline constexpr std::string_view kDevicesLabel = "org.tenstorrent.tt-model.devices";

enum class ChipReset { kNotNeeded, kRan, kFailed, kSkipped };
struct StopReport {
  bool was_running = false;
  bool clean = false;  // it ended by itself within the grace time
  std::optional<int> exit_code{};
  ChipReset reset = ChipReset::kNotNeeded;
};
// Stops and removes a container that runs, or may run: one that cannot be inspected is stopped and removed too. A
// container that had to be killed leaves its chips in an unknown state: then they are reset by tt-smi in a throwaway
// container of `reset_image` (all chips where the label does not say which), unless another container holds one of them
// by now. Without `reset_image` nothing is reset. `grace` is 120 s in tt-model.
Result<StopReport> StopContainer(const ContainerEngine& engine, const std::string& name, const std::string& reset_image,
                                 std::chrono::seconds grace);

// ---------------------------------------------------------------------------------------------------------------------
// The boot of a server inside a container, told from its log

enum class StageState { kWaiting, kActive, kDone, kSkipped };
struct BootStage {
  std::string active_label;  // "opening Tenstorrent device"
  std::string done_label;    // "Tenstorrent device opened"
  StageState state = StageState::kWaiting;
  std::string detail{};  // "4 chips · mesh (2, 2)"
  uint64_t done = 0;     // of `total`, which is 0 where nothing is counted
  uint64_t total = 0;
};

// Turns log lines into stages. Stages never go back and may be skipped. Bounded memory whatever is logged. One thread.
class BootTracker {
 public:
  // `kind` of the package (vllm-plugin, vllm-fork, tt-dit-server, http-server) chooses the table of stages; a line that
  // contains one of `landmarks` means ready. None: it never is.
  BootTracker(std::string_view kind, std::vector<std::string> landmarks);

  // Returns whether anything shown changed.
  bool Feed(std::string_view line);
  bool ready() const { return ready_; }
  const std::vector<BootStage>& stages() const { return stages_; }
  const BootStage* active() const;                                    // nothing between stages
  const std::vector<std::string>& tail() const { return tail_; }      // the last 40 lines
  const std::vector<std::string>& causes() const { return causes_; }  // lines that name a cause, at most 50

 private:
  bool Advance(std::string_view line);
  bool Count(std::string_view line);

  bool vllm_;
  std::vector<std::string> landmarks_;
  std::vector<BootStage> stages_;
  int current_ = -1;  // stage that was started last
  bool ready_ = false;
  std::vector<std::string> tail_, causes_;
};

enum class BootEndKind { kReady, kExited, kDeadline, kCancelled };
struct BootEnd {
  BootEndKind kind = BootEndKind::kReady;
  int exit_code = 0;  // of the container, for kExited
  std::chrono::milliseconds elapsed{0};
};
// Follows the log of a container until a landmark, its end, the deadline or `stop`. The container is left as it is.
// `changed` is called after each line, with whether anything shown changed.
Result<BootEnd> FollowBoot(const ContainerEngine& engine, const std::string& name, BootTracker* tracker,
                           std::chrono::milliseconds deadline, const std::function<void(bool changed)>& changed,
                           std::stop_token stop = {});

enum class BootFailure { kNotReady, kFlagRejected, kDeviceHeld, kPortTaken, kOther };
struct BootDiagnosis {
  BootFailure failure = BootFailure::kOther;
  std::string title;        // "tt-model-gaze-default — the server exited"
  std::string detail;       // one sentence
  std::string evidence;     // one cleaned line of the log, at most 120 characters; may be empty
  std::string consequence;  // what state things are in now
  std::vector<std::string> actions;
  std::vector<std::string> last_lines;  // at most 8
};
struct BootQuestion {
  std::string name;                             // of the container
  std::string target;                           // what the user typed after `serve`
  std::string verb = "tt-model";                // the program the actions speak of
  std::vector<std::string> passed_arguments{};  // engine flags of the user
};
// Why a server did not become ready. `end` is kExited or kDeadline.
BootDiagnosis DiagnoseBoot(const BootTracker& tracker, const BootEnd& end, const BootQuestion& question);

}  // namespace sightline
