#include "package/serve_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "package/python_text.h"

namespace sightline {
namespace {

bool IsScalar(const Value& value) { return !value.AsList() && !value.AsMap(); }

ServeCapabilities ReadCapabilities(const Value& value, const std::string& path, ProblemList& problems) {
  FieldReader fields(value, path, problems, UnknownKeys::kRefused);
  ServeCapabilities capabilities{fields.Text("tool_parser"), fields.Text("reasoning_parser")};
  fields.Finish();
  return capabilities;
}

// Words of a command line: a NUL would cut one short.
bool IsWord(const Value& value) {
  return IsScalar(value) && !(value.AsText() && value.AsText()->find('\0') != std::string::npos);
}

std::vector<Value> ReadArgs(FieldReader& fields, ProblemList& problems) {
  std::vector<Value> args = fields.List("args");
  for (size_t i = 0; i < args.size(); ++i) {
    const auto* list = args[i].AsList();
    const bool good = list ? std::all_of(list->begin(), list->end(), IsWord) : IsWord(args[i]);
    if (good) continue;
    const std::string at = PathOfItem(fields.PathOf("args"), i);
    problems.Add(at, args[i].line, fmt::format("{} is expected to be a scalar or a list of scalars", at));
    args[i] = Value{std::string()};
  }
  return args;
}

bool HoldsInfinity(const Value& value) {
  if (const auto* real = std::get_if<double>(&value.data)) return !std::isfinite(*real);
  if (const auto* list = value.AsList()) return std::any_of(list->begin(), list->end(), HoldsInfinity);
  const auto* map = value.AsMap();
  return map && std::any_of(map->begin(), map->end(), [](const auto& member) { return HoldsInfinity(member.value); });
}

void ReadSettings(FieldReader& fields, ProblemList& problems, ServeSettings& settings) {
  settings.hardware = fields.Text("hardware");
  settings.mesh_device = fields.Text("mesh_device");
  settings.port = fields.Whole("port");
  if (settings.port && (*settings.port < 0 || *settings.port > 65'535)) {
    fields.Complain("port", fields.Member("port"),
                    fmt::format("{} is {}, expected at most 65535", fields.PathOf("port"), *settings.port));
  }
  settings.max_model_len = fields.Whole("max_model_len");
  settings.max_num_seqs = fields.Whole("max_num_seqs");
  settings.block_size = fields.Whole("block_size");
  settings.server_timeout = fields.Whole("server_timeout");
  if (const Value* capabilities = fields.Member("capabilities")) {
    settings.capabilities = ReadCapabilities(*capabilities, fields.PathOf("capabilities"), problems);
  }
  settings.additional_config = fields.Map("additional_config");
  if (HoldsInfinity(settings.additional_config)) {
    fields.Complain(
        "additional_config", &settings.additional_config,
        fmt::format("{} holds infinity or NaN, which JSON cannot carry", fields.PathOf("additional_config")));
  }
  settings.args = ReadArgs(fields, problems);
  settings.env = fields.Environment("env");
}

void AddSettings(const ServeSettings& settings, Value& map) {
  map.Set("hardware", TextOrNull(settings.hardware));
  map.Set("mesh_device", TextOrNull(settings.mesh_device));
  map.Set("port", WholeOrNull(settings.port));
  map.Set("max_model_len", WholeOrNull(settings.max_model_len));
  map.Set("max_num_seqs", WholeOrNull(settings.max_num_seqs));
  map.Set("block_size", WholeOrNull(settings.block_size));
  map.Set("server_timeout", WholeOrNull(settings.server_timeout));
  Value capabilities;
  if (settings.capabilities) {
    capabilities.data = Value::Map{};
    capabilities.Set("tool_parser", TextOrNull(settings.capabilities->tool_parser));
    capabilities.Set("reasoning_parser", TextOrNull(settings.capabilities->reasoning_parser));
  }
  map.Set("capabilities", std::move(capabilities));
  map.Set("additional_config", settings.additional_config);
  map.Set("args", Value{settings.args});
  map.Set("env", ToValue(settings.env));
}

bool IsEmptyOrNull(const Value& value) {
  if (const auto* list = value.AsList()) return list->empty();
  if (const auto* map = value.AsMap()) return map->empty();
  return value.IsNull();
}

// Absent, null and empty values of `over` let those of `base` stand; maps merge key by key.
void MergeInto(Value::Map& base, const Value::Map& over) {
  for (const auto& [key, value] : over) {
    const auto inherited =
        std::find_if(base.begin(), base.end(), [&, name = &key](const auto& member) { return member.key == *name; });
    if (inherited == base.end()) {
      if (!IsEmptyOrNull(value)) base.push_back({key, value});
    } else if (inherited->value.AsMap() && value.AsMap()) {
      MergeInto(*inherited->value.AsMap(), *value.AsMap());
    } else if (!IsEmptyOrNull(value)) {
      inherited->value = value;
    }
  }
}

template <typename T>
void Inherit(std::optional<T>& base, const std::optional<T>& over) {
  if (over) base = over;
}

}  // namespace

Value TextOrNull(const std::optional<std::string>& text) { return text ? Value{*text} : Value{}; }
Value WholeOrNull(const std::optional<int64_t>& whole) { return whole ? Value{*whole} : Value{}; }
Value TextsOrNull(const std::optional<std::vector<std::string>>& texts) { return texts ? ToValue(*texts) : Value{}; }

Value ToValue(const std::vector<std::string>& texts) {
  Value::List list;
  for (const std::string& text : texts) list.push_back(Value{text});
  return Value{std::move(list)};
}

Value ToValue(const EnvironmentList& environment) {
  Value map{Value::Map{}};
  for (const auto& [name, value] : environment) map.Set(name, Value{value});
  return map;
}

Value ToValue(const ServeSettings& settings) {
  Value map{Value::Map{}};
  AddSettings(settings, map);
  return map;
}

Value ToValue(const ServeProfile& profile) {
  Value map{Value::Map{}};
  AddSettings(profile, map);
  map.Set("name", Value{profile.name});
  map.Set("description", TextOrNull(profile.description));
  return map;
}

ServeSettings ReadServeSettings(const Value& value, const std::string& path, ProblemList& problems) {
  FieldReader fields(value, path, problems, UnknownKeys::kRefused);
  ServeSettings settings;
  ReadSettings(fields, problems, settings);
  fields.Finish();
  return settings;
}

ServeProfile ReadServeProfile(const Value& value, const std::string& path, ProblemList& problems) {
  FieldReader fields(value, path, problems, UnknownKeys::kRefused);
  ServeProfile profile;
  ReadSettings(fields, problems, profile);
  profile.name = fields.RequiredText("name");
  profile.description = fields.Text("description");
  fields.Finish();
  return profile;
}

std::vector<std::string> FlatArgs(const ServeSettings& settings) {
  std::vector<std::string> words;
  for (const Value& arg : settings.args) {
    if (const auto* list = arg.AsList()) {
      for (const Value& item : *list) words.push_back(PythonText(item));
    } else {
      words.push_back(PythonText(arg));
    }
  }
  return words;
}

ServeProfile MergeProfile(const ServeSettings& serve, const ServeProfile& profile) {
  ServeProfile merged{serve, profile.name, profile.description};
  Inherit(merged.hardware, profile.hardware);
  Inherit(merged.mesh_device, profile.mesh_device);
  Inherit(merged.port, profile.port);
  Inherit(merged.max_model_len, profile.max_model_len);
  Inherit(merged.max_num_seqs, profile.max_num_seqs);
  Inherit(merged.block_size, profile.block_size);
  Inherit(merged.server_timeout, profile.server_timeout);
  if (profile.capabilities) {
    if (!merged.capabilities) merged.capabilities.emplace();
    Inherit(merged.capabilities->tool_parser, profile.capabilities->tool_parser);
    Inherit(merged.capabilities->reasoning_parser, profile.capabilities->reasoning_parser);
  }
  MergeInto(*merged.additional_config.AsMap(), *profile.additional_config.AsMap());
  if (!profile.args.empty()) merged.args = profile.args;
  for (const auto& variable : profile.env) {
    const auto found = std::find_if(merged.env.begin(), merged.env.end(),
                                    [&](const auto& inherited) { return inherited.first == variable.first; });
    if (found != merged.env.end()) {
      found->second = variable.second;
    } else {
      merged.env.push_back(variable);
    }
  }
  return merged;
}

bool IsRepositoryId(std::string_view id) {
  const size_t slash = id.find('/');
  if (slash == std::string_view::npos || id.size() > 200) return false;
  const auto is_part = [](std::string_view part) {
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
             c == '.';
    };
    return !part.empty() && part.front() != '.' && part.front() != '-' && part.back() != '.' &&
           part.find("..") == std::string_view::npos && std::all_of(part.begin(), part.end(), allowed);
  };
  return is_part(id.substr(0, slash)) && is_part(id.substr(slash + 1));
}

bool IsSafeRevision(std::string_view revision) {
  if (revision.empty() || revision.size() > 255 || revision.front() == '/' || revision.front() == '-') return false;
  if (revision.find("..") != std::string_view::npos) return false;
  return std::all_of(revision.begin(), revision.end(), [](char c) { return c > ' ' && c != 0x7F && c != '\\'; });
}

}  // namespace sightline
