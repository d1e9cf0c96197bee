#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "package/document_limits.h"
#include "package/package.h"

namespace sightline {
namespace {

// Builds the tree from events, so that limits hold before anything is stored.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(Value{}); }
  bool boolean(bool value) override { return Add(Value{value}); }
  bool number_integer(number_integer_t value) override { return Add(Value{static_cast<int64_t>(value)}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Add(Value{static_cast<double>(value)});
    }
    return Add(Value{static_cast<int64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t&) override { return Add(Value{value}); }
  bool string(string_t& text) override { return Add(Value{std::move(text)}); }
  bool binary(binary_t&) override { return Refuse("holds binary data"); }
  bool start_object(size_t) override { return Open(Value{Value::Map{}}); }
  bool start_array(size_t) override { return Open(Value{Value::List{}}); }
  bool key(string_t& text) override {
    if (levels_.back().value.Find(text)) return Refuse(fmt::format("gives \"{}\" twice", text));
    if (levels_.back().value.AsMap()->size() >= kMostMembers) {
      return Refuse(fmt::format("has a map of more than {} keys", kMostMembers));
    }
    levels_.back().key = std::move(text);
    return true;
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Refuse(fmt::format("is not valid JSON at byte {}", position));
  }

  Value Take() { return std::move(root_); }
  const std::string& reason() const { return reason_; }

 private:
  struct Level {
    Value value;
    std::string key;
  };

  bool Refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }
  bool Open(Value value) {
    if (levels_.size() + 1 >= kMostJsonLevels)
      return Refuse(fmt::format("is more than {} levels deep", kMostJsonLevels));
    levels_.push_back({std::move(value), {}});
    return true;
  }
  bool Close() {
    Value value = std::move(levels_.back().value);
    levels_.pop_back();
    return Add(std::move(value));
  }
  bool Add(Value value) {
    if (++values_ > kMostJsonValues) return Refuse(fmt::format("holds more than {} values", kMostJsonValues));
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (auto* list = std::get_if<Value::List>(&levels_.back().value.data)) {
      list->push_back(std::move(value));
    } else {
      levels_.back().value.AsMap()->push_back({std::move(levels_.back().key), std::move(value)});
    }
    return true;
  }

  Value root_;
  std::vector<Level> levels_;
  std::string reason_ = "is not valid JSON";
  size_t values_ = 0;
};

}  // namespace

Result<Value> ParseJson(std::string_view text, const std::string& name) {
  if (text.size() > kMostJsonBytes) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{} has {} bytes, expected at most {}", name, text.size(), kMostJsonBytes));
  }
  TreeBuilder builder;
  try {
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.Take();
  } catch (const std::exception&) {
    return Fail(Code::kInvalidRequest, fmt::format("{} is not valid JSON", name));
  }
  return Fail(Code::kInvalidRequest, fmt::format("{} {}", name, builder.reason()));
}

}  // namespace sightline
