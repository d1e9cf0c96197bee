#include "server/listen_port.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace sightline {
namespace {

constexpr int kFirstPort = 20'000;
constexpr int kLastPort = 20'999;

// The sockets that listen on `port`: rows of /proc/net/tcp as "sl local remote st ... inode", numbers in hex.
void AddListeningSockets(const char* table, int port, std::set<std::string>* sockets) {
  constexpr std::string_view kListen = "0A";
  std::ifstream rows(table);
  std::string row;
  std::getline(rows, row);  // headings
  while (std::getline(rows, row)) {
    std::istringstream columns(row);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    columns >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos || state != kListen) continue;
    if (std::strtol(local.c_str() + colon + 1, nullptr, 16) == port) sockets->insert("socket:[" + inode + "]");
  }
}

bool HasOneOf(const std::filesystem::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(process / "fd", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code unreadable;
    if (sockets.contains(std::filesystem::read_symlink(entry->path(), unreadable).string())) return true;
  }
  return false;
}

Error WithOwner(Error error, int port) {
  const auto owner = OwnerOfPort(port);
  if (!owner) return error;
  error.message += fmt::format(" by {}: give another one with --port, or none for the next free one", *owner);
  return error;
}

}  // namespace

std::optional<std::string> OwnerOfPort(int port) {
  std::set<std::string> sockets;
  AddListeningSockets("/proc/net/tcp", port, &sockets);
  AddListeningSockets("/proc/net/tcp6", port, &sockets);
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator("/proc", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || !HasOneOf(entry->path(), sockets)) continue;
    std::string command;
    std::getline(std::ifstream(entry->path() / "comm"), command);
    return fmt::format("process {} ({})", name, command);
  }
  return std::nullopt;
}

Result<std::unique_ptr<HttpServer>> ListenOn(std::optional<int> port, HttpServerOptions options,
                                             const HttpCallbacks& callbacks) {
  options.port = port.value_or(kFirstPort);
  auto server = HttpServer::Start(options, callbacks);
  while (!server && !port && options.port < kLastPort) {
    ++options.port;
    server = HttpServer::Start(options, callbacks);
  }
  if (!server && port.value_or(0) > 0) return tl::make_unexpected(WithOwner(std::move(server).error(), *port));
  return server;
}

}  // namespace sightline
