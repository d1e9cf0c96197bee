#include "server/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "text/text.h"

namespace sightline {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr int kMaxDepth = 32;
constexpr size_t kMaxUnknownFields = 32;
constexpr size_t kMaxEchoedBytes = 64;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// ---------------------------------------------------------------------------------------------------------------------
// Words for what is wrong

std::string_view Problem(simdjson::error_code error) {
  switch (error) {
    case simdjson::DEPTH_ERROR:
      return "it is nested too deeply";
    case simdjson::STRING_ERROR:
      return "a text has a bad escape";
    case simdjson::UNCLOSED_STRING:
      return "a text is not closed";
    case simdjson::UNESCAPED_CHARS:
      return "a text has a control character that is not escaped";
    case simdjson::NUMBER_ERROR:
    case simdjson::NUMBER_OUT_OF_RANGE:
      return "a number is malformed or too large";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR:
      return "a word is not true, false or null";
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "it ends too early, or there is more after its end";
    case simdjson::TRAILING_CONTENT:
      return "there is more after its end";
    default:
      return "its structure is broken";
  }
}

tl::unexpected<Error> NotJson(simdjson::error_code error, std::string_view body) {
  if (error == simdjson::MEMALLOC) return Fail(Code::kOutOfMemory, "there is no memory to read the request");
  if (error == simdjson::UTF8_ERROR) {
    return Fail(Code::kInvalidUtf8, fmt::format("the request body is not UTF-8 at byte {}", FindInvalidUtf8(body)));
  }
  return Fail(Code::kInvalidRequest, fmt::format("the request body is not JSON: {}", Problem(error)));
}

std::string_view NameOf(ondemand::json_type type) {
  switch (type) {
    case ondemand::json_type::array:
      return "a list";
    case ondemand::json_type::object:
      return "an object";
    case ondemand::json_type::number:
      return "a number";
    case ondemand::json_type::string:
      return "a text";
    case ondemand::json_type::boolean:
      return "true or false";
    default:
      return "null";
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

// False for a word that only begins as null does.
bool IsNull(ondemand::value value) {
  bool null = false;
  return value.is_null().get(null) == simdjson::SUCCESS && null;
}

// Checks a value that nobody asked for as strictly as the others, so that broken JSON never passes.
simdjson::error_code CheckValue(ondemand::value value, int depth) {
  if (depth > kMaxDepth) return simdjson::DEPTH_ERROR;
  ondemand::json_type type{};
  SIMDJSON_TRY(value.type().get(type));
  switch (type) {
    case ondemand::json_type::array: {
      ondemand::array array;
      SIMDJSON_TRY(value.get_array().get(array));
      for (auto item : array) {
        ondemand::value element;
        SIMDJSON_TRY(std::move(item).get(element));
        SIMDJSON_TRY(CheckValue(element, depth + 1));
      }
      return simdjson::SUCCESS;
    }
    case ondemand::json_type::object: {
      ondemand::object object;
      SIMDJSON_TRY(value.get_object().get(object));
      for (auto item : object) {
        ondemand::field field;
        SIMDJSON_TRY(std::move(item).get(field));
        SIMDJSON_TRY(field.unescaped_key().error());
        SIMDJSON_TRY(CheckValue(field.value(), depth + 1));
      }
      return simdjson::SUCCESS;
    }
    case ondemand::json_type::number:
      return value.get_double().error();
    case ondemand::json_type::string:
      return value.get_string().error();
    case ondemand::json_type::boolean:
      return value.get_bool().error();
    case ondemand::json_type::null:
      return IsNull(value) ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
  }
  return simdjson::TAPE_ERROR;
}

// The text of a string value; without a copy when nothing in it is escaped, as in base64 of megabytes.
simdjson::error_code GetText(ondemand::value value, std::string_view& text) {
  const std::string_view token = value.raw_json_token();
  if (token.empty() || token.front() != '"') return simdjson::INCORRECT_TYPE;
  const std::string_view inside = token.substr(1);
  const size_t end = inside.find('"');
  if (end == std::string_view::npos || inside.substr(0, end).find('\\') != std::string_view::npos) {
    return value.get_string().get(text);
  }
  text = inside.substr(0, end);
  return value.get_raw_json_string().error();  // goes on behind it, where anything but , or } is found to be wrong
}

}  // namespace

std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxEchoedBytes) return std::string(text);
  size_t end = kMaxEchoedBytes;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

struct JsonValue::Source {
  ondemand::value value;
  std::string_view body;

  bool Is(ondemand::json_type type) {
    ondemand::json_type found{};
    return value.type().get(found) == simdjson::SUCCESS && found == type;
  }
  // Fails with the value's and the expected type unless they agree.
  Status Expect(ondemand::json_type type, const std::string& param) {
    ondemand::json_type found{};
    if (const auto error = value.type().get(found)) return NotJson(error, body);
    if (found == type) return {};
    if (found == ondemand::json_type::null && !IsNull(value)) return NotJson(simdjson::N_ATOM_ERROR, body);
    return Fail(Code::kInvalidRequest, fmt::format("{} is {}, expected {}", param, NameOf(found), NameOf(type)), param);
  }
};

bool JsonValue::IsText() const { return source_.Is(ondemand::json_type::string); }
bool JsonValue::IsNumber() const { return source_.Is(ondemand::json_type::number); }
bool JsonValue::IsList() const { return source_.Is(ondemand::json_type::array); }

Result<std::string_view> JsonValue::Text() {
  SIGHTLINE_RETURN_IF_ERROR(source_.Expect(ondemand::json_type::string, param_));
  std::string_view text;
  if (const auto error = GetText(source_.value, text)) return NotJson(error, source_.body);
  return text;
}

Result<bool> JsonValue::Bool() {
  SIGHTLINE_RETURN_IF_ERROR(source_.Expect(ondemand::json_type::boolean, param_));
  bool value = false;
  if (const auto error = source_.value.get_bool().get(value)) return NotJson(error, source_.body);
  return value;
}

Result<double> JsonValue::Number() {
  SIGHTLINE_RETURN_IF_ERROR(source_.Expect(ondemand::json_type::number, param_));
  double number = 0;
  if (source_.value.get_double().get(number) != simdjson::SUCCESS) {
    return Fail(Code::kInvalidRequest, fmt::format("{} is a malformed number, or one too large", param_), param_);
  }
  return number;
}

Result<double> JsonValue::NumberFrom(double least, double most) {
  SIGHTLINE_ASSIGN_OR_RETURN(const double number, Number());
  if (number >= least && number <= most) return number;
  return Fail(Code::kInvalidRequest,
              fmt::format("{} is {:g}, expected a number from {:g} to {:g}", param_, number, least, most), param_);
}

Result<int64_t> JsonValue::WholeFrom(int64_t least, int64_t most) {
  SIGHTLINE_ASSIGN_OR_RETURN(const double number, Number());
  if (number >= static_cast<double>(least) && number <= static_cast<double>(most) && number == std::floor(number)) {
    return static_cast<int64_t>(number);
  }
  return Fail(Code::kInvalidRequest,
              fmt::format("{} is {:g}, expected a whole number from {} to {}", param_, number, least, most), param_);
}

Result<size_t> JsonValue::Choice(std::span<const std::string_view> choices) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view name, Text());
  const auto found = std::ranges::find(choices, name);
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  const std::string others = fmt::format("{}", fmt::join(choices.first(choices.size() - 1), ", "));
  return Fail(Code::kInvalidRequest,
              fmt::format("{} is '{}', expected {} or {}", param_, Shortened(name), others, choices.back()), param_);
}

Status JsonValue::List(const std::function<Status(JsonValue& element, size_t index)>& read) {
  SIGHTLINE_RETURN_IF_ERROR(source_.Expect(ondemand::json_type::array, param_));
  ondemand::array array;
  if (const auto error = source_.value.get_array().get(array)) return NotJson(error, source_.body);
  size_t index = 0;
  for (auto item : array) {
    Source source{{}, source_.body};
    if (const auto error = std::move(item).get(source.value)) return NotJson(error, source_.body);
    JsonValue element(source, fmt::format("{}[{}]", param_, index));
    SIGHTLINE_RETURN_IF_ERROR(read(element, index++));
  }
  return {};
}

// One object on its way through the parser.
class JsonObject {
 public:
  JsonObject(std::span<const JsonField> fields, std::string_view body) : fields_(fields), body_(body) {}

  Result<JsonObjectRead> Read(ondemand::document& document);

 private:
  Status ReadField(std::string_view name, ondemand::value value);
  Status ReadUnknown(std::string_view name, ondemand::value value);

  std::span<const JsonField> fields_;
  std::string_view body_;
  JsonObjectRead read_;
};

// The seeds' servers ignore fields that they do not know; so that a misspelt one is noticed, the answer names it.
Status JsonObject::ReadUnknown(std::string_view name, ondemand::value value) {
  if (read_.warnings.size() == kMaxUnknownFields) {
    return Fail(Code::kInvalidRequest, fmt::format("the request has more than {} unknown fields", kMaxUnknownFields));
  }
  const std::string shown = Shortened(name);
  if (const auto error = CheckValue(value, 1)) return NotJson(error, body_);
  read_.warnings.push_back({"unknown_field", fmt::format("the field '{}' is not known and was ignored", shown), shown});
  return {};
}

Status JsonObject::ReadField(std::string_view name, ondemand::value value) {
  if (!read_.names.emplace(name).second) {
    return Fail(Code::kInvalidRequest, fmt::format("the field '{}' is given twice", Shortened(name)), Shortened(name));
  }
  const auto field = std::ranges::find(fields_, name, &JsonField::name);
  if (field == fields_.end()) return ReadUnknown(name, value);
  if (field->may_be_null && IsNull(value)) return {};
  JsonValue::Source source{value, body_};
  JsonValue given(source, std::string(name));
  return field->read(given);
}

Result<JsonObjectRead> JsonObject::Read(ondemand::document& document) {
  ondemand::json_type type{};
  if (const auto error = document.type().get(type)) return NotJson(error, body_);
  if (type != ondemand::json_type::object) {
    return Fail(Code::kInvalidRequest, fmt::format("the request body is {}, expected a JSON object", NameOf(type)));
  }
  ondemand::object object;
  if (const auto error = document.get_object().get(object)) return NotJson(error, body_);
  for (auto item : object) {
    ondemand::field field;
    if (const auto error = std::move(item).get(field)) return NotJson(error, body_);
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name)) return NotJson(error, body_);
    SIGHTLINE_RETURN_IF_ERROR(ReadField(name, field.value()));
  }
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (!at_end) return NotJson(simdjson::TRAILING_CONTENT, body_);
  return std::move(read_);
}

Result<JsonObjectRead> ReadJsonObject(std::string& body, std::span<const JsonField> fields) {
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  const size_t start = body.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  if (body.find_first_not_of(" \t\r\n", start) == std::string::npos) {
    return Fail(Code::kInvalidRequest, "the request body is empty, expected a JSON object");
  }
  ondemand::parser parser;
  ondemand::document document;
  const simdjson::padded_string_view text(body.data() + start, body.size() - start, body.capacity() - start);
  if (const auto error = parser.iterate(text).get(document)) return NotJson(error, body);
  return JsonObject(fields, body).Read(document);
}

}  // namespace sightline
