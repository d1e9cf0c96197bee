// Finds the verb that a command line asks for. CLI11 does the parsing, behind this door and OptionSet's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "cli/completion.h"
#include "cli/verb.h"

namespace sightline {

class CommandLine {
 public:
  // Of the program that the user called: CurrentPersona.
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Either a verb to run, with its options filled in, or (--help, --version) a text to print.
  struct Parsed {
    Verb* verb = nullptr;
    std::string text;
  };
  // `arguments` without the program's name. Reads no file, prints nothing; every error is kUsage and says where help
  // is. Call once.
  Result<Parsed> Parse(const std::vector<std::string>& arguments);

  // The program itself (without a name) and every verb, as declared.
  std::vector<VerbDescription> Describe() const;
  // Help of one verb, of the program for "", or an empty text where there is no such verb.
  std::string HelpText(const std::string& verb) const;

 private:
  struct State;
  // A hidden verb is found by its name and listed nowhere.
  void Add(std::unique_ptr<Verb> verb, bool hidden = false);
  void AddSightlineVerbs();
  void AddTtModelVerbs();
  tl::unexpected<Error> Refuse(const std::string& sentence, std::string param = {}) const;
  tl::unexpected<Error> RefuseVerb(const std::string& word) const;
  Status CheckOneVerb(const std::vector<std::string>& arguments) const;
  Verb* ChosenVerb() const;
  // Of a verb that wants the rest: takes `--` and what follows away.
  std::vector<std::string> TakeBehindDashes(const std::string& verb, std::vector<std::string>* words) const;
  Status CheckNothingLeft() const;

  std::unique_ptr<State> state_;
};

}  // namespace sightline
