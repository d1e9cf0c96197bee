// Passes TCP connections on to a port of this machine and cuts each after so many bytes of answers.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace sightline::testing {

class CuttingProxy {
 public:
  CuttingProxy(int target_port, size_t cut_after) : target_port_(target_port), cut_after_(cut_after) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(listener_, 16);
    socklen_t length = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  }
  ~CuttingProxy() {
    thread_.request_stop();
    thread_.join();
    close(listener_);
  }
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  int port() const { return port_; }
  int cuts() const { return cuts_; }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(target_port_);
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        Pass(stop, client, server);
      }
      close(client);
      close(server);
    }
  }

  // One connection at a time: the clients under test have no more.
  void Pass(const std::stop_token& stop, int client, int server) {
    std::array<char, 16384> piece;
    size_t answered = 0;
    while (!stop.stop_requested()) {
      std::array<pollfd, 3> waiting{{{client, POLLIN, 0}, {server, POLLIN, 0}, {listener_, POLLIN, 0}}};
      if (poll(waiting.data(), waiting.size(), 20) <= 0) continue;
      for (const int side : {0, 1}) {
        if (waiting[static_cast<size_t>(side)].revents == 0) continue;
        const ssize_t count = read(side == 0 ? client : server, piece.data(), piece.size());
        if (count <= 0) return;
        answered += side == 1 ? static_cast<size_t>(count) : 0;
        if (answered > cut_after_) {
          ++cuts_;
          return;
        }
        if (send(side == 0 ? server : client, piece.data(), static_cast<size_t>(count), MSG_NOSIGNAL) < 0) return;
      }
      if (waiting[2].revents != 0 && waiting[0].revents == 0 && waiting[1].revents == 0) return;  // the next one waits
    }
  }

  int target_port_;
  size_t cut_after_;
  int listener_ = -1, port_ = 0;
  std::atomic<int> cuts_{0};
  std::jthread thread_;
};

}  // namespace sightline::testing
