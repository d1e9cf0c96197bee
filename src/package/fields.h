// Reads maps of a document field by field. What is wrong is written down with the path and line of its key, and reading
// goes on, so that one look at a file finds everything.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "package/package.h"

namespace sightline {

class ProblemList {
 public:
  void Add(std::string path, int line, std::string message);
  // Whether a problem is known at `path` or below it: what was read there means nothing.
  bool Holds(std::string_view path) const;
  const std::vector<ManifestProblem>& all() const { return problems_; }

 private:
  std::vector<ManifestProblem> problems_;
};

// "file:12: message"
Error ErrorOf(const ManifestProblem& problem, const std::string& name);

// How unknown keys are taken.
enum class UnknownKeys { kRefused, kIgnored };

// One map. Text takes text only, whole numbers take what Python's pydantic takes for one (8000, "8000", 8000.0).
// Null counts as absent where a field is optional.
class FieldReader {
 public:
  // `value` must outlive the reader. Not a map: a problem, and every field is absent.
  FieldReader(const Value& value, std::string path, ProblemList& problems, UnknownKeys unknown);

  std::optional<std::string> Text(std::string_view key);
  std::string RequiredText(std::string_view key);
  std::optional<int64_t> Whole(std::string_view key);
  std::optional<std::vector<std::string>> Texts(std::string_view key);
  EnvironmentList Environment(std::string_view key);
  // Must be a map where present; an empty one where absent.
  Value Map(std::string_view key);
  // A member that the caller reads; nullptr where absent or null.
  const Value* Member(std::string_view key);
  // A member that must be there.
  const Value* RequiredMember(std::string_view key);
  // A list that the caller reads; empty where absent.
  const Value::List& List(std::string_view key);

  // Call last: a problem for each key that nobody asked for, where those are refused.
  void Finish();

  bool is_map() const { return map_ != nullptr; }
  std::string PathOf(std::string_view key) const;
  void Complain(std::string_view key, const Value* at, std::string message);

 private:
  const Value* Look(std::string_view key);

  const Value* value_;
  const Value::Map* map_;
  std::string path_;
  ProblemList* problems_;
  UnknownKeys unknown_;
  std::vector<std::string> known_;
};

// Of an environment variable, as a shell can export it.
bool IsVariableName(std::string_view name);
std::string PathOfItem(std::string_view path, size_t index);
// "a number", "text": what a value is, for sentences.
std::string_view NameOfType(const Value& value);
// As pydantic reads an int.
std::optional<int64_t> AsWhole(const Value& value);
// A problem unless every item is text.
std::vector<std::string> ReadTexts(const Value& list, const std::string& path, ProblemList& problems);

}  // namespace sightline
