#include "launch/native_servers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <thread>

#include "launch/detached_process.h"
#include "launch/log_reader.h"
#include "launch/native_record.h"

namespace sightline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kLandmark = "Application startup complete";
constexpr int kLogsKept = 5;
constexpr size_t kLargestRecord = 64u << 10;
constexpr std::chrono::milliseconds kBetweenLooks{20};

// Held while a server of one name is started or stopped.
Result<FileLock> TakeLock(const std::filesystem::path& folder, const std::string& name) {
  return FileLock::Take(folder / (name + ".lock"), FileLock::Kind::kExclusive);
}

std::optional<NativeServer> ReadRecord(const std::filesystem::path& path) {
  const auto bytes = ReadFile(path, kLargestRecord);
  if (!bytes) return std::nullopt;
  auto server = ParseNativeRecord({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!server) return std::nullopt;
  return *std::move(server);
}

// Also reaps it where it is our child.
bool HasEnded(const NativeServer& server) {
  return ReapIfEnded(server.process.pid).has_value() || !IsAlive(server.process);
}

bool EndsWithin(const NativeServer& server, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (!HasEnded(server)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

Status Signal(const NativeServer& server, int signal) {
  // The number may have been given to another process since.
  if (!IsAlive(server.process) || ::kill(server.process.pid, signal) == 0 || errno == ESRCH) return {};
  return Fail(Code::kNoPermission,
              fmt::format("cannot stop process {} ({}): {}", server.process.pid, server.target, std::strerror(errno)));
}

}  // namespace

std::string NativeServers::NameOf(const std::string& target) {
  std::string name;
  for (const char c : target) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    name += c == '/' ? "__" : plain ? std::string(1, c) : "-";
  }
  constexpr size_t kLongest = 200;  // names of files end at 255
  if (name.size() > kLongest) name = name.substr(0, kLongest - 17) + fmt::format("-{:016x}", Fnv1a64(AsBytes(target)));
  return name;
}

std::filesystem::path NativeServers::LogOf(const std::string& name) const { return folder_ / (name + ".log"); }
std::filesystem::path NativeServers::FileOf(const std::string& name) const { return folder_ / (name + ".json"); }

std::vector<NativeServer> NativeServers::List() const {
  std::vector<NativeServer> servers;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() != ".json") continue;
    if (auto server = Find(entry->path().stem().string())) servers.push_back(*std::move(server));
  }
  std::ranges::sort(servers, {}, &NativeServer::name);
  return servers;
}

std::optional<NativeServer> NativeServers::Find(const std::string& name) const {
  auto server = ReadRecord(FileOf(name));
  if (!server || !IsAlive(server->process)) return std::nullopt;
  return server;
}

Result<NativeServer> NativeServers::Start(NativeServer server, const std::vector<std::string>& words) const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return tl::make_unexpected(ErrnoError("create", folder_, error.value()));
  SIGHTLINE_ASSIGN_OR_RETURN(const FileLock lock, TakeLock(folder_, server.name));
  if (const auto running = Find(server.name)) {
    return Fail(Code::kBusy, fmt::format("{} is already running, as process {} on port {}", running->target,
                                         running->process.pid, running->port));
  }
  server.log = LogOf(server.name);
  SIGHTLINE_RETURN_IF_ERROR(RotateFile(server.log, kLogsKept));
  server.started = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::vector<std::string> arguments = words;
  arguments.front() = "sightline";  // whatever name the file has: that of tt-model would change what it does
  const DetachedCommand command{
      words.front(), std::move(arguments), {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}, server.log};
  SIGHTLINE_ASSIGN_OR_RETURN(server.process, StartDetached(command, [&](const ProcessIdentity& process) {
                               server.process = process;
                               return WriteFileAtomically(FileOf(server.name), AsBytes(NativeRecordText(server)));
                             }));
  return server;
}

NativeEnd NativeServers::WaitUntilReady(const NativeServer& server, std::chrono::milliseconds deadline,
                                        const std::function<void(const std::string& line)>& line,
                                        std::stop_token stop) const {
  constexpr size_t kLastLines = 40;
  const auto end = Clock::now() + deadline;
  LogReader log(server.log);
  std::deque<std::string> last;
  const auto ended = [&last](BootEndKind kind, int code = 0) {
    return NativeEnd{kind, code, {last.begin(), last.end()}};
  };
  for (;;) {
    const auto exit_code = ReapIfEnded(server.process.pid);
    const bool gone = exit_code || !IsAlive(server.process);  // asked before the log is read for the last time
    std::vector<std::string> lines = log.Read();
    if (std::string rest = gone ? log.Rest() : ""; !rest.empty()) lines.push_back(std::move(rest));
    for (const std::string& text : lines) {
      last.push_back(text);
      if (last.size() > kLastLines) last.pop_front();
      if (line) line(text);
      if (text.find(kLandmark) != std::string::npos) return ended(BootEndKind::kReady);
    }
    if (gone) return ended(BootEndKind::kExited, exit_code.value_or(0));
    if (stop.stop_requested()) return ended(BootEndKind::kCancelled);
    if (Clock::now() >= end) return ended(BootEndKind::kDeadline);
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Result<StopReport> NativeServers::Stop(const NativeServer& server, std::chrono::seconds grace) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const FileLock lock, TakeLock(folder_, server.name));
  StopReport report;
  report.was_running = !HasEnded(server);
  SIGHTLINE_RETURN_IF_ERROR(Signal(server, SIGTERM));
  report.clean = EndsWithin(server, grace);
  if (!report.clean) {
    SIGHTLINE_RETURN_IF_ERROR(Signal(server, SIGKILL));
    constexpr std::chrono::seconds kForTheKernel{10};
    if (!EndsWithin(server, kForTheKernel)) {
      return Fail(Code::kInternal,
                  fmt::format("process {} ({}) does not end, even after SIGKILL: it waits in the kernel",
                              server.process.pid, server.target));
    }
  }
  // Another of that name may have been started since `server` was looked up: its record stays.
  const auto recorded = ReadRecord(FileOf(server.name));
  std::error_code ignored;
  if (recorded && recorded->process == server.process) std::filesystem::remove(FileOf(server.name), ignored);
  return report;
}

}  // namespace sightline
