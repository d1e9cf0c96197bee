#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "package/card_fields.h"
#include "package/document_limits.h"
#include "package/fields.h"
#include "package/manifest_reading.h"
#include "package/python_text.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

constexpr char kGazeLle[] = "gaze-lle";
constexpr char kLocateAnything[] = "locate-anything";

using Names = std::vector<std::string>;

// Text that must be one of `names`.
std::optional<std::string> Choice(FieldReader& fields, std::string_view key, const Names& names) {
  auto text = fields.Text(key);
  if (text && std::find(names.begin(), names.end(), *text) == names.end()) {
    fields.Complain(
        key, fields.Member(key),
        fmt::format("{} is {}, expected one of {}", fields.PathOf(key), PythonQuote(*text), fmt::join(names, ", ")));
  }
  return text;
}

std::optional<int> Bounded(FieldReader& fields, std::string_view key, int least, int most) {
  const auto whole = fields.Whole(key);
  if (!whole) return std::nullopt;
  if (*whole >= least && *whole <= most) return static_cast<int>(*whole);
  fields.Complain(key, fields.Member(key),
                  fmt::format("{} is {}, expected {} to {}", fields.PathOf(key), *whole, least, most));
  return std::nullopt;
}

// "native", or patches as "24x44": even sides from 2 to 1000.
bool IsGrid(std::string_view text) {
  if (text == "native") return true;
  const size_t cross = text.find('x');
  if (cross == std::string_view::npos) return false;
  const auto is_side = [](std::string_view side) {
    int count = 0;
    const auto read = std::from_chars(side.data(), side.data() + side.size(), count);
    return read.ec == std::errc() && read.ptr == side.data() + side.size() && count >= 2 && count <= 1000 &&
           count % 2 == 0;
  };
  return is_side(text.substr(0, cross)) && is_side(text.substr(cross + 1));
}

WeightsPointer ReadPinnedWeights(const Value& value, ProblemList& problems) {
  FieldReader fields(value, "weights", problems, UnknownKeys::kRefused);
  WeightsPointer weights;
  weights.repo = fields.RequiredText("repo");
  if (!IsRepositoryId(weights.repo) && !problems.Holds("weights.repo")) {
    fields.Complain(
        "repo", value.Find("repo"),
        fmt::format("weights.repo must be a namespaced HF id (org/name), got {}", PythonQuote(weights.repo)));
  }
  weights.revision = fields.RequiredText("revision");
  const bool commit =
      weights.revision->size() == 40 && weights.revision->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!commit && !problems.Holds("weights.revision")) {
    fields.Complain("revision", value.Find("revision"),
                    fmt::format("weights.revision is {}, expected a commit of 40 hexadecimal digits",
                                PythonQuote(*weights.revision)));
  }
  weights.allow_patterns = fields.Texts("allow_patterns");
  fields.Finish();
  return weights;
}

NativeServe ReadServe(const Value& value, const std::string& model, ProblemList& problems) {
  FieldReader fields(value, "serve", problems, UnknownKeys::kRefused);
  NativeServe serve;
  serve.port = Bounded(fields, "port", 1, 65'535);
  if (model == kGazeLle) {
    serve.max_heads = Bounded(fields, "max_heads", 1, 1000);
  } else {
    serve.grid = fields.Text("grid");
    if (serve.grid && !IsGrid(*serve.grid)) {
      fields.Complain("grid", value.Find("grid"),
                      fmt::format("serve.grid is {}, expected even sides as HxW, or native", PythonQuote(*serve.grid)));
    }
    serve.in_token_limit = Bounded(fields, "in_token_limit", 4, 1'000'000);
    serve.max_new_tokens = Bounded(fields, "max_new_tokens", 1, 32'768);
  }
  fields.Finish();
  return serve;
}

}  // namespace

NativePackage ReadNativePackage(const Value& root, ProblemList& problems) {
  FieldReader fields(root, "", problems, UnknownKeys::kRefused);
  NativePackage package;
  const std::string schema = fields.RequiredText("schema");
  if (schema != "1" && !problems.Holds("schema")) {
    fields.Complain("schema", root.Find("schema"), fmt::format("schema is {}, expected '1'", PythonQuote(schema)));
  }
  if (fields.RequiredMember("model")) {
    package.model = Choice(fields, "model", {kGazeLle, kLocateAnything}).value_or("");
  }
  if (const Value* weights = fields.RequiredMember("weights")) package.weights = ReadPinnedWeights(*weights, problems);
  const bool gaze = package.model == kGazeLle;
  package.precision =
      Choice(fields, "precision", gaze ? Names{"f32", "bf16"} : Names{"f32", "bf16", "int8", "int8w", "int4"});
  if (const Value* serve = fields.Member("serve")) package.serve = ReadServe(*serve, package.model, problems);
  if (const Value* license = fields.RequiredMember("license")) {
    package.license = ReadLicense(*license, "license", CardSource::kAuthor, problems);
  }
  fields.Finish();
  return package;
}

std::vector<std::string> NativePackage::ServeOptions() const {
  std::vector<std::string> words;
  const auto add = [&words](const char* option, const auto& value) {
    if (value) words.insert(words.end(), {option, fmt::format("{}", *value)});
  };
  add("--precision", precision);
  add("--max-heads", serve.max_heads);
  add("--grid", serve.grid);
  add("--in-token-limit", serve.in_token_limit);
  add("--max-new-tokens", serve.max_new_tokens);
  return words;
}

Result<NativePackage> NativePackage::Parse(std::string_view text, const std::string& name) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Value root, ParseYaml(text, name));
  ProblemList problems;
  NativePackage package = ReadNativePackage(root, problems);
  if (!problems.all().empty()) return tl::make_unexpected(ErrorOf(problems.all().front(), name));
  return package;
}

Result<NativePackage> NativePackage::Load(const std::filesystem::path& path) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto bytes, ReadFile(path, kMostDocumentBytes));
  return Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace sightline
