#include "containers/engine_failure.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "containers/log_lines.h"

namespace sightline {
namespace {

constexpr size_t kMaxShown = 400;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// What podman asks for by default is over the hard limits of machines that may not raise them. The numbers are ones
// that such a machine grants.
std::string LimitRemedy() {
  rlimit files{}, processes{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_NPROC, &processes);
  const auto at_most = [](rlim_t most, rlim_t limit) { return limit == RLIM_INFINITY ? most : std::min(most, limit); };
  const auto nofile = at_most(65536, files.rlim_max);
  const auto nproc = at_most(32768, processes.rlim_max);
  return fmt::format("set SIGHTLINE_CONTAINER_RUN_ARGS=\"--ulimit nofile={0}:{0} --ulimit nproc={1}:{1}\"", nofile,
                     nproc);
}

struct Failure {
  std::initializer_list<std::string_view> signs;  // any of them, in lower case
  Code code;
  std::string_view cause;
  std::string_view remedy;
};

// Looked through in order: what is more special stands first.
const Failure kFailures[] = {
    {{"cannot connect to the docker daemon", "is the docker daemon running", "cannot connect to podman",
      "unable to connect to podman"},
     Code::kUnreachable,
     "its daemon does not answer",
     "start it (sudo systemctl start docker), or set SIGHTLINE_CONTAINER_ENGINE=podman"},
    {{"permission denied while trying to connect"},
     Code::kNoPermission,
     "this user may not talk to its daemon",
     "add the user to the group docker (sudo usermod -aG docker $USER) and log in again"},
    {{"cgroups in hybrid mode not supported"},
     Code::kUnsupported,
     "the OCI runtime crun does not work with this machine's cgroups, which mix versions 1 and 2",
     "install runc and set SIGHTLINE_CONTAINER_ARGS=\"--runtime runc\""},
    {{"oci runtime \"crun\" not found", "oci runtime \"runc\" not found", "no oci runtime"},
     Code::kUnsupported,
     "the OCI runtime it was told to use is not installed",
     "install runc and set SIGHTLINE_CONTAINER_ARGS=\"--runtime runc\""},
    {{"slirp4netns", "netavark", "aardvark", "pasta", "failed to find plugin", "plugin type=\"bridge\""},
     Code::kUnsupported,
     "it cannot make a network for the container on this machine",
     "set SIGHTLINE_CONTAINER_RUN_ARGS=\"--network host\""},
    {{"exec format error", "does not match the specified platform", "no matching manifest for"},
     Code::kUnsupported,
     "the image is made for another processor than this machine has",
     "use an image for this architecture, or run the package natively"},
    {{"port is already allocated", "address already in use", "ports are not available", "failed to bind host port"},
     Code::kUnsupported,
     "the port is taken on this machine",
     "choose another with --port, or stop what listens there"},
    {{"is already in use by", "name is already in use"},
     Code::kBusy,
     "a container of this name exists already",
     "stop it first"},
    {{"error gathering device information", "no such device", "error: stat /dev/"},
     Code::kDeviceLost,
     "a device that the container needs is not there",
     "check the card and its driver (ls /dev/tenstorrent)"},
    {{"bind source path does not exist", "invalid mount config", "statfs ", "error mounting"},
     Code::kNotFound,
     "a folder that the container needs cannot be mounted",
     "check that it exists"},
    {{"no space left on device"}, Code::kNoSpace, "the disk is full", "make room, for example by removing images"},
    {{"toomanyrequests", "rate limit"}, Code::kBusy, "the registry refuses so many requests", "wait, or log in to it"},
    {{"no such image", "unable to find image", "image not known", "pull access denied", "manifest unknown",
      "unable to find user-specified image", "short-name"},
     Code::kNotFound,
     "the image is not there",
     "pull the package again"},
    {{"no such container", "no container with name"}, Code::kNotFound, "there is no such container", ""},
    {{"no such host", "i/o timeout", "connection refused", "network is unreachable"},
     Code::kUnreachable,
     "the registry cannot be reached",
     "check the network and its proxy"},
};

bool Contains(const std::string& text, const Failure& failure) {
  return std::any_of(failure.signs.begin(), failure.signs.end(),
                     [&text](std::string_view sign) { return text.find(sign) != std::string::npos; });
}

Error Sentence(const std::string& what, Code code, std::string_view cause, const std::string& remedy,
               const std::string& said) {
  std::string sentence = fmt::format("{}: {}", what, cause);
  if (!remedy.empty()) sentence += "; " + remedy;
  if (!said.empty()) sentence += fmt::format(" (it said: {})", said);
  return Error{code, std::move(sentence), {}};
}

}  // namespace

std::string LastLine(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = text.find_last_of("\r\n");
    std::string_view line = begin == std::string_view::npos ? text : text.substr(begin + 1);
    text = begin == std::string_view::npos ? std::string_view() : text.substr(0, begin);
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    std::string shown = ReplaceInvalidUtf8(line.substr(first, kMaxShown));
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return shown;
  }
  return {};
}

bool EngineIsUnusable(const ProcessOutput& output) {
  const std::string text = LowerCase(output.standard_error);
  return Contains(text, kFailures[0]) || Contains(text, kFailures[1]);
}

Error ExplainEngineFailure(const std::string& what, const ProcessOutput& output) {
  const std::string text = LowerCase(output.standard_error + "\n" + output.standard_output);
  std::string said = LastLine(output.standard_error);
  if (said == "See 'docker run --help'." || said.rfind("Run 'docker", 0) == 0) {
    said = LastLine(std::string_view(output.standard_error).substr(0, output.standard_error.rfind(said)));
  }
  if (said.empty()) said = LastLine(output.standard_output);
  if (text.find("rlimit") != std::string::npos) {
    return Sentence(what, Code::kUnsupported, "this machine does not grant the limits that the engine sets by default",
                    LimitRemedy(), said);
  }
  for (const Failure& failure : kFailures) {
    if (Contains(text, failure)) return Sentence(what, failure.code, failure.cause, std::string(failure.remedy), said);
  }
  return Sentence(what, Code::kInternal, fmt::format("failed with exit code {}", output.exit_code), {}, said);
}

}  // namespace sightline
