// launch: starting packages, watching them until they answer, and stopping them. A package runs in a container, or
// natively: this program itself, as a process of its own on the CPU. Either goes on when its starter ends; what runs is
// written down on the disk or known to the container engine, never in our memory.
//
// Several processes may do this at a time. Everything may be called from any thread unless a comment says otherwise.
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
#include "containers/containers.h"
#include "net/net.h"
#include "package/package.h"
#include "store/store.h"

namespace sightline {

// ---------------------------------------------------------------------------------------------------------------------
// Settings

struct LaunchSettings {
  StoreSettings store;
  std::filesystem::path servers;  // state and logs of native servers, a few files each
  std::filesystem::path program;  // this program
  std::filesystem::path hf_home;  // HF_HOME or ~/.cache/huggingface: what a container sees as /hf
  bool token_is_set = false;      // HF_TOKEN: containers get it by name
  uint32_t user = 0, group = 0;   // whom a container runs as where the engine is not rootless
};
// kUsage names the variable that makes no sense.
Result<LaunchSettings> LaunchSettingsFromEnvironment();
// How long a server may take to become ready: TT_MODEL_READY_TIMEOUT, a whole number of seconds, else four hours.
Result<std::chrono::seconds> ReadyTimeoutFromEnvironment();

// `wanted`, or kUnsupported where it is taken; else the first free one of 100 from 20000 on, kBusy naming --port
// without any. Free is where the wildcard address can be bound, with SO_REUSEADDR. Other reasons for which it cannot
// are said as they are: kNoPermission for a port that this user may not bind.
Result<int> PickPort(std::optional<int> wanted);

// The profile under which a package runs natively.
inline constexpr char kNativeProfile[] = "cpu";

// ---------------------------------------------------------------------------------------------------------------------
// Serving

struct ServeRequest {
  std::string target;  // as the user typed it; see ParseTarget
  std::optional<std::string> profile{};
  std::optional<int> port{};
  std::string devices{};                       // "0,1"; empty: the lowest free ones
  std::optional<RunMode> mode{};               // none: see ChooseRun
  bool detach = false;                         // do not wait until it is ready
  bool local_only = false;                     // ask no network
  bool no_weights = false;                     // fetch none
  bool refresh = false;                        // first see whether the package has changed
  std::vector<std::string> arguments{};        // for the server, as they are
  std::chrono::seconds ready_timeout{14'400};  // see ReadyTimeoutFromEnvironment
  LicenseQuestion license{};
};

enum class ServeEnd {
  kDetached,     // started, not waited for
  kReady,        // answers
  kNotReady,     // see `diagnosis`; what has not ended by itself goes on
  kInterrupted,  // `stop` was asked while it was waited for; the server goes on
};
struct ServeReport {
  ServeEnd end = ServeEnd::kDetached;
  RunMode mode = RunMode::kContainer;
  std::string name;  // of the container, or of the native server: what logs and stop find it by
  std::string target;
  std::string profile;
  bool chat = false;  // clients may speak OpenAI's chat protocol to it
  int port = 0;
  std::string endpoint;         // "http://127.0.0.1:20000"
  std::filesystem::path log{};  // of a native server
  std::chrono::milliseconds elapsed{0};
  std::optional<BootDiagnosis> diagnosis{};
};

// ---------------------------------------------------------------------------------------------------------------------
// What runs

struct RunningPackage {
  RunMode mode = RunMode::kContainer;
  std::string name;    // "tt-model-gaze-p150"; of a native server what its files are called by
  std::string target;  // "org/name", a short name, or the package's own name where nothing better is known
  std::string profile;
  std::string status;    // "ready", "starting" (native), "running" where that is all that is known, "exited"
  int port = 0;          // 0: none is published
  std::string uptime{};  // in words
  std::optional<int64_t> uptime_seconds{};
  std::string image{};          // of a container
  std::optional<bool> chat{};   // clients may speak OpenAI's chat protocol to it; none: unknown
  std::filesystem::path log{};  // of a native server
  int64_t pid = 0;              // of a native server
};

struct StopRequest {
  std::string target;  // empty: everything that runs
  std::optional<std::string> profile{};
  std::chrono::seconds grace{120};
};
struct StoppedPackage {
  std::string name;
  RunMode mode = RunMode::kContainer;
  StopReport report;
};
// What could not be stopped keeps nothing else from being stopped.
struct StopOutcome {
  std::vector<StoppedPackage> stopped;
  std::vector<StoreError> failures;
};

struct LogRequest {
  std::string target;
  std::optional<std::string> profile{};
  bool follow = false;
  std::optional<int64_t> tail{};  // last lines; none: all
  std::string since{};            // "10m", "2h30m", "45s" back, or an RFC 3339 time; empty: from the beginning
};

struct ProfileRow {
  std::string name;
  bool is_default = false;
  std::string hardware, mesh;  // may be empty
  std::optional<int64_t> max_num_seqs{}, max_model_len{};
  std::string description{};
};

// Packages of one user on this machine.
class Launcher {
 public:
  explicit Launcher(LaunchSettings settings);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  const LaunchSettings& settings() const;
  Store& store();

  // Finds or fetches the package, its image or nothing, and its weights; starts it and waits until its log says that it
  // is ready. kBusy when it runs already or no port or device is free, kUnsupported for a port that is taken.
  StoreResult<ServeReport> Serve(const ServeRequest& request, Reporter* reporter, std::stop_token stop = {});
  // The command that Serve would run, on the first port that it would try, as one line for a shell. Creates nothing,
  // starts nothing, needs no engine.
  StoreResult<std::string> PrintableCommand(const ServeRequest& request, Reporter* reporter, std::stop_token stop = {});
  // The words of the native server in the foreground, program first: for execv. Fetches what is missing.
  StoreResult<std::vector<std::string>> NativeCommand(const ServeRequest& request, Reporter* reporter,
                                                      std::stop_token stop = {});

  // Everything that runs of this package, its default profile first, or everything that runs. Nothing may be running.
  // kNotFound with what to type for a package that is not here.
  StoreResult<StopOutcome> Stop(const StopRequest& request, Reporter* reporter);
  // Native servers, then containers; `all`: also containers that have ended. None where there is no engine, and a note
  // where it does not answer.
  Result<std::vector<RunningPackage>> Running(bool all, Reporter* reporter);
  // Hands over each line; returns the exit code of what printed it (128 + SIGINT when `stop` asked). kUsage for a
  // `since` that is no time, kNotFound when nothing of it runs and nothing that has ended is left to be read.
  StoreResult<int> ReadLogs(const LogRequest& request, const std::function<void(std::string_view line)>& line,
                            std::stop_token stop = {});
  StoreResult<std::vector<ProfileRow>> Profiles(const std::string& target);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---------------------------------------------------------------------------------------------------------------------
// A question to a server that speaks OpenAI's chat protocol

struct ChatRequest {
  std::string prompt;
  std::string base_url;                  // without a slash at the end
  std::optional<std::string> model{};    // none: the first of GET /v1/models, else `installed`
  std::vector<std::string> installed{};  // ids of packages that are here
  Value parameters{Value::Map{}};        // of the body, over our own
};
struct ChatCall {
  std::string url;           // BASE/v1/chat/completions
  std::string model_source;  // where the model's name is from: "--model", "GET /v1/models", "the installed package"
  Value body;
};
// Asks the server for its models where it must. kNotFound when no name can be found.
Result<ChatCall> PrepareChat(const ChatRequest& request, std::stop_token stop = {});
// "--temperature 0.5 --stream --top-p=1" as members of a JSON object: dashes in names become underscores, values are
// typed as JSON reads them, an option without a value is true. kUsage for a word that belongs to none.
Result<Value> ChatParameters(const std::vector<std::string>& words);
// The call as a command of several lines for a shell.
std::string PrintableCurl(const ChatCall& call);

}  // namespace sightline
