#include <fmt/format.h>

#include <algorithm>

#include "launch/launch.h"

namespace sightline {
namespace {

constexpr int64_t kTokens = 64;  // of an answer, unless the user says otherwise

Value Text(std::string text) { return Value{std::move(text)}; }

// The id of the first entry of an OpenAI list of models.
std::optional<std::string> FirstModel(const std::string& base_url, std::stop_token stop) {
  HttpCall call;
  call.url = base_url + "/v1/models";
  call.timeout = std::chrono::seconds(5);
  const auto answer = HttpClient().Send(call, std::move(stop));
  if (!answer || answer->status != 200) return std::nullopt;
  const auto document = ParseJson(answer->body, "models");
  const Value* data = document ? document->Find("data") : nullptr;
  const Value::List* list = data == nullptr ? nullptr : data->AsList();
  const Value* id = list == nullptr || list->empty() ? nullptr : list->front().Find("id");
  const std::string* text = id == nullptr ? nullptr : id->AsText();
  if (text == nullptr) return std::nullopt;
  return *text;
}

// As JSON where it is JSON, else as the text it is.
Value Typed(const std::string& text) {
  if (auto value = ParseJson(text, "value")) return *std::move(value);
  return Text(text);
}

}  // namespace

Result<ChatCall> PrepareChat(const ChatRequest& request, std::stop_token stop) {
  ChatCall call;
  call.url = request.base_url + "/v1/chat/completions";
  std::string model;
  if (request.model) {
    model = *request.model;
    call.model_source = "--model";
  } else if (const auto served = FirstModel(request.base_url, stop)) {
    model = *served;
    call.model_source = request.base_url + "/v1/models";
  } else if (request.installed.size() == 1) {
    model = request.installed.front();
    call.model_source = "the only package that is installed";
  } else {
    return Fail(Code::kNotFound, fmt::format("no server answers on {}/v1/models: name the model with --model, or serve "
                                             "one first",
                                             request.base_url));
  }
  Value message{Value::Map{}};
  message.Set("role", Text("user"));
  message.Set("content", Text(request.prompt));
  call.body = Value{Value::Map{}};
  call.body.Set("model", Text(model));
  call.body.Set("messages", Value{Value::List{std::move(message)}});
  call.body.Set("max_tokens", Value{kTokens});
  for (const auto& [key, value] : *request.parameters.AsMap()) call.body.Set(key, value);
  return call;
}

Result<Value> ChatParameters(const std::vector<std::string>& words) {
  Value parameters{Value::Map{}};
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--") || words[i].size() == 2) {
      return Fail(Code::kUsage,
                  fmt::format("'{}' is not understood, expected options like --temperature 0.5", words[i]));
    }
    std::string key = words[i].substr(2);
    std::optional<std::string> value;
    if (const size_t equals = key.find('='); equals != std::string::npos) {
      value = key.substr(equals + 1);
      key.resize(equals);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      value = words[++i];
    }
    std::ranges::replace(key, '-', '_');
    parameters.Set(key, value ? Typed(*value) : Value{true});
  }
  return parameters;
}

std::string PrintableCurl(const ChatCall& call) {
  return fmt::format("curl -sS {} \\\n  -H {} \\\n  -d {}\n", ShellQuote(call.url),
                     ShellQuote("Content-Type: application/json"), ShellQuote(ToJson(call.body, -1)));
}

}  // namespace sightline
