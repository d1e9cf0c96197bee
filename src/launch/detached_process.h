// A program that goes on when we end.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/base.h"
#include "launch/process_identity.h"

namespace sightline {

struct DetachedCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;           // its name first
  std::vector<std::string> hidden_variables{};  // of our environment, which it does not get
  std::filesystem::path log;                    // gets what it writes; appended to
};

// Starts it in a session of its own, with nothing on standard input. `announce` is called with its identity before the
// program begins: what it writes down is there whatever becomes of us. Where it fails, or where we are killed before it
// has returned, the program never begins. The process is our child: reap it with ReapIfEnded while we live.
Result<ProcessIdentity> StartDetached(const DetachedCommand& command,
                                      const std::function<Status(const ProcessIdentity&)>& announce);

// The exit code of a child that has ended, 128 + the signal; nothing while it runs or when it is no child of ours.
std::optional<int> ReapIfEnded(pid_t pid);

}  // namespace sightline
