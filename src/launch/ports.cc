#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/launch.h"

namespace sightline {

bool PortIsFree(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool free = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return free;
}

Result<int> PickPort(std::optional<int> wanted) {
  if (wanted) {
    if (PortIsFree(*wanted)) return *wanted;
    return Fail(Code::kUsage, fmt::format("port {} is taken: give another one with --port, or none for the next free "
                                          "one from {} on",
                                          *wanted, kDefaultPort));
  }
  constexpr int kAttempts = 100;
  for (int port = kDefaultPort; port < kDefaultPort + kAttempts; ++port) {
    if (PortIsFree(port)) return port;
  }
  return Fail(Code::kBusy, fmt::format("no port from {} to {} is free: give one with --port", kDefaultPort,
                                       kDefaultPort + kAttempts - 1));
}

}  // namespace sightline
