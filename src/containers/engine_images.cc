// Images of the engine.
#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <mutex>

#include "containers/child_process.h"
#include "containers/engine_calls.h"
#include "containers/engine_failure.h"
#include "containers/log_lines.h"

namespace sightline {
namespace {

using Wake = ChildProcess::Wake;

constexpr size_t kPieceBytes = 256 * 1024;
constexpr size_t kKeptBytes = 16 * 1024;  // of a long output, for the sentence of an error

// podman leaves the algorithm out.
std::string WithAlgorithm(std::string id) { return id.starts_with("sha256:") || id.empty() ? id : "sha256:" + id; }

// Streams a command whose last lines are the reason when it fails.
Status StreamCommand(const ContainerEngine& engine, std::vector<std::string> arguments, const ProcessLimits& limits,
                     const std::function<void(std::string_view)>& line) {
  const std::string what = WhatOf(engine, arguments);
  std::string tail;
  const auto keep = [&](std::string_view text) {
    tail.append(text).append("\n");
    if (tail.size() > 2 * kKeptBytes) tail.erase(0, tail.size() - kKeptBytes);
    if (line) line(text);
    return true;
  };
  const ProcessCommand command = engine.Command(std::move(arguments));
  SIGHTLINE_ASSIGN_OR_RETURN(const StreamResult result, StreamProcess(command, limits, keep));
  if (result.end == StreamEnd::kDeadline) return EndedEarly(Wake::kDeadline, command, limits);
  if (result.end == StreamEnd::kCancelled) return EndedEarly(Wake::kCancelled, command, limits);
  if (result.exit_code == 0) return {};
  return tl::make_unexpected(ExplainEngineFailure(what, {result.exit_code, {}, tail}));
}

// Why a child that should have taken or given bytes did not: the time was up, or what it says itself.
Error ExplainEnd(ChildProcess* child, Wake wake, const ContainerEngine& engine, const ProcessCommand& command,
                 const ProcessLimits& limits, const std::string& verb) {
  if (wake == Wake::kInput) wake = child->Await(ChildProcess::Wanted::kEnd);
  if (wake != Wake::kEnded) {
    child->Terminate();
    child->Reap();
    return EndedEarly(wake, command, limits).value();
  }
  const int exit_code = child->Reap();
  return ExplainEngineFailure(WhatOf(engine, {verb}), {exit_code, child->output_text(), child->error_text()});
}

std::vector<std::string> LoadedReferences(const std::string& said) {
  std::vector<std::string> references;
  for (const std::string& line : LinesOf(said)) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("Loaded image") || colon == std::string::npos) continue;
    for (const std::string& reference : SplitAt(line.substr(colon + 2), ',')) references.push_back(reference);
  }
  return references;
}

}  // namespace

bool ImageIsCurrent(const ImageIdentity& identity) {
  if (identity.present_id.empty()) return false;
  if (identity.package_digest.empty() || identity.present_id == identity.package_digest) return true;
  return identity.index_digest == identity.package_digest && identity.index_loaded_id == identity.present_id;
}

Result<std::optional<std::string>> ContainerEngine::ImageId(const std::string& reference) const {
  SIGHTLINE_ASSIGN_OR_RETURN(auto said, AskAbout(*this, {"image", "inspect", "--format", "{{.Id}}", reference}));
  if (!said || said->empty()) return std::optional<std::string>();
  return std::optional(WithAlgorithm(std::move(*said)));
}

Result<uint64_t> ContainerEngine::ImageBytes(const std::string& reference) const {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string said,
                             Ask(*this, {"image", "inspect", "--format", "{{.Size}}", reference}, QuickLimits()));
  uint64_t bytes = 0;
  const auto [end, problem] = std::from_chars(said.data(), said.data() + said.size(), bytes);
  if (problem == std::errc() && end == said.data() + said.size()) return bytes;
  return Fail(Code::kInternal, fmt::format("{}: the size of {} is '{}', expected a number", WhatOf(*this, {"image"}),
                                           reference, LastLine(said)));
}

Status ContainerEngine::Tag(const std::string& reference, const std::string& new_reference) const {
  SIGHTLINE_RETURN_IF_ERROR(Ask(*this, {"tag", reference, new_reference}, QuickLimits()));
  return {};
}

Status ContainerEngine::RemoveImage(const std::string& reference) const {
  SIGHTLINE_RETURN_IF_ERROR(Ask(*this, {"image", "rm", reference}, QuickLimits()));
  return {};
}

Status ContainerEngine::Pull(const std::string& reference, const LineCallback& line,
                             const ProcessLimits& limits) const {
  return StreamCommand(*this, {"pull", reference}, limits, line);
}

Status ContainerEngine::Build(const std::vector<std::string>& arguments, const std::filesystem::path& log_file,
                              const LineCallback& line, const ProcessLimits& limits) const {
  std::vector<std::string> all{"build"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::FILE* log = std::fopen(log_file.c_str(), "we");
  if (log == nullptr) return tl::make_unexpected(ErrnoError("write", log_file, errno));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closed(log, std::fclose);
  const auto write = [log](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), log);
    return std::fputc('\n', log) != EOF && std::fflush(log) == 0;  // people follow the file
  };
  if (!write(fmt::format("+ {}", fmt::join(Command(all).arguments, " ")))) {
    return tl::make_unexpected(ErrnoError("write", log_file, errno));
  }
  auto status = StreamCommand(*this, all, limits, [&](std::string_view text) {
    write(text);
    if (line) line(text);
  });
  if (!status) status.error().message += fmt::format("; the whole output is in {}", log_file.string());
  return status;
}

Result<std::vector<std::string>> ContainerEngine::Load(const std::function<Status(ByteSink sink)>& produce,
                                                       const ProcessLimits& limits) const {
  const ProcessCommand command = Command({"load"});
  SIGHTLINE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command, limits, ChildProcess::Input::kPipe,
                                                                     ChildProcess::Output::kSeparate));
  Wake wake = Wake::kInput;
  bool refused = false;  // by the engine, and no fault of `produce`
  const auto sink = [&](std::span<const std::byte> bytes) -> Status {
    while (!bytes.empty() && !refused) {
      wake = child.Await(ChildProcess::Wanted::kInput);
      const auto written = wake == Wake::kInput ? child.Write(bytes) : Fail(Code::kInternal, "");
      refused = !written.has_value();
      if (!refused) bytes = bytes.subspan(*written);
    }
    return refused ? Status(Fail(Code::kInternal, "the engine takes no more of the image")) : Status();
  };
  const Status produced = produce(sink);
  if (!produced && !refused) {
    child.Terminate();
    child.Reap();
    return tl::make_unexpected(produced.error());
  }
  child.CloseInput();
  if (!refused) wake = child.Await(ChildProcess::Wanted::kEnd);
  if (refused || wake != Wake::kEnded) {
    return tl::make_unexpected(ExplainEnd(&child, wake, *this, command, limits, "load"));
  }
  const ProcessOutput output{child.Reap(), child.output_text(), child.error_text()};
  if (output.exit_code != 0) return tl::make_unexpected(ExplainEngineFailure(WhatOf(*this, {"load"}), output));
  return LoadedReferences(output.standard_output);
}

Status ContainerEngine::Save(const std::string& reference, const std::function<Status(ByteSource source)>& consume,
                             const ProcessLimits& limits) const {
  std::vector<std::string> arguments{"save"};
  if (kind_ == EngineKind::kPodman) arguments.insert(arguments.end(), {"--format", "oci-archive"});
  arguments.push_back(reference);
  const ProcessCommand command = Command(std::move(arguments));
  SIGHTLINE_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command, limits, ChildProcess::Input::kNothing,
                                                                     ChildProcess::Output::kSeparate));
  Wake wake = Wake::kOutput;
  const auto source = [&](std::span<std::byte> bytes) -> Result<size_t> {
    while ((wake = child.Await(ChildProcess::Wanted::kOutput)) == Wake::kOutput) {
      if (const size_t count = child.Read(bytes); count > 0) return count;
    }
    if (wake == Wake::kEnded) return size_t{0};
    return EndedEarly(wake, command, limits);
  };
  const Status consumed = consume(source);
  if (consumed) {  // what stands behind the end of the archive
    std::vector<std::byte> rest(kPieceBytes);
    for (auto count = Result<size_t>(1); count && *count > 0;) count = source(rest);
  }
  if (wake != Wake::kEnded) {
    child.Terminate();
    child.Reap();
    return consumed ? Status(EndedEarly(wake, command, limits)) : consumed;
  }
  // An engine that fails writes a broken archive, or none: its own words say why.
  const ProcessOutput output{child.Reap(), {}, child.error_text()};
  if (output.exit_code != 0) return tl::make_unexpected(ExplainEngineFailure(WhatOf(*this, {"save"}), output));
  return consumed;
}

}  // namespace sightline
