// Reads the JSON object of a request field by field and refuses whatever is not exactly what was expected: duplicates,
// wrong types, broken JSON anywhere, text that is not UTF-8. The parser stays in json_fields.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "pipeline/pipeline.h"

namespace sightline {

// Whole characters of `text`, at most 64 bytes: what messages may repeat of a request.
std::string Shortened(std::string_view text);

// A value whose turn it is. To be read once, during the call that it is given to. Errors name `param()`.
class JsonValue {
 public:
  const std::string& param() const { return param_; }  // "bboxes[2]"

  bool IsText() const;
  bool IsNumber() const;
  bool IsList() const;

  // Lives as long as the body.
  Result<std::string_view> Text();
  Result<bool> Bool();
  Result<double> Number();
  Result<double> NumberFrom(double least, double most);
  Result<int64_t> WholeFrom(int64_t least, int64_t most);
  // One of `choices`, by its index.
  Result<size_t> Choice(std::span<const std::string_view> choices);
  // Calls `read` with each element of a list in turn, until it fails.
  Status List(const std::function<Status(JsonValue& element, size_t index)>& read);

 private:
  friend class JsonObject;
  struct Source;
  JsonValue(Source& source, std::string param) : source_(source), param_(std::move(param)) {}

  Source& source_;
  std::string param_;
};

struct JsonField {
  std::string_view name;
  bool may_be_null;  // null then stands for an absent field
  std::function<Status(JsonValue& value)> read;
};

struct JsonObjectRead {
  std::set<std::string, std::less<>> names;  // fields that are there, null or not
  std::vector<Warning> warnings;             // "unknown_field": fields that nobody reads are checked and named
};

// Reads `body`, which may be enlarged; its text stays. Fields come in the order of the text. Errors: kInvalidRequest,
// kInvalidUtf8, kOutOfMemory, or what a field's reader says; no message repeats more than 64 bytes of the request.
Result<JsonObjectRead> ReadJsonObject(std::string& body, std::span<const JsonField> fields);

}  // namespace sightline
