#include "server/locate_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "server/json_fields.h"

namespace sightline {
namespace {

constexpr std::string_view kSeparator = "</c>";
constexpr int64_t kMostSeed = int64_t{1} << 53;  // what every JSON reader keeps exactly

// Of UTF-8, which the whole body is known to be.
size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

// A field that this request cannot do without.
tl::unexpected<Error> Absent(const JsonObjectRead& object, std::string name, std::string_view expected) {
  const bool null = object.names.contains(name);
  std::string message = fmt::format("{} is {}, expected {}", name, null ? "null" : "missing", expected);
  return Fail(null ? Code::kInvalidRequest : Code::kMissingField, std::move(message), std::move(name));
}

// Reads the fields of one request, one after the other, as they come.
class Reader {
 public:
  explicit Reader(const LocateLimits& limits) : limits_(limits) {
    fields_.scaling = limits.scaling;
    fields_.generation.mode = DecodingMode::kSlow;
    fields_.generation.max_new_tokens = limits.max_new_tokens;
  }

  Result<LocateFields> Read(std::string& body);

 private:
  Status ReadImage(JsonValue& value);
  Status ReadImages(JsonValue& value);
  Status AddFile(JsonValue& value);
  Status ReadQuery(JsonValue& value);
  Status ReadTask(JsonValue& value);
  Status ReadMode(JsonValue& value);
  Status ReadMaxNewTokens(JsonValue& value);
  Status ReadTokenLimit(JsonValue& value);
  Status ReadGrid(JsonValue& value);
  Status ReadSeed(JsonValue& value);
  Status ReadTopK(JsonValue& value);
  Status ReadNumber(JsonValue& value, double* target);
  Status CheckPictures(const JsonObjectRead& object) const;
  Status CheckQuery(const JsonObjectRead& object) const;
  void ChooseScaling();

  const LocateLimits limits_;
  LocateFields fields_;
  bool image_given_ = false, images_given_ = false, query_given_ = false;
  std::optional<int64_t> token_limit_;
  std::optional<std::optional<PatchGrid>> grid_;
};

Status Reader::AddFile(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view text, value.Text());
  auto file = DecodeImageText(text);
  if (!file) return Fail(file.error().code, file.error().message, value.param());
  fields_.files.push_back(std::move(*file));
  return {};
}

Status Reader::ReadImage(JsonValue& value) {
  image_given_ = true;
  return AddFile(value);
}

Status Reader::ReadImages(JsonValue& value) {
  images_given_ = true;
  return value.List([this](JsonValue& element, size_t index) -> Status {
    if (index == kMaxPictures) {
      return Fail(Code::kInvalidRequest,
                  fmt::format("images has more than {0} pictures, expected 1 to {0}", kMaxPictures), "images");
    }
    return AddFile(element);
  });
}

Status Reader::ReadQuery(JsonValue& value) {
  query_given_ = true;
  std::vector<std::string>& query = fields_.question.query;
  if (!value.IsList()) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view text, value.Text());
    query.emplace_back(text);
  } else {
    SIGHTLINE_RETURN_IF_ERROR(value.List([&query](JsonValue& element, size_t) -> Status {
      SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view text, element.Text());
      query.emplace_back(text);
      if (text.find(kSeparator) == std::string_view::npos) return {};
      return Fail(Code::kInvalidRequest,
                  fmt::format("{} holds {}, expected one category in each element", element.param(), kSeparator),
                  element.param());
    }));
  }
  fields_.query = JoinQuery(fields_.question.query);
  return {};
}

Status Reader::ReadTask(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view name, value.Text());
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.question.task, ParseLocateTask(Shortened(name)));
  return {};
}

Status Reader::ReadMode(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view name, value.Text());
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.generation.mode, ParseDecodingMode(Shortened(name)));
  return {};
}

Status Reader::ReadMaxNewTokens(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(fields_.generation.max_new_tokens, value.WholeFrom(1, limits_.max_new_tokens_cap));
  return {};
}

Status Reader::ReadTokenLimit(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(token_limit_, value.WholeFrom(4, limits_.max_token_limit));
  return {};
}

Status Reader::ReadGrid(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string_view text, value.Text());
  SIGHTLINE_ASSIGN_OR_RETURN(grid_, ParseGrid(Shortened(text), value.param()));
  return {};
}

Status Reader::ReadSeed(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const int64_t seed, value.WholeFrom(0, kMostSeed));
  fields_.generation.sampling.seed = static_cast<uint64_t>(seed);
  return {};
}

Status Reader::ReadTopK(JsonValue& value) {
  SIGHTLINE_ASSIGN_OR_RETURN(const int64_t top_k, value.WholeFrom(0, 1'000'000));
  fields_.generation.sampling.top_k = static_cast<int>(top_k);
  return {};
}

Status Reader::ReadNumber(JsonValue& value, double* target) {
  SIGHTLINE_ASSIGN_OR_RETURN(*target, value.Number());
  return {};
}

Status Reader::CheckPictures(const JsonObjectRead& object) const {
  if (image_given_ && images_given_ && !fields_.files.empty()) {
    return Fail(Code::kInvalidRequest, "image and images are both given, expected one of them", "images");
  }
  if (!fields_.files.empty()) return {};
  if (images_given_) {
    return Fail(Code::kInvalidRequest, fmt::format("images is empty, expected 1 to {} pictures", kMaxPictures),
                "images");
  }
  return Absent(object, "image", "a picture as base64 text");
}

Status Reader::CheckQuery(const JsonObjectRead& object) const {
  if (fields_.question.task == LocateTask::kReadText && fields_.query.empty()) return {};
  if (!query_given_) return Absent(object, "query", fmt::format("a text of 1 to {} characters", kMaxQueryCharacters));
  const size_t characters = CountCharacters(fields_.query);
  if (characters >= 1 && characters <= kMaxQueryCharacters) return {};
  return Fail(Code::kInvalidRequest,
              fmt::format("query has {} characters, expected 1 to {}", characters, kMaxQueryCharacters), "query");
}

// A limit alone asks for another resolution, and so for the picture's own aspect.
void Reader::ChooseScaling() {
  if (token_limit_) fields_.scaling = {*token_limit_, std::nullopt};
  if (grid_) fields_.scaling.grid = *grid_;
}

Result<LocateFields> Reader::Read(std::string& body) {
  const auto by = [this](Status (Reader::*read)(JsonValue&)) {
    return [this, read](JsonValue& value) { return (this->*read)(value); };
  };
  const auto number = [this](double* target) {
    return [this, target](JsonValue& value) { return ReadNumber(value, target); };
  };
  SamplingOptions& sampling = fields_.generation.sampling;
  const JsonField fields[] = {
      {"image", true, by(&Reader::ReadImage)},
      {"images", true, by(&Reader::ReadImages)},
      {"query", true, by(&Reader::ReadQuery)},
      {"max_new_tokens", true, by(&Reader::ReadMaxNewTokens)},
      {"return_overlay", true,
       [this](JsonValue& value) -> Status {
         SIGHTLINE_ASSIGN_OR_RETURN(fields_.return_overlay, value.Bool());
         return {};
       }},
      {"task", true, by(&Reader::ReadTask)},
      {"mode", true, by(&Reader::ReadMode)},
      {"temperature", true, number(&sampling.temperature)},
      {"top_p", true, number(&sampling.top_p)},
      {"top_k", true, by(&Reader::ReadTopK)},
      {"repetition_penalty", true, number(&sampling.repetition_penalty)},
      {"seed", true, by(&Reader::ReadSeed)},
      {"in_token_limit", true, by(&Reader::ReadTokenLimit)},
      {"grid", true, by(&Reader::ReadGrid)},
  };
  SIGHTLINE_ASSIGN_OR_RETURN(JsonObjectRead object, ReadJsonObject(body, fields));
  SIGHTLINE_RETURN_IF_ERROR(CheckPictures(object));
  SIGHTLINE_RETURN_IF_ERROR(CheckQuery(object));
  SIGHTLINE_RETURN_IF_ERROR(CheckGenerationOptions(fields_.generation));
  if (fields_.query.empty()) fields_.question.query.clear();
  ChooseScaling();
  fields_.warnings = std::move(object.warnings);
  return std::move(fields_);
}

// A whole number of one to five digits.
std::optional<int> ReadSide(std::string_view text) {
  int side = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), side);
  const bool whole = error == std::errc() && end == text.data() + text.size() && text.size() <= 5 && side > 0;
  return whole ? std::optional(side) : std::nullopt;
}

}  // namespace

std::optional<std::pair<int, int>> ParseSides(std::string_view text) {
  const size_t cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const auto first = ReadSide(text.substr(0, cross)), second = ReadSide(text.substr(cross + 1));
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

Result<std::optional<PatchGrid>> ParseGrid(std::string_view text, const std::string& param) {
  if (text == "native") return std::nullopt;
  const auto sides = ParseSides(text);
  const auto fits = [](int side) { return side % 2 == 0 && side < kMaxGridSide; };
  if (sides && fits(sides->first) && fits(sides->second)) return PatchGrid{sides->first, sides->second};
  return Fail(Code::kInvalidRequest,
              fmt::format("{} is '{}', expected native or rows x columns of patches as in 24x44, both even and at most "
                          "{}",
                          param, Shortened(text), kMaxGridSide - 2),
              param);
}

std::string JoinQuery(const std::vector<std::string>& query) { return fmt::format("{}", fmt::join(query, kSeparator)); }

Result<LocateFields> ParseLocateFields(std::string& body, const LocateLimits& limits) {
  return Reader(limits).Read(body);
}

}  // namespace sightline
