#include "cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/base.h"
#include "cli/command_line.h"
#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/terminal.h"
#include "server/server.h"

namespace sightline {
namespace {

// CLI11 would take "-5,0,10,10" or "-.5,..." for options: the value is tied to its --box.
std::vector<std::string> TieBoxes(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    if (!arguments.empty() && arguments.back() == "--box") {
      arguments.back().append("=").append(argv[i]);
    } else {
      arguments.emplace_back(argv[i]);
    }
  }
  return arguments;
}

// `understood` becomes true when the command line makes sense.
Result<int> Run(const std::vector<std::string>& arguments, bool* understood) {
  CommandLine line;
  SIGHTLINE_ASSIGN_OR_RETURN(const CommandLine::Parsed parsed, line.Parse(arguments));
  *understood = true;
  if (parsed.verb == nullptr) {
    Print(parsed.text);
    return 0;
  }
  SetUpLogging(parsed.verb->log_level());
  return parsed.verb->Run();
}

// What a library throws past its door is a failure like any other.
Result<int> RunGuarded(const std::vector<std::string>& arguments, bool* understood) {
  try {
    return Run(arguments, understood);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kOutOfMemory, "not enough memory for this");
  } catch (const std::exception& failure) {
    return Fail(Code::kInternal, fmt::format("a fault of the program: {}", failure.what()));
  }
}

// tt-model knows 2 for a command line that makes no sense, 130 for an interruption, and 1 for all the rest.
int ExitCode(const Error& error, bool understood) {
  if (error.code == Code::kCancelled) return InterruptedExit();
  const bool own = CurrentPersona() == Persona::kSightline || !understood;
  return own ? Describe(error.code).exit_code : 1;
}

int Report(const Error& error, const std::vector<std::string>& arguments, bool understood) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  if (json) Print(ErrorDocument(error, "", false) + "\n");
  PrintError(error.message);
  return ExitCode(error, understood);
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has seen enough ends us quietly, even where our parent ignores it
  bool deprecated_name = false, understood = false;
  SetPersona(PersonaOf(argc > 0 ? argv[0] : "", &deprecated_name));
  if (deprecated_name) PrintNote("tt-kernel is called tt-model now; the old name will go");
  const std::vector<std::string> arguments = TieBoxes(argc, argv);
  const Result<int> outcome = RunGuarded(arguments, &understood);
  const int exit_code = outcome ? *outcome : Report(outcome.error(), arguments, understood);
  if (const Status flushed = FlushOutput(); !flushed) {
    PrintError(flushed.error().message);
    return exit_code != 0 ? exit_code : Describe(flushed.error().code).exit_code;
  }
  return exit_code;
}

}  // namespace sightline
