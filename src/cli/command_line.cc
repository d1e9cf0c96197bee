#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/help.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

constexpr std::string_view kExitCodes = "exit-codes";

// Help that starts with a command to copy.
class ExampleFirst : public CLI::Formatter {
 public:
  explicit ExampleFirst(std::string example) : example_(std::move(example)) {
    label("Positionals", "Arguments");
    label("OPTIONS", "options");
    label("SUBCOMMAND", "verb");
    column_width(34);
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = fmt::format("Example:\n  {}\n\n{}", CLI::detail::find_and_replace(example_, "\n", "\n  "),
                                   CLI::Formatter::make_help(app, std::move(name), mode));
    for (size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  }
  std::string make_description(const CLI::App* app) const override { return app->get_description() + ".\n\n"; }

 private:
  std::string example_;
};

// Prints a completion script for the command line it belongs to.
class CompletionVerb : public Verb {
 public:
  explicit CompletionVerb(const CommandLine& line) : line_(line) {}
  VerbText text() const override {
    return {"completion", "Print a completion script for a shell", "source <(sightline completion bash)", ""};
  }
  void Declare(OptionSet& options) override {
    options.Argument("SHELL", shell_, fmt::format("{}", fmt::join(kShells, "|")), "whose script to print");
  }
  Status Check() override {
    if (std::find(std::begin(kShells), std::end(kShells), shell_) != std::end(kShells)) return {};
    return Fail(Code::kUsage, fmt::format("SHELL is '{}', expected one of {}", shell_, fmt::join(kShells, ", ")));
  }
  Result<int> Run() override {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string script, CompletionScript(shell_, line_.Describe()));
    Print(script);
    return 0;
  }

 private:
  const CommandLine& line_;
  std::string shell_;
};

// Prints help on a verb or on exit codes.
class HelpVerb : public Verb {
 public:
  HelpVerb(const CommandLine& line, std::vector<std::string> topics) : line_(line), topics_(std::move(topics)) {
    topics_.emplace_back("help");
    topics_.emplace_back(kExitCodes);
  }
  VerbText text() const override {
    return {"help", "Explain a verb, or the exit codes", "sightline help exit-codes", ""};
  }
  void Declare(OptionSet& options) override {
    options.Argument("TOPIC", topic_, fmt::format("{}", fmt::join(topics_, "|")), "what to explain");
  }
  Status Check() override {
    if (topic_.empty() || std::find(topics_.begin(), topics_.end(), topic_) != topics_.end()) return {};
    return Fail(Code::kUsage, fmt::format("TOPIC is '{}', expected one of {}", topic_, fmt::join(topics_, ", ")));
  }
  Result<int> Run() override {
    Print(topic_ == kExitCodes ? ExitCodesText() : line_.HelpText(topic_));
    return 0;
  }

 private:
  const CommandLine& line_;
  std::vector<std::string> topics_;
  std::string topic_;
};

// CLI11 says "--box: 1 required FOLDER missing" and "toy was given a disallowed flag override".
std::string MismatchText(const std::string& text) {
  if (const size_t colon = text.find(": "); colon != std::string::npos) return text.substr(0, colon) + " needs a value";
  return fmt::format("--{} takes no value", text.substr(0, text.find(' ')));
}

// ---- what completion needs to know, read back from CLI11

ValueDescription DescribeValue(const CLI::Option& option) {
  using Kind = ValueDescription::Kind;
  if (option.get_type_size() == 0 || option.get_type_name().empty()) return {};
  const std::string type = option.get_type_name();
  if (type == "FILE") return {Kind::kFile, {}};
  if (type == "FOLDER") return {Kind::kFolder, {}};
  if (type.find('|') == std::string::npos && !option.get_positional()) return {Kind::kAny, {}};
  return {Kind::kChoice, CLI::detail::split(type, '|')};
}

OptionDescription DescribeOption(const CLI::Option& option) {
  OptionDescription description;
  for (const std::string& name : option.get_snames()) description.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) description.names.push_back("--" + name);
  description.help = option.get_description();
  description.value = DescribeValue(option);
  return description;
}

VerbDescription DescribeApp(const CLI::App& app, std::string name) {
  VerbDescription verb{std::move(name), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_positional()) {
      if (verb.argument.kind == ValueDescription::Kind::kNothing) verb.argument = DescribeValue(*option);
    } else {
      verb.options.push_back(DescribeOption(*option));
    }
  }
  return verb;
}

}  // namespace

struct CommandLine::State {
  CLI::App app{"Say where people in a picture look, and where things are", "sightline"};
  std::vector<std::unique_ptr<Verb>> verbs;
  std::vector<std::string> names;

  const CLI::App* Chosen() const {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    return chosen.empty() ? nullptr : chosen.front();
  }
};

CommandLine::CommandLine() : state_(std::make_unique<State>()) {
  CLI::App& app = state_->app;
  app.formatter(std::make_shared<ExampleFirst>("sightline gaze photo.jpg --detect-heads --overlay out.png"));
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", fmt::format("sightline {}", Version()), "print the version");
  app.footer("More: sightline help VERB, sightline help exit-codes");
  app.require_subcommand(0, 1);
  app.allow_extras();
  Add(MakeGazeVerb());
  Add(MakeLocateVerb());
  Add(MakeServeVerb());
  Add(MakeSmokeTestVerb());
  Add(MakeSynthVerb());
  Add(MakeExtractLlmVerb());
  Add(MakeTokenizeVerb());
  Add(MakeBenchVerb());
  Add(MakeVerifyVerb());
  Add(std::make_unique<CompletionVerb>(*this));
  Add(std::make_unique<HelpVerb>(*this, state_->names));
}

CommandLine::~CommandLine() = default;

void CommandLine::Add(std::unique_ptr<Verb> verb) {
  const VerbText text = verb->text();
  CLI::App& app = *state_->app.add_subcommand(text.name, text.help);
  app.group("Verbs");
  app.formatter(std::make_shared<ExampleFirst>(text.example));
  app.footer(text.footer);
  app.allow_extras();
  OptionSet options(app);
  verb->Declare(options);
  state_->names.push_back(text.name);
  state_->verbs.push_back(std::move(verb));
}

tl::unexpected<Error> CommandLine::Refuse(const std::string& sentence, std::string param) const {
  const CLI::App* chosen = state_->Chosen();
  const std::string verb = chosen == nullptr ? "" : " " + chosen->get_name();
  return Fail(Code::kUsage, fmt::format("{} (see sightline{} --help)", sentence, verb), std::move(param));
}

Status CommandLine::CheckNothingLeft() const {
  const CLI::App* chosen = state_->Chosen();
  std::vector<std::string> left = chosen == nullptr ? state_->app.remaining() : chosen->remaining();
  std::erase(left, "--");  // CLI11 has heeded it
  const std::string verbs = fmt::format("{}", fmt::join(state_->names, ", "));
  if (chosen == nullptr && left.empty()) return Refuse(fmt::format("no verb is given, expected one of {}", verbs));
  if (left.empty()) return {};
  if (chosen == nullptr && !left.front().starts_with("-")) {
    return Refuse(fmt::format("'{}' is no verb, expected one of {}", left.front(), verbs));
  }
  const bool option = chosen != nullptr && left.front().starts_with("-");
  return Refuse(fmt::format("'{}' is not understood here{}", left.front(),
                            option ? "; an argument that begins with - goes behind --" : ""));
}

Result<CommandLine::Parsed> CommandLine::Parse(const std::vector<std::string>& arguments) {
  try {
    state_->app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes from the back
  } catch (const CLI::CallForHelp&) {
    return Parsed{nullptr, state_->app.help()};
  } catch (const CLI::CallForVersion&) {
    return Parsed{nullptr, state_->app.version() + "\n"};
  } catch (const CLI::ArgumentMismatch& mismatch) {
    return Refuse(MismatchText(mismatch.what()));
  } catch (const CLI::Error& error) {
    return Refuse(error.what());
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckNothingLeft());
  const auto chosen = std::find(state_->names.begin(), state_->names.end(), state_->Chosen()->get_name());
  Verb* verb = state_->verbs[static_cast<size_t>(chosen - state_->names.begin())].get();
  if (const Status checked = verb->Check(); !checked) return Refuse(checked.error().message, checked.error().param);
  return Parsed{verb, {}};
}

std::vector<VerbDescription> CommandLine::Describe() const {
  std::vector<VerbDescription> verbs{DescribeApp(state_->app, "")};
  verbs.front().argument = {ValueDescription::Kind::kChoice, state_->names};
  for (const CLI::App* app : state_->app.get_subcommands({})) verbs.push_back(DescribeApp(*app, app->get_name()));
  return verbs;
}

std::string CommandLine::HelpText(const std::string& verb) const {
  const auto text = [](const CLI::App& app, const std::string& name) {
    return app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal);
  };
  if (verb.empty()) return text(state_->app, "sightline");
  for (const CLI::App* app : state_->app.get_subcommands({})) {
    if (app->get_name() == verb) return text(*app, "sightline " + verb);
  }
  return {};
}

}  // namespace sightline
