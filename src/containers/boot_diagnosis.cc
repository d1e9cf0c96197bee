#include <fmt/format.h>

#include <algorithm>

#include "containers/boot_stages.h"

namespace sightline {
namespace {

constexpr size_t kMaxEvidence = 120;  // characters
constexpr size_t kLastLines = 8;

using Signs = std::vector<std::string_view>;

// The last line that has one of the signs, of the causes and then of the tail; empty when there is none.
std::string FindLine(const BootTracker& tracker, const Signs& signs) {
  const auto matches = [&signs](const std::string& line) {
    return std::any_of(signs.begin(), signs.end(),
                       [&line](std::string_view sign) { return line.find(sign) != std::string::npos; });
  };
  for (const auto* lines : {&tracker.causes(), &tracker.tail()}) {
    const auto found = std::find_if(lines->rbegin(), lines->rend(), matches);
    if (found != lines->rend()) return *found;
  }
  return {};
}

std::string Shortened(std::string text) {
  size_t bytes = 0, characters = 0;
  for (; bytes < text.size(); ++bytes) {
    const bool begins = (static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80;
    if (begins && ++characters > kMaxEvidence) break;
  }
  return bytes < text.size() ? text.substr(0, bytes) : text;
}

// The last line that looks like an error, else the last one that says anything.
std::string LastErrorLine(const BootTracker& tracker) {
  for (auto line = tracker.tail().rbegin(); line != tracker.tail().rend(); ++line) {
    if (NamesACause(*line)) return *line;
  }
  if (!tracker.causes().empty()) return tracker.causes().back();
  for (auto line = tracker.tail().rbegin(); line != tracker.tail().rend(); ++line) {
    if (!CleanLine(*line).empty()) return *line;
  }
  return {};
}

// "[Errno 98] ... ('0.0.0.0', 20001): address already in use": 20001. The last number of two to five digits that stands
// behind a colon, a comma or the word port.
std::string PortIn(std::string_view line) {
  std::string port;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (!digit) continue;
    size_t end = i;
    while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
    const std::string_view before = line.substr(0, i);
    const bool named = before.ends_with(':') || before.ends_with(", ") || before.ends_with("port ");
    const bool time = end < line.size() && line[end] == ':';
    if (named && !time && end - i >= 2 && end - i <= 5) port = line.substr(i, end - i);
    i = end;
  }
  return port;
}

// The flags of the user that the line speaks of.
std::string RejectedFlags(std::string_view line, const std::vector<std::string>& passed) {
  std::string flags;
  for (const std::string& argument : passed) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("-") || line.find(flag) == std::string_view::npos) continue;
    flags += (flags.empty() ? "" : " ") + flag;
  }
  return flags;
}

std::string Minutes(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return seconds < 120 ? fmt::format("{} s", seconds) : fmt::format("{} min", seconds / 60);
}

void DescribeTimeout(const BootTracker& tracker, const BootEnd& end, const BootQuestion& question,
                     BootDiagnosis* diagnosis) {
  diagnosis->failure = BootFailure::kNotReady;
  diagnosis->title = question.name + " — did not report ready";
  const BootStage* stage = tracker.active();
  diagnosis->detail = fmt::format("The server did not report ready within {}{}.", Minutes(end.elapsed),
                                  stage == nullptr ? "" : ", it was " + stage->active_label);
  diagnosis->consequence = "The container is still running and may become ready yet.";
  diagnosis->actions = {fmt::format("{} logs {} --follow", question.verb, question.target),
                        fmt::format("{} stop {}", question.verb, question.target),
                        "TT_MODEL_READY_TIMEOUT=SECONDS allows more time"};
}

void DescribeFlag(const std::string& line, const BootQuestion& question, BootDiagnosis* diagnosis) {
  const std::string flags = RejectedFlags(line, question.passed_arguments);
  const std::string shown = flags.empty() ? fmt::format("{}", fmt::join(question.passed_arguments, " ")) : flags;
  diagnosis->failure = BootFailure::kFlagRejected;
  diagnosis->title = fmt::format("{} — the server does not know {}", question.name, shown);
  diagnosis->detail = fmt::format("{} was passed on to the server, which refused it.", shown);
  diagnosis->actions = {fmt::format("serve {} again without {}", question.target, shown),
                        fmt::format("{} serve --help lists the flags of its own", question.verb)};
}

void DescribeDevice(const BootQuestion& question, BootDiagnosis* diagnosis) {
  diagnosis->failure = BootFailure::kDeviceHeld;
  diagnosis->title = question.name + " — the device is held by something else";
  diagnosis->detail = "Another process, or what an ended one left behind, holds the Tenstorrent device.";
  diagnosis->actions = {"end other programs that use the card (sudo lsof /dev/tenstorrent/*)",
                        "reset it with tt-smi -r; when that does not help, reboot the host"};
}

void DescribePort(const std::string& line, const BootQuestion& question, BootDiagnosis* diagnosis) {
  const std::string port = PortIn(line);
  diagnosis->failure = BootFailure::kPortTaken;
  diagnosis->title = fmt::format("{} — port {} is taken", question.name, port.empty() ? "of the server" : port);
  diagnosis->detail = "Something else on this machine listens there already.";
  diagnosis->actions = {fmt::format("{} serve {} --port N, with a free port", question.verb, question.target)};
}

void DescribeExit(const BootEnd& end, const BootQuestion& question, BootDiagnosis* diagnosis) {
  diagnosis->title = question.name + " — the server exited while starting";
  diagnosis->detail =
      fmt::format("The container ended with exit code {} after {}.", end.exit_code, Minutes(end.elapsed));
  diagnosis->actions = {fmt::format("read the whole log: {} logs {}", question.verb, question.target),
                        fmt::format("{} serve {} to try again", question.verb, question.target)};
}

}  // namespace

BootDiagnosis DiagnoseBoot(const BootTracker& tracker, const BootEnd& end, const BootQuestion& question) {
  BootDiagnosis diagnosis;
  diagnosis.consequence = "The container has stopped; nothing is being served.";
  const bool passed = !question.passed_arguments.empty();
  const std::string flag =
      passed ? FindLine(tracker, {"unrecognized arguments", "error: argument", "no such option", "No such option"})
             : "";
  const std::string device =
      FindLine(tracker, {"Sysmem mapped at unexpected NOC address", "CHIP_IN_USE", "stale process holding"});
  const std::string port = FindLine(tracker, {"Address already in use", "address already in use"});
  std::string evidence;
  if (end.kind != BootEndKind::kExited) {
    DescribeTimeout(tracker, end, question, &diagnosis);
  } else if (evidence = flag; !flag.empty()) {
    DescribeFlag(flag, question, &diagnosis);
  } else if (evidence = device; !device.empty()) {
    DescribeDevice(question, &diagnosis);
  } else if (evidence = port; !port.empty()) {
    DescribePort(port, question, &diagnosis);
  } else {
    DescribeExit(end, question, &diagnosis);
  }
  if (evidence.empty()) evidence = LastErrorLine(tracker);
  diagnosis.evidence = Shortened(CleanLine(evidence));
  const auto& tail = tracker.tail();
  const size_t kept = std::min(kLastLines, tail.size());
  for (size_t i = tail.size() - kept; i < tail.size(); ++i) diagnosis.last_lines.push_back(CleanLine(tail[i]));
  return diagnosis;
}

}  // namespace sightline
