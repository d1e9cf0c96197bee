// A blocking HTTP client for tests that says exactly the bytes it is told to, well-formed or not.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sightline::testing {

struct Answer {
  int status = 0;                              // 0: the connection was closed without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class Client {
 public:
  explicit Client(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { Close(); }

  bool connected() const { return connected_; }

  // False when the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  void ShutDownSending() { shutdown(descriptor_, SHUT_WR); }

  void Close() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

  // Closes with a reset instead of an orderly end.
  void Reset() {
    const linger hard{1, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    Close();
  }

  // The next response; skips "100 Continue" unless `interim`.
  Answer Read(std::chrono::milliseconds patience = std::chrono::seconds(20), bool head_only = false,
              bool interim = false) {
    Answer answer;
    size_t end = std::string::npos;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!Receive(patience)) return answer;
    }
    Parse(received_.substr(0, end + 2), answer);
    received_.erase(0, end + 4);
    if (answer.status == 100 && !interim) return Read(patience, head_only);
    if (head_only || answer.status == 100) return answer;
    const size_t length = std::strtoul(answer.headers["content-length"].c_str(), nullptr, 10);
    while (received_.size() < length) {
      if (!Receive(patience)) break;
    }
    answer.body = received_.substr(0, length);
    received_.erase(0, length);
    return answer;
  }

  // True when the server ends the connection within `patience`, with nothing more to say.
  bool SeesEnd(std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    if (!received_.empty()) return false;
    pollfd state{descriptor_, POLLIN, 0};
    if (poll(&state, 1, static_cast<int>(patience.count())) <= 0) return false;
    char byte = 0;
    return recv(descriptor_, &byte, 1, 0) <= 0;
  }

 private:
  bool Receive(std::chrono::milliseconds patience) {
    pollfd state{descriptor_, POLLIN, 0};
    if (poll(&state, 1, static_cast<int>(patience.count())) <= 0) return false;
    char bytes[65536];
    const ssize_t size = recv(descriptor_, bytes, sizeof(bytes), 0);
    if (size <= 0) return false;
    received_.append(bytes, static_cast<size_t>(size));
    return true;
  }

  static void Parse(const std::string& head, Answer& answer) {
    answer.status = std::atoi(head.c_str() + std::string("HTTP/1.1 ").size());
    size_t line = head.find("\r\n") + 2;
    while (line < head.size()) {
      const size_t end = head.find("\r\n", line), colon = head.find(':', line);
      std::string name = head.substr(line, colon - line);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      answer.headers[name] = head.substr(colon + 2, end - colon - 2);
      line = end + 2;
    }
  }

  int descriptor_;
  bool connected_ = false;
  std::string received_;
};

// One request on a connection of its own.
inline Answer Ask(int port, std::string_view request) {
  Client client(port);
  client.Send(request);
  return client.Read();
}

}  // namespace sightline::testing
