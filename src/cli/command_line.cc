#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/help.h"
#include "cli/persona.h"
#include "cli/serve_package.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"
#include "package/package.h"

namespace sightline {
namespace {

constexpr std::string_view kExitCodes = "exit-codes";
constexpr char kServePackage[] = "serve-package";  // the other form of serve

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
  // A list of all verbs would be no line of a help text.
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().size() > 60 ? "" : CLI::Formatter::make_option_opts(option);
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
  CLI::App app;
  std::vector<std::pair<std::string, std::unique_ptr<Verb>>> verbs;
  std::vector<std::string> names;  // of those that are not hidden

  const CLI::App* Chosen() const {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    return chosen.empty() ? nullptr : chosen.front();
  }
};

CommandLine::CommandLine() : state_(std::make_unique<State>()) {
  const bool tt_model = CurrentPersona() == Persona::kTtModel;
  CLI::App& app = state_->app;
  app.name(std::string(ProgramName()));
  app.description(tt_model ? "Pull, serve, package and publish models"
                           : "Say where people in a picture look, and where things are");
  app.formatter(std::make_shared<ExampleFirst>(tt_model ? "tt-model serve changh95/gaze-lle-p150"
                                                        : "sightline gaze photo.jpg --detect-heads --overlay out.png"));
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", (tt_model ? "" : "sightline ") + std::string(Version()), "print the version");
  app.add_flag("-v,--verbose", Globals().verbose, "every step on lines of its own")->disable_flag_override();
  app.add_flag("--no-color", Globals().no_color, "no colours, as NO_COLOR has it too")->disable_flag_override();
  app.require_subcommand(0, 1);
  app.allow_extras();
  if (tt_model) {
    AddTtModelVerbs();
  } else {
    app.footer("More: sightline help VERB, sightline help exit-codes");
    AddSightlineVerbs();
  }
}

CommandLine::~CommandLine() = default;

void CommandLine::AddSightlineVerbs() {
  Add(MakeGazeVerb());
  Add(MakeLocateVerb());
  Add(MakeServeVerb());
  Add(MakeServePackageVerb(), true);
  Add(MakeStopVerb());
  Add(MakePsVerb());
  Add(MakeLogsVerb());
  Add(MakeProfilesVerb());
  Add(MakeCurlVerb());
  for (StoreVerb& one : StoreVerbs()) Add(std::move(one.verb), one.hidden);
  Add(MakeSmokeTestVerb());
  Add(MakeSynthVerb());
  Add(MakeExtractLlmVerb());
  Add(MakeTokenizeVerb());
  Add(MakeBenchVerb());
  Add(MakeVerifyVerb());
  Add(std::make_unique<CompletionVerb>(*this));
  std::vector<std::string> topics = state_->names;
  topics.emplace_back(kServePackage);
  Add(std::make_unique<HelpVerb>(*this, std::move(topics)));
}

void CommandLine::AddTtModelVerbs() {
  Add(MakeServePackageVerb());
  Add(MakeStopVerb());
  Add(MakeLogsVerb());
  Add(MakePsVerb());
  Add(MakeProfilesVerb());
  Add(MakeCurlVerb());
  for (StoreVerb& one : StoreVerbs()) Add(std::move(one.verb), one.hidden);
  Add(MakeVersionVerb());
}

void CommandLine::Add(std::unique_ptr<Verb> verb, bool hidden) {
  const VerbText text = verb->text();
  CLI::App& app = *state_->app.add_subcommand(text.name, text.help);
  app.group(hidden ? "" : "Verbs");
  app.formatter(std::make_shared<ExampleFirst>(text.example));
  app.footer(text.footer);
  app.allow_extras();
  OptionSet options(app);
  verb->Declare(options);
  if (!hidden) state_->names.push_back(text.name);
  state_->verbs.emplace_back(text.name, std::move(verb));
}

Verb* CommandLine::ChosenVerb() const {
  const CLI::App* chosen = state_->Chosen();
  if (chosen == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(state_->verbs, [&chosen](const auto& named) { return named.first == chosen->get_name(); });
  return found->second.get();
}

tl::unexpected<Error> CommandLine::Refuse(const std::string& sentence, std::string param) const {
  const CLI::App* chosen = state_->Chosen();
  const std::string verb = chosen == nullptr ? "" : " " + chosen->get_name();
  return Fail(Code::kUsage, fmt::format("{} (see {}{} --help)", sentence, ProgramName(), verb), std::move(param));
}

tl::unexpected<Error> CommandLine::RefuseVerb(const std::string& word) const {
  const std::string near = NearestWord(word, state_->names);
  const std::string verbs = fmt::format("{}", fmt::join(state_->names, ", "));
  return Refuse(fmt::format("'{}' is no verb, expected one of {}{}", word, verbs,
                            near.empty() ? "" : fmt::format(". Did you mean: {} {}", ProgramName(), near)));
}

// "pull serve x/y": the first of two verbs was meant to be gone.
Status CommandLine::CheckOneVerb(const std::vector<std::string>& arguments) const {
  const auto is_verb = [this](const std::string& word) { return std::ranges::count(state_->names, word) > 0; };
  const auto first = std::ranges::find_if(arguments, [](const std::string& word) { return !word.starts_with("-"); });
  if (first == arguments.end() || first + 1 == arguments.end() || !is_verb(*first) || !is_verb(first[1])) return {};
  if (*first == "help") return {};
  return Fail(Code::kUsage, fmt::format("'{} {}' are two verbs in a row. Did you mean: {} {}", *first, first[1],
                                        ProgramName(), fmt::join(first + 1, arguments.end(), " ")));
}

Status CommandLine::CheckNothingLeft() const {
  const CLI::App* chosen = state_->Chosen();
  std::vector<std::string> left = chosen == nullptr ? state_->app.remaining() : chosen->remaining();
  std::erase(left, "--");  // CLI11 has heeded it
  if (chosen == nullptr && left.empty()) {
    return Refuse(fmt::format("no verb is given, expected one of {}", fmt::join(state_->names, ", ")));
  }
  if (chosen != nullptr && ChosenVerb()->wants_rest()) return {};
  if (left.empty()) return {};
  if (chosen == nullptr && !left.front().starts_with("-")) return RefuseVerb(left.front());
  const bool option = chosen != nullptr && left.front().starts_with("-");
  return Refuse(fmt::format("'{}' is not understood here{}", left.front(),
                            option ? "; an argument that begins with - goes behind --" : ""));
}

// CLI11 would look for options of the program itself there.
std::vector<std::string> CommandLine::TakeBehindDashes(const std::string& verb, std::vector<std::string>* words) const {
  const auto named = std::ranges::find_if(state_->verbs, [&verb](const auto& entry) { return entry.first == verb; });
  const auto dashes = std::ranges::find(*words, "--");
  if (named == state_->verbs.end() || !named->second->wants_rest() || dashes == words->end()) return {};
  std::vector<std::string> behind(dashes + 1, words->end());
  words->erase(dashes, words->end());
  return behind;
}

Result<CommandLine::Parsed> CommandLine::Parse(const std::vector<std::string>& given) {
  std::vector<std::string> arguments = given;
  const bool tt_model = CurrentPersona() == Persona::kTtModel;
  if (tt_model && arguments.empty()) return Parsed{nullptr, state_->app.help()};
  if (tt_model) SIGHTLINE_RETURN_IF_ERROR(CheckOneVerb(arguments));
  const auto verb_word =
      std::ranges::find_if(arguments, [](const std::string& word) { return !word.starts_with("-"); });
  if (!tt_model && verb_word != arguments.end() && *verb_word == "serve" &&
      MeansPackage({verb_word + 1, arguments.end()})) {
    *verb_word = kServePackage;
  }
  const std::vector<std::string> behind_dashes =
      verb_word == arguments.end() ? std::vector<std::string>() : TakeBehindDashes(*verb_word, &arguments);
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
  Verb* verb = ChosenVerb();
  if (verb->wants_rest()) {
    std::vector<std::string> rest = state_->Chosen()->remaining();
    rest.insert(rest.end(), behind_dashes.begin(), behind_dashes.end());
    verb->TakeRest(std::move(rest));
  }
  if (const Status checked = verb->Check(); !checked) return Refuse(checked.error().message, checked.error().param);
  return Parsed{verb, {}};
}

std::vector<VerbDescription> CommandLine::Describe() const {
  std::vector<VerbDescription> verbs{DescribeApp(state_->app, "")};
  verbs.front().argument = {ValueDescription::Kind::kChoice, state_->names};
  std::vector<OptionDescription> of_packages;
  for (const CLI::App* app : state_->app.get_subcommands({})) {
    VerbDescription verb = DescribeApp(*app, app->get_name());
    if (std::ranges::count(state_->names, verb.name) > 0) {
      verbs.push_back(std::move(verb));
    } else if (verb.name == kServePackage) {
      of_packages = std::move(verb.options);
    }
  }
  const auto serve = std::ranges::find(verbs, "serve", &VerbDescription::name);
  for (OptionDescription& option : of_packages) {
    const bool known = std::ranges::any_of(
        serve->options, [&option](const OptionDescription& other) { return other.names == option.names; });
    if (!known) serve->options.push_back(std::move(option));
  }
  return verbs;
}

std::string CommandLine::HelpText(const std::string& verb) const {
  const auto text = [](const CLI::App& app, const std::string& name) {
    return app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal);
  };
  if (verb.empty()) return text(state_->app, std::string(ProgramName()));
  for (const CLI::App* app : state_->app.get_subcommands({})) {
    if (app->get_name() == verb) return text(*app, fmt::format("{} {}", ProgramName(), verb));
  }
  return {};
}

}  // namespace sightline
