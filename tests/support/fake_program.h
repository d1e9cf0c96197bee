// A program of our own making in front of the PATH, for as long as the object lives: a shell script that writes down
// how it was called and answers as the test says.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace sightline {

// A variable of our environment, set back when the object goes.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (had_) {
      ::setenv(name_, before_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

// Nothing else is on the PATH meanwhile.
class FakeProgram {
 public:
  explicit FakeProgram(const std::string& name) : path_("PATH", folder_.path().string()) { Add(name); }

  // Another name for the same script.
  void Add(const std::string& name) {
    const auto file = folder_.path() / name;
    const std::string folder = folder_.path().string();
    std::ofstream(file)
        << "#!/bin/sh\nexport PATH=/usr/bin:/bin\ncd " << folder << "\nprintf '%s" << name
        << "' '' >> calls\nfor word; do printf '|%s' \"$word\" >> calls; done\necho >> calls\n. ./answer\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    if (!std::filesystem::exists(folder_.path() / "answer")) Answer("exit 0");
  }

  // `script` is the shell's: "$1" is the verb.
  void Answer(const std::string& script) { std::ofstream(folder_.path() / "answer") << script << "\n"; }

  // One line a call: "docker|stop|--timeout|120|name".
  std::vector<std::string> Calls() const {
    std::vector<std::string> calls;
    std::ifstream file(folder_.path() / "calls");
    for (std::string line; std::getline(file, line);) calls.push_back(line);
    return calls;
  }

  std::string Read(const std::string& name) const {
    std::ifstream file(folder_.path() / name, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  ScopedVariable path_;
};

}  // namespace sightline
