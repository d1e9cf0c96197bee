#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/values.h"

namespace sightline {

void OptionSet::Flag(const std::string& name, bool& target, const std::string& help) {
  app_.add_flag(name, target, help)->group(heading_)->disable_flag_override();
}

void OptionSet::Add(const std::string& name, const std::string& type, const std::string& help,
                    std::function<Status(const std::string& text)> take) {
  const auto callback = [take = std::move(take)](const std::string& text) {
    if (const Status status = take(text); !status) throw CLI::ValidationError(status.error().message);
  };
  app_.add_option_function<std::string>(name, callback, help)
      ->type_name(type)
      ->group(heading_)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void OptionSet::Text(const std::string& name, std::string& target, const std::string& type, const std::string& help) {
  Add(name, type, help, [&target, name](const std::string& text) -> Status {
    if (text.empty()) return Fail(Code::kUsage, fmt::format("{} is empty, expected a text", name));
    target = text;
    return {};
  });
}

void OptionSet::AddPath(const std::string& name, const std::string& type, std::filesystem::path& target,
                        const std::string& help) {
  Add(name, type, help, [&target, name](const std::string& text) -> Status {
    if (text.empty()) return Fail(Code::kUsage, fmt::format("{} is empty, expected a path", name));
    target = text;
    return {};
  });
}

void OptionSet::File(const std::string& name, std::filesystem::path& target, const std::string& help) {
  AddPath(name, "FILE", target, help);
}

void OptionSet::Folder(const std::string& name, std::filesystem::path& target, const std::string& help) {
  AddPath(name, "FOLDER", target, help);
}

void OptionSet::Real(const std::string& name, double& target, double least, double most, const std::string& help) {
  Add(name, "NUMBER", help, [&target, name, least, most](const std::string& text) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(target, ParseReal(name, text, least, most));
    return {};
  });
}

void OptionSet::AddWhole(const std::string& name, int64_t least, int64_t most, const std::string& help,
                         std::function<void(int64_t)> take) {
  Add(name, "N", help, [take = std::move(take), name, least, most](const std::string& text) -> Status {
    SIGHTLINE_ASSIGN_OR_RETURN(const int64_t value, ParseWhole(name, text, least, most));
    take(value);
    return {};
  });
}

void OptionSet::Choice(const std::string& name, const std::vector<std::string>& choices, const std::string& help,
                       std::function<void(size_t index)> take) {
  Add(name, fmt::format("{}", fmt::join(choices, "|")), help,
      [take = std::move(take), name, choices](const std::string& text) -> Status {
        const auto found = std::find(choices.begin(), choices.end(), text);
        if (found == choices.end()) {
          return Fail(Code::kUsage,
                      fmt::format("{} is '{}', expected one of {}", name, text, fmt::join(choices, ", ")));
        }
        take(static_cast<size_t>(found - choices.begin()));
        return {};
      });
}

void OptionSet::Repeated(const std::string& name, std::vector<std::string>& target, const std::string& type,
                         const std::string& help) {
  app_.add_option(name, target, help)->type_name(type)->group(heading_)->allow_extra_args(false);
}

std::string OptionSet::GivenUnder(const std::string& heading) const {
  const auto given = app_.get_options(
      [&heading](const CLI::Option* option) { return option->get_group() == heading && option->count() > 0; });
  return given.empty() ? "" : given.front()->get_name();
}

void OptionSet::Argument(const std::string& name, std::string& target, const std::string& type,
                         const std::string& help) {
  app_.add_option(name, target, help)->type_name(type);
}

void OptionSet::Argument(const std::string& name, std::vector<std::string>& target, const std::string& type,
                         const std::string& help) {
  app_.add_option(name, target, help)->type_name(type);
}

}  // namespace sightline
