#include "package/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace sightline {
namespace {

std::string Suggestion(const std::string& key, const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(key, known);
  if (nearest.empty()) return fmt::format("; expected {}", fmt::join(known, ", "));
  return fmt::format("; did you mean {}?", nearest);
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

bool IsVariableName(std::string_view name) {
  return !name.empty() && IsLetter(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLetter(c) || (c >= '0' && c <= '9'); });
}

void ProblemList::Add(std::string path, int line, std::string message) {
  problems_.push_back({std::move(path), line, std::move(message)});
}

bool ProblemList::Holds(std::string_view path) const {
  return std::any_of(problems_.begin(), problems_.end(), [&](const ManifestProblem& problem) {
    if (!std::string_view(problem.path).starts_with(path)) return false;
    const char next = problem.path.size() > path.size() ? problem.path[path.size()] : '.';
    return path.empty() || next == '.' || next == '[';
  });
}

Error ErrorOf(const ManifestProblem& problem, const std::string& name) {
  const std::string place = problem.line > 0 ? fmt::format("{}:{}", name, problem.line) : name;
  return {Code::kInvalidRequest, fmt::format("{}: {}", place, problem.message), problem.path};
}

std::string PathOfItem(std::string_view path, size_t index) { return fmt::format("{}[{}]", path, index); }

std::string_view NameOfType(const Value& value) {
  constexpr std::string_view kNames[] = {
      "null", "yes or no (true or false)", "a number", "a number with a point", "text", "a list", "a map"};
  return kNames[value.data.index()];
}

std::optional<int64_t> AsWhole(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value.data)) return *whole;
  if (const auto* truth = std::get_if<bool>(&value.data)) return *truth ? 1 : 0;
  if (const auto* real = std::get_if<double>(&value.data)) {
    if (!(std::abs(*real) < 9e18) || *real != std::trunc(*real)) return std::nullopt;
    return static_cast<int64_t>(*real);
  }
  if (!value.AsText()) return std::nullopt;
  std::string_view text = *value.AsText();
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  int64_t whole = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return whole;
}

std::vector<std::string> ReadTexts(const Value& list, const std::string& path, ProblemList& problems) {
  std::vector<std::string> texts;
  if (!list.AsList()) {
    problems.Add(path, list.line, fmt::format("{} is expected to be a list of text, got {}", path, NameOfType(list)));
    return texts;
  }
  for (size_t i = 0; i < list.AsList()->size(); ++i) {
    const Value& item = (*list.AsList())[i];
    if (item.AsText()) {
      texts.push_back(*item.AsText());
    } else {
      const std::string at = PathOfItem(path, i);
      problems.Add(at, item.line, fmt::format("{} is expected to be text, got {}", at, NameOfType(item)));
    }
  }
  return texts;
}

FieldReader::FieldReader(const Value& value, std::string path, ProblemList& problems, UnknownKeys unknown)
    : value_(&value), map_(value.AsMap()), path_(std::move(path)), problems_(&problems), unknown_(unknown) {
  if (!map_) {
    problems.Add(
        path_, value.line,
        fmt::format("{} is expected to be a map, got {}", path_.empty() ? "the document" : path_, NameOfType(value)));
  }
}

std::string FieldReader::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void FieldReader::Complain(std::string_view key, const Value* at, std::string message) {
  problems_->Add(PathOf(key), at ? at->line : value_->line, std::move(message));
}

const Value* FieldReader::Look(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return value_->Find(key);
}

const Value* FieldReader::Member(std::string_view key) {
  const Value* found = Look(key);
  return found && !found->IsNull() ? found : nullptr;
}

const Value* FieldReader::RequiredMember(std::string_view key) {
  const Value* found = Look(key);
  if (!found && map_) Complain(key, nullptr, fmt::format("{} is required", PathOf(key)));
  return found;
}

std::optional<std::string> FieldReader::Text(std::string_view key) {
  const Value* found = Member(key);
  if (!found) return std::nullopt;
  if (found->AsText()) return *found->AsText();
  const bool scalar = !found->AsList() && !found->AsMap();
  Complain(key, found,
           fmt::format("{} is expected to be text, got {}{}", PathOf(key), NameOfType(*found),
                       scalar ? "; put it in quotes" : ""));
  return std::nullopt;
}

std::string FieldReader::RequiredText(std::string_view key) {
  const Value* found = Look(key);
  if (found && found->IsNull()) {
    Complain(key, found, fmt::format("{} is expected to be text, got null", PathOf(key)));
  } else if (!found && map_) {
    Complain(key, nullptr, fmt::format("{} is required", PathOf(key)));
  } else if (found) {
    return Text(key).value_or("");
  }
  return {};
}

std::optional<int64_t> FieldReader::Whole(std::string_view key) {
  const Value* found = Member(key);
  if (!found) return std::nullopt;
  const auto whole = AsWhole(*found);
  if (!whole) {
    Complain(key, found, fmt::format("{} is expected to be a whole number, got {}", PathOf(key), NameOfType(*found)));
  }
  return whole;
}

std::optional<std::vector<std::string>> FieldReader::Texts(std::string_view key) {
  const Value* found = Member(key);
  if (!found) return std::nullopt;
  return ReadTexts(*found, PathOf(key), *problems_);
}

EnvironmentList FieldReader::Environment(std::string_view key) {
  EnvironmentList list;
  const Value map = Map(key);
  for (const auto& [name, value] : *map.AsMap()) {
    const std::string path = fmt::format("{}.{}", PathOf(key), name);
    if (!IsVariableName(name)) {
      problems_->Add(path, value.line, fmt::format("{} is no name of an environment variable", path));
    } else if (value.AsText() && value.AsText()->find('\0') == std::string::npos) {
      list.emplace_back(name, *value.AsText());
    } else {
      problems_->Add(path, value.line,
                     fmt::format("{} is expected to be text, got {}; put it in quotes", path, NameOfType(value)));
    }
  }
  return list;
}

Value FieldReader::Map(std::string_view key) {
  const Value* found = Look(key);
  if (!found) return Value{Value::Map{}};
  if (found->AsMap()) return *found;
  Complain(key, found, fmt::format("{} is expected to be a map, got {}", PathOf(key), NameOfType(*found)));
  return Value{Value::Map{}};
}

const Value::List& FieldReader::List(std::string_view key) {
  static const Value::List kEmpty;
  const Value* found = Look(key);
  if (!found) return kEmpty;
  if (found->AsList()) return *found->AsList();
  Complain(key, found, fmt::format("{} is expected to be a list, got {}", PathOf(key), NameOfType(*found)));
  return kEmpty;
}

void FieldReader::Finish() {
  if (!map_ || unknown_ == UnknownKeys::kIgnored) return;
  for (const auto& [key, value] : *map_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    problems_->Add(PathOf(key), value.line,
                   fmt::format("{} is not a known key{}", PathOf(key), Suggestion(key, known_)));
  }
}

}  // namespace sightline
