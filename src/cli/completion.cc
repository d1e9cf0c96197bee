#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sightline {
namespace {

using Kind = ValueDescription::Kind;

std::string Joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// The first line of a help text, with `special` characters left out: what the shells' own quoting would trip over.
std::string FirstLine(const std::string& help, std::string_view special) {
  std::string line;
  for (const char c : help.substr(0, help.find('\n'))) {
    if (special.find(c) == std::string_view::npos) line.push_back(c);
  }
  return line;
}

std::vector<std::string> OptionNames(const VerbDescription& verb) {
  std::vector<std::string> names;
  for (const OptionDescription& option : verb.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// ---------------------------------------------------------------------------------------------------------------------
// bash

constexpr std::string_view kBashHead = R"(# Completion of sightline for bash: source <(sightline completion bash)
_sightline() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  local words='' paths=''
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  [[ $COMP_CWORD -eq 1 ]] && verb=''
  case "$verb $previous" in
)";

constexpr std::string_view kBashTail = R"(  esac
  COMPREPLY=()
  if [[ -n $paths ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -A "$paths" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F _sightline sightline
)";

std::string BashValue(const ValueDescription& value) {
  switch (value.kind) {
    case Kind::kFile:
      return "paths=file";
    case Kind::kFolder:
      return "paths=directory";
    case Kind::kChoice:
      return fmt::format("words='{}'", Joined(value.choices));
    case Kind::kNothing:
    case Kind::kAny:
      break;
  }
  return ":";
}

std::string BashVerb(const VerbDescription& verb) {
  std::string script;
  for (const OptionDescription& option : verb.options) {
    if (option.value.kind == Kind::kNothing) continue;
    for (const std::string& name : option.names) {
      script += fmt::format("    '{} {}') {} ;;\n", verb.name, name, BashValue(option.value));
    }
  }
  const std::string options = fmt::format("words='{}'", Joined(OptionNames(verb)));
  if (verb.argument.kind == Kind::kNothing) return script + fmt::format("    '{} '*) {} ;;\n", verb.name, options);
  return script + fmt::format("    '{} '*) if [[ $current == -* ]]; then {}; else {}; fi ;;\n", verb.name, options,
                              BashValue(verb.argument));
}

std::string BashScript(const std::vector<VerbDescription>& verbs) {
  std::string script(kBashHead);
  for (const VerbDescription& verb : verbs) script += BashVerb(verb);
  return script.append(kBashTail);
}

// ---------------------------------------------------------------------------------------------------------------------
// zsh

constexpr std::string_view kZshHead = R"(#compdef sightline
# Completion of sightline for zsh: source <(sightline completion zsh)
_sightline() {
  local verb=$words[2]
  (( CURRENT == 2 )) && verb=''
  if [[ -n $verb ]]; then
    shift words
    (( CURRENT-- ))
  fi
  case $verb in
)";

constexpr std::string_view kZshTail = R"(  esac
}
if [[ $funcstack[1] == _sightline ]]; then
  _sightline "$@"
else
  compdef _sightline sightline
fi
)";

constexpr std::string_view kZshSpecial = "'[]:\\";

std::string ZshValue(const ValueDescription& value) {
  switch (value.kind) {
    case Kind::kFile:
      return "file:_files";
    case Kind::kFolder:
      return "folder:_files -/";
    case Kind::kChoice:
      return fmt::format("value:({})", Joined(value.choices));
    case Kind::kNothing:
    case Kind::kAny:
      break;
  }
  return "value: ";
}

std::string ZshOption(const OptionDescription& option) {
  std::string script;
  for (const std::string& name : option.names) {
    const std::string help = FirstLine(option.help, kZshSpecial);
    script += option.value.kind == Kind::kNothing
                  ? fmt::format(" \\\n        '{}[{}]'", name, help)
                  : fmt::format(" \\\n        '*{}=[{}]:{}'", name, help, ZshValue(option.value));
  }
  return script;
}

std::string ZshVerb(const VerbDescription& verb) {
  std::string script = fmt::format("    '{}')\n      _arguments", verb.name);
  for (const OptionDescription& option : verb.options) script += ZshOption(option);
  if (verb.argument.kind != Kind::kNothing) script += fmt::format(" \\\n        '*:{}'", ZshValue(verb.argument));
  return script + "\n      ;;\n";
}

std::string ZshScript(const std::vector<VerbDescription>& verbs) {
  std::string script(kZshHead);
  for (const VerbDescription& verb : verbs) script += ZshVerb(verb);
  return script.append(kZshTail);
}

// ---------------------------------------------------------------------------------------------------------------------
// fish

constexpr std::string_view kFishHead = R"(# Completion of sightline for fish: sightline completion fish | source
complete -c sightline -f
)";

std::string FishValue(const ValueDescription& value) {
  switch (value.kind) {
    case Kind::kFile:
      return " -r -F";
    case Kind::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Kind::kChoice:
      return fmt::format(" -x -a '{}'", Joined(value.choices));
    case Kind::kAny:
      return " -x";
    case Kind::kNothing:
      break;
  }
  return "";
}

std::string FishVerb(const VerbDescription& verb) {
  const std::string when =
      verb.name.empty() ? "__fish_use_subcommand" : fmt::format("__fish_seen_subcommand_from {}", verb.name);
  const std::string head = fmt::format("complete -c sightline -n '{}'", when);
  std::string script;
  if (!verb.name.empty()) {
    script += fmt::format("complete -c sightline -n __fish_use_subcommand -a {} -d '{}'\n", verb.name,
                          FirstLine(verb.help, "'\\"));
  }
  for (const OptionDescription& option : verb.options) {
    script += head;
    for (const std::string& name : option.names) {
      script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    script += fmt::format("{} -d '{}'\n", FishValue(option.value), FirstLine(option.help, "'\\"));
  }
  if (!verb.name.empty() && verb.argument.kind == Kind::kFile) script += head + " -F\n";
  if (!verb.name.empty() && verb.argument.kind == Kind::kFolder) {
    script += head + " -a '(__fish_complete_directories)'\n";
  }
  if (!verb.name.empty() && verb.argument.kind == Kind::kChoice) {
    script += fmt::format("{} -a '{}'\n", head, Joined(verb.argument.choices));
  }
  return script;
}

std::string FishScript(const std::vector<VerbDescription>& verbs) {
  std::string script(kFishHead);
  for (const VerbDescription& verb : verbs) script += FishVerb(verb);
  return script;
}

}  // namespace

Result<std::string> CompletionScript(std::string_view shell, const std::vector<VerbDescription>& verbs) {
  if (shell == "bash") return BashScript(verbs);
  if (shell == "zsh") return ZshScript(verbs);
  if (shell == "fish") return FishScript(verbs);
  return Fail(Code::kUsage, fmt::format("completion is for '{}', expected one of {}", shell,
                                        fmt::join(std::begin(kShells), std::end(kShells), ", ")));
}

}  // namespace sightline
