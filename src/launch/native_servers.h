// Native servers of one user: this program, each as a process of its own. What runs is written down in a folder, one
// NAME.json a server, beside its log NAME.log; a record whose process has ended, even by kill -9 or with the machine,
// is recognised as such.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/base.h"
#include "launch/launch.h"
#include "launch/process_identity.h"

namespace sightline {

struct NativeServer {
  std::string name;    // of its files
  std::string target;  // what was served
  std::string model;
  int port = 0;
  int64_t started = 0;  // seconds since the epoch
  std::filesystem::path log;
  ProcessIdentity process;
};

struct NativeEnd {
  BootEndKind kind = BootEndKind::kReady;
  int exit_code = 0;                      // for kExited; 0 also where it cannot be known
  std::vector<std::string> last_lines{};  // of the log, at most 40
};

class NativeServers {
 public:
  explicit NativeServers(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // "org/name" as a name of files.
  static std::string NameOf(const std::string& target);
  std::filesystem::path LogOf(const std::string& name) const;

  // Those that run, sorted by name.
  std::vector<NativeServer> List() const;
  // Only when it runs.
  std::optional<NativeServer> Find(const std::string& name) const;

  // Starts `words` (program first) for what `server` says; name, target, model and port are taken from it. kBusy when
  // one of that name runs.
  Result<NativeServer> Start(NativeServer server, const std::vector<std::string>& words) const;
  // Follows its log until the landmark, its end, the deadline or `stop`. The server is left as it is.
  NativeEnd WaitUntilReady(const NativeServer& server, std::chrono::milliseconds deadline,
                           const std::function<void(const std::string& line)>& line, std::stop_token stop) const;
  // SIGTERM, then SIGKILL after `grace`. Waits for the end.
  Result<StopReport> Stop(const NativeServer& server, std::chrono::seconds grace) const;

 private:
  std::filesystem::path FileOf(const std::string& name) const;

  std::filesystem::path folder_;
};

}  // namespace sightline
