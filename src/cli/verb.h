// A verb of the command line, as `sightline VERB ...`. A new one is a class in a file of its own and a line in
// CommandLine's constructor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "cli/options.h"

namespace sightline {

struct VerbText {
  std::string name;
  std::string help;     // one line
  std::string example;  // command lines to copy, each on its own line
  std::string footer;   // below the options; may be empty
};

class Verb {
 public:
  virtual ~Verb() = default;
  virtual VerbText text() const = 0;
  virtual void Declare(OptionSet& options) = 0;
  // Whether options and words that nothing declared takes are welcome; else the command line is refused for them.
  virtual bool wants_rest() const { return false; }
  // Before Check: these, in their order, and all that stands behind --.
  virtual void TakeRest(std::vector<std::string> /*rest*/) {}
  // After parsing: what single options cannot check. Pure.
  virtual Status Check() { return {}; }
  // How much of the log goes to standard error while this runs.
  virtual LogLevel log_level() const { return LogLevel::kQuiet; }
  // Does the work; returns the exit code, or the error that ended it.
  virtual Result<int> Run() = 0;
};

std::unique_ptr<Verb> MakeGazeVerb();
std::unique_ptr<Verb> MakeLocateVerb();
std::unique_ptr<Verb> MakeServeVerb();
std::unique_ptr<Verb> MakeSmokeTestVerb();
std::unique_ptr<Verb> MakeSynthVerb();
std::unique_ptr<Verb> MakeExtractLlmVerb();
std::unique_ptr<Verb> MakeTokenizeVerb();
std::unique_ptr<Verb> MakeBenchVerb();
std::unique_ptr<Verb> MakeVerifyVerb();
std::unique_ptr<Verb> MakeServePackageVerb();
std::unique_ptr<Verb> MakeStopVerb();
std::unique_ptr<Verb> MakeLogsVerb();
std::unique_ptr<Verb> MakePsVerb();
std::unique_ptr<Verb> MakeProfilesVerb();
std::unique_ptr<Verb> MakeCurlVerb();
std::unique_ptr<Verb> MakeVersionVerb();

}  // namespace sightline
