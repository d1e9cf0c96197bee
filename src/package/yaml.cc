#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>

#include "package/document_limits.h"
#include "package/package.h"
#include "package/plain_scalar.h"
#include "package/utf8.h"

namespace sightline {
namespace {

// What is wrong, on its way out of the library that calls us.
struct Refusal {
  int line;  // from 1
  std::string reason;
};

constexpr std::string_view kStandardTags = "tag:yaml.org,2002:";

[[noreturn]] void Refuse(const YAML::Mark& mark, std::string reason) {
  throw Refusal{mark.line + 1, std::move(reason)};
}

size_t DepthOf(const Value& value) {
  size_t deepest = 0;
  if (const auto* list = value.AsList()) {
    for (const Value& item : *list) deepest = std::max(deepest, DepthOf(item));
  }
  if (const auto* map = value.AsMap()) {
    for (const auto& member : *map) deepest = std::max(deepest, DepthOf(member.value));
  }
  return deepest + 1;
}

// Builds the tree from events, so that limits hold before anything is stored and no scalar loses its quotes.
class TreeBuilder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Refuse(mark, "a second document begins here, expected one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Add(mark, anchor, Value{}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    Add(mark, anchor, ReadScalar(mark, tag, text), tag == "?" && text == "<<");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    CheckCollectionTag(mark, tag, "seq");
    Open(mark, anchor, Value{Value::List{}});
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    CheckCollectionTag(mark, tag, "map");
    Open(mark, anchor, Value{Value::Map{}});
  }
  void OnMapEnd() override { Close(); }

  Value Take() { return std::move(root_); }

 private:
  // A list or map that is being read.
  struct Level {
    Value value;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    std::optional<std::string> key{};  // of a map: waits for its value
    bool merges = false;               // the key is <<
    Value::Map merged{};               // what << brought: given way to by keys of the map itself
  };

  static void CheckCollectionTag(const YAML::Mark& mark, const std::string& tag, std::string_view kind) {
    if (tag == "?" || tag == "!" || tag.empty() || tag == fmt::format("{}{}", kStandardTags, kind)) return;
    Refuse(mark, fmt::format("the tag {} is not known", tag));
  }
  static Value ReadScalar(const YAML::Mark& mark, const std::string& tag, const std::string& text);
  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, Value value);
  void Close();
  void Add(const YAML::Mark& mark, YAML::anchor_t anchor, Value value, bool is_merge_key = false);
  void AddToMap(const YAML::Mark& mark, Value value, bool is_merge_key);
  void Merge(const YAML::Mark& mark, const Value& value);
  void Count(const YAML::Mark& mark, const Value& value);

  int documents_ = 0;
  Value root_;
  std::vector<Level> levels_;
  std::vector<std::pair<YAML::anchor_t, Value>> anchors_;
  size_t values_ = 0, text_bytes_ = 0;
};

Value TreeBuilder::ReadScalar(const YAML::Mark& mark, const std::string& tag, const std::string& text) {
  if (tag == "!") return Value{text};
  if (tag == "?" || tag.empty()) {
    auto value = ReadPlainScalar(text);
    if (!value) Refuse(mark, value.error().message);
    return *value;
  }
  const auto is = [&](std::string_view name) { return tag == fmt::format("{}{}", kStandardTags, name); };
  std::optional<Value> value;
  if (is("str")) return Value{text};
  if (is("int")) value = ReadAsInteger(text);
  if (is("float")) value = ReadAsFloat(text);
  if (is("bool")) value = ReadAsBool(text);
  if (is("null")) value = Value{};
  if (!value) Refuse(mark, fmt::format("the tag {} is not known or does not fit its value", tag));
  return *value;
}

void TreeBuilder::Count(const YAML::Mark& mark, const Value& value) {
  if (++values_ > kMostValues) Refuse(mark, fmt::format("more than {} values, expected fewer", kMostValues));
  if (const auto* text = value.AsText()) text_bytes_ += text->size();
  if (const auto* list = value.AsList()) {
    for (const Value& item : *list) Count(mark, item);
  }
  if (const auto* map = value.AsMap()) {
    for (const auto& [key, member] : *map) {
      text_bytes_ += key.size();
      Count(mark, member);
    }
  }
  if (text_bytes_ > kMostTextBytes) Refuse(mark, "aliases repeat too much text");
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  // The latest of that name: the library counts anchors up, so there is one.
  const auto found = std::find_if(anchors_.begin(), anchors_.end(), [&](const auto& it) { return it.first == anchor; });
  if (found == anchors_.end()) Refuse(mark, "an alias stands inside of what it repeats");
  if (levels_.size() + DepthOf(found->second) > kMostLevels) {
    Refuse(mark, fmt::format("lists and maps stand more than {} levels deep", kMostLevels));
  }
  Value copy = found->second;
  Count(mark, copy);
  Add(mark, 0, std::move(copy));
}

void TreeBuilder::Open(const YAML::Mark& mark, YAML::anchor_t anchor, Value value) {
  if (levels_.size() + 1 >= kMostLevels) {
    Refuse(mark, fmt::format("lists and maps stand more than {} levels deep", kMostLevels));
  }
  const bool as_key = !levels_.empty() && levels_.back().value.AsMap() && !levels_.back().key;
  if (as_key) Refuse(mark, "a list or map stands where a key is expected");
  value.line = mark.line + 1;
  Count(mark, value);
  levels_.push_back({std::move(value), anchor, mark});
}

void TreeBuilder::Close() {
  Level level = std::move(levels_.back());
  levels_.pop_back();
  if (auto* map = level.value.AsMap()) {
    for (auto& member : level.merged) {
      if (!level.value.Find(member.key)) map->push_back(std::move(member));
    }
  }
  Add(level.mark, level.anchor, std::move(level.value));
}

void TreeBuilder::Add(const YAML::Mark& mark, YAML::anchor_t anchor, Value value, bool is_merge_key) {
  if (!value.AsList() && !value.AsMap()) Count(mark, value);
  if (value.line == 0) value.line = mark.line + 1;
  if (anchor != 0) {
    Count(mark, value);
    anchors_.emplace_back(anchor, value);
  }
  if (levels_.empty()) {
    root_ = std::move(value);
  } else if (auto* list = std::get_if<Value::List>(&levels_.back().value.data)) {
    list->push_back(std::move(value));
  } else {
    AddToMap(mark, std::move(value), is_merge_key);
  }
}

void TreeBuilder::AddToMap(const YAML::Mark& mark, Value value, bool is_merge_key) {
  Level& level = levels_.back();
  if (!level.key) {
    if (!value.AsText()) {
      Refuse(mark, "a key is expected to be text; yes, no, on, off, null and numbers are not, unless in quotes");
    }
    if (const Value* earlier = is_merge_key ? nullptr : level.value.Find(*value.AsText())) {
      Refuse(mark, fmt::format("{} is given twice, before on line {}", *value.AsText(), earlier->line));
    }
    if (level.value.AsMap()->size() >= kMostMembers) {
      Refuse(mark, fmt::format("a map has more than {} keys", kMostMembers));
    }
    level.key = *value.AsText();
    level.merges = is_merge_key;
    return;
  }
  if (level.merges) {
    Merge(mark, value);
  } else {
    level.value.AsMap()->push_back({std::move(*level.key), std::move(value)});
  }
  level.key.reset();
}

void TreeBuilder::Merge(const YAML::Mark& mark, const Value& value) {
  if (const auto* list = value.AsList()) {
    for (const Value& item : *list) {
      if (!item.AsMap()) Refuse(mark, "<< takes a map, or a list of maps");
      Merge(mark, item);
    }
    return;
  }
  if (!value.AsMap()) Refuse(mark, "<< takes a map, or a list of maps");
  Value merged{std::move(levels_.back().merged)};
  for (const auto& [key, member] : *value.AsMap()) {
    if (merged.AsMap()->size() >= kMostMembers) Refuse(mark, fmt::format("a map has more than {} keys", kMostMembers));
    if (!merged.Find(key)) merged.AsMap()->push_back({key, member});
  }
  levels_.back().merged = std::move(*merged.AsMap());
}

tl::unexpected<Error> NotYaml(const std::string& name, int line, std::string_view reason) {
  return Fail(Code::kInvalidRequest, fmt::format("{}:{}: not valid YAML: {}", name, line, reason));
}

}  // namespace

Result<Value> ParseYaml(std::string_view text, const std::string& name) {
  if (text.size() > kMostDocumentBytes) {
    return Fail(Code::kInvalidRequest,
                fmt::format("{} has {} bytes, expected at most {}", name, text.size(), kMostDocumentBytes));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (const auto at = FindUnprintable(text)) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
    return NotYaml(name, static_cast<int>(line) + 1, "a byte is neither printable nor UTF-8");
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.Take();
  } catch (const Refusal& refusal) {
    return NotYaml(name, refusal.line, refusal.reason);
  } catch (const YAML::Exception& error) {
    return NotYaml(name, error.mark.line + 1, error.msg);
  } catch (const std::exception& error) {
    return NotYaml(name, 1, error.what());
  }
}

}  // namespace sightline
