// tests/hub/local_hub.py as a child process, and what a test says to it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hub/hub.h"

namespace sightline::testing {

// A process with its standard input and output as pipes. Killed when destroyed.
class ChildProcess {
 public:
  // `environment` is added to ours.
  ChildProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment = {}) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::vector<std::string> variables = Environment(environment);
    std::vector<char*> words = Pointers(command), values = Pointers(variables);
    if (::posix_spawnp(&process_, words[0], &actions, nullptr, words.data(), values.data()) != 0) process_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = out[0];
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    Kill();
    ::close(input_);
    ::close(output_);
  }

  // Up to a line end, or what there is when the output ends.
  std::string ReadLine() {
    std::string line;
    for (char c; ::read(output_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // The exit status, or minus the signal.
  int Wait() {
    if (process_ < 0) return status_;
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int Kill() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    return Wait();
  }

 private:
  static std::vector<char*> Pointers(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
  }
  static std::vector<std::string> Environment(const std::map<std::string, std::string>& added) {
    std::vector<std::string> variables;
    for (char** variable = ::environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      if (!added.contains(text.substr(0, text.find('=')))) variables.push_back(text);
    }
    for (const auto& [name, value] : added) variables.push_back(name + "=" + value);
    return variables;
  }

  pid_t process_ = -1;
  int status_ = 127;
  int input_ = -1, output_ = -1;
};

class LocalHub {
 public:
  LocalHub() : process_({"python3", SIGHTLINE_LOCAL_HUB}) {
    const auto urls = nlohmann::json::parse(process_.ReadLine());
    hub = urls["hub"];
    cdn = urls["cdn"];
  }

  nlohmann::json Ask(const std::string& method, const std::string& path, const nlohmann::json& body = nullptr) {
    HttpCall call;
    call.method = method;
    call.url = hub + path;
    if (!body.is_null()) call.body = body.dump();
    const auto answer = client_.Send(call);
    if (!answer || answer->status != 200) throw std::runtime_error("the local hub refuses " + path);
    return nlohmann::json::parse(answer->body);
  }
  // Returns the commit.
  std::string Put(const std::string& repo, const std::map<std::string, std::string>& files,
                  nlohmann::json properties = nlohmann::json::object()) {
    properties["id"] = repo;
    properties["files"] = nlohmann::json::object();
    for (const auto& [path, content] : files) properties["files"][path] = Base64(content);
    return Ask("POST", "/admin/repo", properties)["commit"];
  }
  void Fault(const nlohmann::json& fault) { Ask("POST", "/admin/fault", fault); }
  void Set(const nlohmann::json& settings) { Ask("POST", "/admin/set", settings); }
  void Reset() { Ask("POST", "/admin/reset", nlohmann::json::object()); }
  nlohmann::json Log() { return Ask("GET", "/admin/log"); }
  nlohmann::json State(const std::string& repo) { return Ask("GET", "/admin/state?repo=" + repo); }
  // Bytes of files that have gone out since the last Reset.
  uint64_t BytesSent() {
    uint64_t bytes = 0;
    for (const auto& entry : Log()) {
      const std::string path = entry["path"];
      if (path.starts_with("/objects/") || path.find("/resolve") != std::string::npos)
        bytes += uint64_t{entry["bytes"]};
    }
    return bytes;
  }

  HubSettings Settings(const std::filesystem::path& cache, const std::string& token = {}) const {
    HubSettings settings;
    settings.endpoint = hub;
    settings.cache = cache;
    settings.token = token;
    settings.token_source = token.empty() ? "" : "HF_TOKEN";
    settings.first_pause = std::chrono::milliseconds(5);
    settings.stall_timeout = std::chrono::seconds(1);
    settings.attempts = 4;
    return settings;
  }

  std::string hub, cdn;

 private:
  static std::string Base64(const std::string& bytes) {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 3) {
      uint32_t group = 0;
      for (size_t k = 0; k < 3; ++k) {
        group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
      }
      for (size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
    return text;
  }

  ChildProcess process_;
  HttpClient client_{};
};

// Bytes that do not repeat.
inline std::string Noise(size_t size, uint64_t seed = 1) {
  std::string bytes(size, '\0');
  for (char& c : bytes) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(seed >> 56);
  }
  return bytes;
}

// Notes and the last progress.
class KeptProgress : public HubProgressSink {
 public:
  void OnProgress(const HubProgress& progress) override { last = progress; }
  void OnNote(std::string_view line) override { notes += std::string(line) + "\n"; }
  HubProgress last{};
  std::string notes{};
};

}  // namespace sightline::testing
