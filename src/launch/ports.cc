#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launch/launch.h"

namespace sightline {
namespace {

Result<bool> IsFree(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  int problem = 0;
  if (socket < 0 || ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    problem = errno;
  }
  if (socket >= 0) ::close(socket);
  if (problem == 0 || problem == EADDRINUSE) return problem == 0;
  const bool forbidden = problem == EACCES || problem == EPERM;
  return Fail(forbidden ? Code::kNoPermission : Code::kInternal,
              fmt::format("port {} cannot be listened on: {}{}", port, std::strerror(problem),
                          forbidden ? "; give one above 1023 with --port" : ""));
}

}  // namespace

Result<int> PickPort(std::optional<int> wanted) {
  if (wanted) {
    SIGHTLINE_ASSIGN_OR_RETURN(const bool free, IsFree(*wanted));
    if (free) return *wanted;
    return Fail(Code::kUnsupported,
                fmt::format("port {} is taken: give another one with --port, or none for the next free "
                            "one from {} on",
                            *wanted, kDefaultPort));
  }
  constexpr int kAttempts = 100;
  for (int port = kDefaultPort; port < kDefaultPort + kAttempts; ++port) {
    SIGHTLINE_ASSIGN_OR_RETURN(const bool free, IsFree(port));
    if (free) return port;
  }
  return Fail(Code::kBusy, fmt::format("no port from {} to {} is free: give one with --port", kDefaultPort,
                                       kDefaultPort + kAttempts - 1));
}

}  // namespace sightline
