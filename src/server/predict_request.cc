#include "server/predict_request.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "server/utf8.h"

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
      return "it ends too early";
    case simdjson::TRAILING_CONTENT:
      return "there is more after its end";
    default:
      return "its structure is broken";
  }
}

// Whole characters of `text`, at most kMaxEchoedBytes.
std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxEchoedBytes) return std::string(text);
  size_t end = kMaxEchoedBytes;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
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
  return simdjson::SUCCESS;
}

// Reads the fields of one request, one after the other, as they come.
class Reader {
 public:
  explicit Reader(const PredictLimits& limits) : limits_(limits) {
    request_.max_heads = limits.max_heads;
    request_.head_threshold = limits.head_threshold;
  }

  Result<PredictRequest> Read(std::string& body);

 private:
  Status ReadDocument(ondemand::document& document);
  Status ReadField(std::string_view name, ondemand::value value);
  Status ReadImage(ondemand::value value);
  Status ReadBoxes(ondemand::value value);
  Status ReadBox(ondemand::value value, const std::string& param);
  Status ReadBoxFormat(ondemand::value value);
  Status ReadHeatmapFormat(ondemand::value value);
  Status ReadDetectHeads(ondemand::value value);
  Status ReadMaxHeads(ondemand::value value);
  Status ReadHeadThreshold(ondemand::value value);
  Status ReadUnknown(std::string_view name, ondemand::value value);
  Status CheckWhole() const;

  // Fails with the value's and the expected type unless they agree.
  Status ExpectType(ondemand::value value, ondemand::json_type type, const std::string& param) const;
  Result<double> ReadNumber(ondemand::value value, const std::string& param) const;
  tl::unexpected<Error> NotJson(simdjson::error_code error) const;

  const PredictLimits limits_;
  PredictRequest request_;
  std::string_view body_;
  std::set<std::string, std::less<>> seen_;
  size_t unknown_fields_ = 0;
  bool has_image_ = false;
};

tl::unexpected<Error> Reader::NotJson(simdjson::error_code error) const {
  if (error == simdjson::MEMALLOC) return Fail(Code::kOutOfMemory, "there is no memory to read the request");
  if (error == simdjson::UTF8_ERROR) {
    return Fail(Code::kInvalidUtf8, fmt::format("the request body is not UTF-8 at byte {}", FindInvalidUtf8(body_)));
  }
  return Fail(Code::kInvalidRequest, fmt::format("the request body is not JSON: {}", Problem(error)));
}

Status Reader::ExpectType(ondemand::value value, ondemand::json_type type, const std::string& param) const {
  ondemand::json_type found{};
  if (const auto error = value.type().get(found)) return NotJson(error);
  if (found == type) return {};
  if (found == ondemand::json_type::null && !IsNull(value)) return NotJson(simdjson::N_ATOM_ERROR);
  return Fail(Code::kInvalidRequest, fmt::format("{} is {}, expected {}", param, NameOf(found), NameOf(type)), param);
}

Result<double> Reader::ReadNumber(ondemand::value value, const std::string& param) const {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::number, param));
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS) {
    return Fail(Code::kInvalidRequest, fmt::format("{} is a malformed number, or one too large", param), param);
  }
  return number;
}

Status Reader::ReadImage(ondemand::value value) {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::string, "image"));
  std::string_view text;
  if (const auto error = GetText(value, text)) return NotJson(error);
  SIGHTLINE_ASSIGN_OR_RETURN(request_.file, DecodeImageText(text));
  has_image_ = true;
  return {};
}

Status Reader::ReadBoxes(ondemand::value value) {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::array, "bboxes"));
  ondemand::array array;
  if (const auto error = value.get_array().get(array)) return NotJson(error);
  size_t count = 0;
  for (auto item : array) {
    ondemand::value element;
    if (const auto error = std::move(item).get(element)) return NotJson(error);
    const std::string param = fmt::format("bboxes[{}]", count++);
    if (std::cmp_greater(count, limits_.max_heads)) {
      return Fail(Code::kTooManyBoxes, fmt::format("bboxes has more than {} boxes", limits_.max_heads), "bboxes");
    }
    SIGHTLINE_RETURN_IF_ERROR(ReadBox(element, param));
  }
  return {};
}

Status Reader::ReadBox(ondemand::value value, const std::string& param) {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::array, param));
  ondemand::array array;
  if (const auto error = value.get_array().get(array)) return NotJson(error);
  double numbers[4] = {};
  size_t count = 0;
  for (auto item : array) {
    ondemand::value element;
    if (const auto error = std::move(item).get(element)) return NotJson(error);
    if (count == 4) return Fail(Code::kInvalidRequest, param + " has more than 4 numbers, expected 4", param);
    SIGHTLINE_ASSIGN_OR_RETURN(numbers[count], ReadNumber(element, fmt::format("{}[{}]", param, count)));
    ++count;
  }
  if (count < 4) return Fail(Code::kInvalidRequest, fmt::format("{} has {} numbers, expected 4", param, count), param);
  request_.boxes.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
  return {};
}

Status Reader::ReadBoxFormat(ondemand::value value) {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::string, "bbox_format"));
  std::string_view name;
  if (const auto error = value.get_string().get(name)) return NotJson(error);
  if (name != "pixels" && name != "normalized") {
    return Fail(Code::kInvalidRequest,
                fmt::format("bbox_format is '{}', expected pixels or normalized", Shortened(name)), "bbox_format");
  }
  request_.units = name == "pixels" ? BoxUnits::kPixels : BoxUnits::kNormalized;
  return {};
}

Status Reader::ReadHeatmapFormat(ondemand::value value) {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::string, "heatmap_format"));
  std::string_view name;
  if (const auto error = value.get_string().get(name)) return NotJson(error);
  SIGHTLINE_ASSIGN_OR_RETURN(request_.heatmap_format, ParseHeatmapFormat(Shortened(name)));
  return {};
}

Status Reader::ReadDetectHeads(ondemand::value value) {
  SIGHTLINE_RETURN_IF_ERROR(ExpectType(value, ondemand::json_type::boolean, "detect_heads"));
  if (const auto error = value.get_bool().get(request_.detect_heads)) return NotJson(error);
  return {};
}

Status Reader::ReadMaxHeads(ondemand::value value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const double number, ReadNumber(value, "max_heads"));
  if (!(number >= 1 && number <= limits_.max_heads) || number != static_cast<int>(number)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("max_heads is {:g}, expected a whole number from 1 to {}", number, limits_.max_heads),
                "max_heads");
  }
  request_.max_heads = static_cast<int>(number);
  return {};
}

Status Reader::ReadHeadThreshold(ondemand::value value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const double number, ReadNumber(value, "head_threshold"));
  if (!(number >= 0 && number <= 1)) {
    return Fail(Code::kInvalidRequest, fmt::format("head_threshold is {:g}, expected a number from 0 to 1", number),
                "head_threshold");
  }
  request_.head_threshold = number;
  return {};
}

// The seed's server ignores fields that it does not know; so that a misspelt one is noticed, the answer names it.
Status Reader::ReadUnknown(std::string_view name, ondemand::value value) {
  if (++unknown_fields_ > kMaxUnknownFields) {
    return Fail(Code::kInvalidRequest, fmt::format("the request has more than {} unknown fields", kMaxUnknownFields));
  }
  const std::string shown = Shortened(name);
  if (const auto error = CheckValue(value, 1)) return NotJson(error);
  request_.warnings.push_back(
      {"unknown_field", fmt::format("the field '{}' is not known and was ignored", shown), shown});
  return {};
}

Status Reader::ReadField(std::string_view name, ondemand::value value) {
  struct Field {
    std::string_view name;
    Status (Reader::*read)(ondemand::value value);
    bool may_be_null;
  };
  static constexpr Field kFields[] = {
      {"image", &Reader::ReadImage, false},
      {"bboxes", &Reader::ReadBoxes, true},
      {"bbox_format", &Reader::ReadBoxFormat, true},
      {"heatmap_format", &Reader::ReadHeatmapFormat, true},
      {"detect_heads", &Reader::ReadDetectHeads, true},
      {"max_heads", &Reader::ReadMaxHeads, true},
      {"head_threshold", &Reader::ReadHeadThreshold, true},
  };
  if (!seen_.emplace(name).second) {
    return Fail(Code::kInvalidRequest, fmt::format("the field '{}' is given twice", Shortened(name)), Shortened(name));
  }
  const auto* field = std::ranges::find(kFields, name, &Field::name);
  if (field == std::end(kFields)) return ReadUnknown(name, value);
  if (field->may_be_null && IsNull(value)) return {};
  return (this->*field->read)(value);
}

Status Reader::ReadDocument(ondemand::document& document) {
  ondemand::json_type type{};
  if (const auto error = document.type().get(type)) return NotJson(error);
  if (type != ondemand::json_type::object) {
    return Fail(Code::kInvalidRequest, fmt::format("the request body is {}, expected a JSON object", NameOf(type)));
  }
  ondemand::object object;
  if (const auto error = document.get_object().get(object)) return NotJson(error);
  for (auto item : object) {
    ondemand::field field;
    if (const auto error = std::move(item).get(field)) return NotJson(error);
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name)) return NotJson(error);
    SIGHTLINE_RETURN_IF_ERROR(ReadField(name, field.value()));
  }
  const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (!at_end) return NotJson(simdjson::TRAILING_CONTENT);
  return {};
}

Status Reader::CheckWhole() const {
  if (!has_image_) return Fail(Code::kMissingField, "image is missing, expected a picture as base64 text", "image");
  if (request_.detect_heads || !request_.boxes.empty()) return {};
  if (seen_.contains("bboxes")) {
    return Fail(Code::kInvalidRequest,
                fmt::format("bboxes is empty, expected 1 to {} boxes, or detect_heads true", limits_.max_heads),
                "bboxes");
  }
  return Fail(Code::kMissingField,
              fmt::format("bboxes is missing, expected 1 to {} boxes, or detect_heads true", limits_.max_heads),
              "bboxes");
}

Result<PredictRequest> Reader::Read(std::string& body) {
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  const size_t start = body.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  body_ = body;
  if (body_.find_first_not_of(" \t\r\n", start) == std::string_view::npos) {
    return Fail(Code::kInvalidRequest, "the request body is empty, expected a JSON object");
  }
  ondemand::parser parser;
  ondemand::document document;
  const simdjson::padded_string_view text(body.data() + start, body.size() - start, body.capacity() - start);
  if (const auto error = parser.iterate(text).get(document)) return NotJson(error);
  SIGHTLINE_RETURN_IF_ERROR(ReadDocument(document));
  SIGHTLINE_RETURN_IF_ERROR(CheckWhole());
  return std::move(request_);
}

}  // namespace

Result<PredictRequest> ParsePredictRequest(std::string& body, const PredictLimits& limits) {
  return Reader(limits).Read(body);
}

}  // namespace sightline
