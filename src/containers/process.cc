#include "containers/child_process.h"
#include "containers/log_lines.h"

namespace sightline {
namespace {

using Wake = ChildProcess::Wake;

constexpr size_t kPieceBytes = 64 * 1024;

}  // namespace

Result<ProcessOutput> RunProcess(const ProcessCommand& command, const ProcessLimits& limits) {
  SIGHTLINE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command, limits, ChildProcess::Input::kNothing,
                                                                     ChildProcess::Output::kSeparate));
  const Wake wake = child.Await(ChildProcess::Wanted::kEnd);
  if (wake != Wake::kEnded) {
    child.Terminate();
    child.Reap();
    return EndedEarly(wake, command, limits);
  }
  const int exit_code = child.Reap();
  return ProcessOutput{exit_code, std::move(child.output_text()), std::move(child.error_text())};
}

Result<StreamResult> StreamProcess(const ProcessCommand& command, const ProcessLimits& limits,
                                   const std::function<bool(std::string_view line)>& line) {
  SIGHTLINE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command, limits, ChildProcess::Input::kNothing,
                                                                     ChildProcess::Output::kMerged));
  LineSplitter splitter(line);
  std::vector<std::byte> piece(kPieceBytes);
  Wake wake = Wake::kOutput;
  bool wants_more = true;
  while (wants_more && (wake = child.Await(ChildProcess::Wanted::kOutput)) == Wake::kOutput) {
    wants_more = splitter.Feed(std::span(piece.data(), child.Read(piece)));
  }
  if (wants_more && wake == Wake::kEnded) wants_more = splitter.End();
  if (wake != Wake::kEnded) child.Terminate();
  const int exit_code = child.Reap();
  if (!wants_more) return StreamResult{StreamEnd::kSatisfied, 0};
  if (wake == Wake::kEnded) return StreamResult{StreamEnd::kExited, exit_code};
  return StreamResult{wake == Wake::kDeadline ? StreamEnd::kDeadline : StreamEnd::kCancelled, 0};
}

}  // namespace sightline
