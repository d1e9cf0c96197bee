#include <algorithm>
#include <cmath>

#include "package/package.h"
#include "package/python_text.h"
#include "package/utf8.h"

namespace sightline {
namespace {

void AppendText(const std::string& text, bool ascii, std::string& out) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const auto code = NextCodePoint(text, at);
    switch (code) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (code < 0x20 || (ascii && code > 0x7E)) {
          AppendJsonEscape(code, out);
        } else {
          AppendUtf8(code, out);
        }
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(int indent) : indent_(indent) {}

  void Write(const Value& value) {
    if (const auto* list = value.AsList()) return WriteList(*list);
    if (const auto* map = value.AsMap()) return WriteMap(*map);
    if (const auto* text = value.AsText()) return AppendText(*text, indent_ < 0, text_);
    if (const auto* truth = std::get_if<bool>(&value.data)) {
      text_ += *truth ? "true" : "false";
    } else if (const auto* whole = std::get_if<int64_t>(&value.data)) {
      text_ += std::to_string(*whole);
    } else if (const auto* real = std::get_if<double>(&value.data)) {
      text_ += std::isfinite(*real) ? PythonFloat(*real) : "null";
    } else {
      text_ += "null";
    }
  }
  std::string Take() { return std::move(text_); }

 private:
  void WriteList(const Value::List& list) {
    text_ += '[';
    Enter();
    for (size_t i = 0; i < list.size(); ++i) {
      Separate(i);
      Write(list[i]);
    }
    Leave(!list.empty());
    text_ += ']';
  }
  void WriteMap(const Value::Map& map) {
    text_ += '{';
    Enter();
    for (size_t i = 0; i < map.size(); ++i) {
      Separate(i);
      AppendText(map[i].key, indent_ < 0, text_);
      text_ += ": ";
      Write(map[i].value);
    }
    Leave(!map.empty());
    text_ += '}';
  }
  void Enter() { ++depth_; }
  void Separate(size_t index) {
    if (index > 0) text_ += indent_ < 0 ? ", " : ",";
    if (indent_ >= 0) BreakLine();
  }
  void Leave(bool filled) {
    --depth_;
    if (filled && indent_ >= 0) BreakLine();
  }
  void BreakLine() {
    text_ += '\n';
    text_.append(static_cast<size_t>(indent_) * depth_, ' ');
  }

  int indent_;
  size_t depth_ = 0;
  std::string text_;
};

}  // namespace

bool Value::IsNull() const { return std::holds_alternative<std::monostate>(data); }
const Value::List* Value::AsList() const { return std::get_if<List>(&data); }
const Value::Map* Value::AsMap() const { return std::get_if<Map>(&data); }
Value::Map* Value::AsMap() { return std::get_if<Map>(&data); }
const std::string* Value::AsText() const { return std::get_if<std::string>(&data); }

const Value* Value::Find(std::string_view key) const {
  const Map* map = AsMap();
  if (!map) return nullptr;
  const auto found = std::find_if(map->begin(), map->end(), [&](const Member& member) { return member.key == key; });
  return found == map->end() ? nullptr : &found->value;
}

void Value::Set(std::string_view key, Value value) {
  Map* map = AsMap();
  SIGHTLINE_CHECK(map != nullptr);
  const auto found = std::find_if(map->begin(), map->end(), [&](const Member& member) { return member.key == key; });
  if (found != map->end()) {
    found->value = std::move(value);
  } else {
    map->push_back({std::string(key), std::move(value)});
  }
}

std::optional<std::string> TextIn(const Value& map, std::string_view key) {
  const Value* found = map.Find(key);
  if (!found || !found->AsText() || found->AsText()->empty()) return std::nullopt;
  return *found->AsText();
}

Value MapIn(const Value& map, std::string_view key) {
  const Value* found = map.Find(key);
  return found && found->AsMap() ? *found : Value{Value::Map{}};
}

std::vector<std::string> TextsIn(const Value& map, std::string_view key) {
  std::vector<std::string> texts;
  const Value* found = map.Find(key);
  if (!found || !found->AsList()) return texts;
  for (const Value& item : *found->AsList()) {
    if (item.AsText()) texts.push_back(*item.AsText());
  }
  return texts;
}

bool operator==(const Value& a, const Value& b) { return a.data == b.data; }
bool operator==(const Value::Member& a, const Value::Member& b) { return a.key == b.key && a.value == b.value; }

std::string ToJson(const Value& value, int indent) {
  JsonWriter writer(indent);
  writer.Write(value);
  return writer.Take();
}

}  // namespace sightline
