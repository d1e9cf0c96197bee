#include "launch/process_identity.h"

#include <fstream>
#include <sstream>

namespace sightline {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::optional<ProcessIdentity> IdentifyProcess(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::string line = FirstLine("/proc/" + std::to_string(pid) + "/stat");
  // The name of the program stands in brackets and may hold brackets and blanks itself.
  const size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(end_of_name + 1));
  std::string state, skipped;
  fields >> state;
  constexpr int kBetweenStateAndStart = 18;
  for (int i = 0; i < kBetweenStateAndStart; ++i) fields >> skipped;
  ProcessIdentity process{pid, 0, FirstLine("/proc/sys/kernel/random/boot_id")};
  if (!(fields >> process.start_ticks) || state == "Z" || state == "X") return std::nullopt;
  return process;
}

bool IsAlive(const ProcessIdentity& process) { return IdentifyProcess(process.pid) == process; }

}  // namespace sightline
