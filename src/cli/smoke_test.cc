#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "net/net.h"
#include "server/server.h"

extern "C" const std::byte sightline_smoke_picture[], sightline_smoke_picture_end[];

namespace sightline {
namespace {

using nlohmann::json;

constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr std::chrono::minutes kPatience{15};

// Asks a LocateAnything server as the published one's smoke test does, and prints its line.
class SmokeTestVerb : public Verb {
 public:
  VerbText text() const override {
    return {"smoke-test", "Ask a running LocateAnything server one question",
            "sightline smoke-test --url http://127.0.0.1:20000 --save overlay.png",
            "Prints PASS and what was answered, or FAIL and why; the exit code is 0 or 1."};
  }
  void Declare(OptionSet& options) override {
    options.Text("--url", url_, "URL", "of the server, as in http://127.0.0.1:20000");
    options.File("--image", image_, "picture to send (default: the drawing of a car that ships with the program)");
    options.Text("--query", query_, "TEXT", "what to find (default car)");
    options.File("--save", save_, "write the picture with the answer drawn in to this PNG");
  }
  Status Check() override {
    if (url_.empty()) return Fail(Code::kUsage, "--url is missing, expected that of a server");
    return {};
  }
  Result<int> Run() override;

 private:
  Result<std::string> Body() const;
  Result<std::string> Ask() const;  // the line that follows PASS
  Status Save(const json& answer) const;

  std::string url_, query_ = "car";
  std::filesystem::path image_, save_;
};

Result<std::string> SmokeTestVerb::Body() const {
  std::vector<std::byte> picture(sightline_smoke_picture, sightline_smoke_picture_end);
  if (!image_.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(picture, ReadFile(image_, kMostFileBytes));
  }
  const json body{{"image", EncodeBase64(picture)}, {"query", query_}, {"return_overlay", !save_.empty()}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

// As Python shows a list of texts.
std::string PythonList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) {
    const char mark = text.find('\'') == std::string::npos ? '\'' : '"';
    quoted.push_back(fmt::format("{}{}{}", mark, OneLine(text), mark));
  }
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::vector<std::string> LabelsOf(const json& answer) {
  std::vector<std::string> labels;
  for (const char* list : {"detections", "points"}) {
    for (const json& found : answer.at(list)) {
      const std::string label = found.at("label").is_null() ? "None" : found.at("label").get<std::string>();
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    }
  }
  return labels;
}

// Throws where something is missing or of another type.
std::string PassLine(const json& answer) {
  const json& grid = answer.at("grid_hw");
  const json& size = answer.at("canonical_size");
  const json& timing = answer.at("timing_ms");
  return fmt::format(
      "{} boxes labels={} tokens={} eos={} grid=[{}, {}] canon=[{}, {}] mode={} vision={:.0f}ms prefill={:.0f}ms "
      "decode={:.0f}ms ({:.1f} tok/s)",
      answer.at("detections").size(), PythonList(LabelsOf(answer)), answer.at("num_generated_tokens").get<int64_t>(),
      answer.at("stopped_on_eos").get<bool>() ? "True" : "False", grid.at(0).get<int>(), grid.at(1).get<int>(),
      size.at(0).get<int>(), size.at(1).get<int>(), answer.at("decode_mode").get<std::string>(),
      timing.at("vision").get<double>(), timing.at("prefill").get<double>(), timing.at("decode").get<double>(),
      timing.at("decode_tok_s").get<double>());
}

Status SmokeTestVerb::Save(const json& answer) const {
  if (save_.empty()) return {};
  SIGHTLINE_ASSIGN_OR_RETURN(const auto file, DecodeImageText(answer.at("overlay_png_b64").get<std::string>()));
  return WriteFileAtomically(save_, file);
}

// ": <what a server says of its error>": the published one beside, ours on other routes inside; or nothing.
std::string Reason(const json& answer) {
  if (!answer.is_object()) return "";
  const json error = answer.value("error", json::object());
  const json reason = answer.value("detail", error.is_object() ? error.value("message", json()) : json());
  return reason.is_string() ? ": " + reason.get<std::string>() : "";
}

Result<std::string> SmokeTestVerb::Ask() const {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::string body, Body());
  const std::string url = url_.substr(0, url_.find_last_not_of('/') + 1) + "/predict";
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer reply, PostJson(url, body, kPatience));
  const json answer = json::parse(reply.body, nullptr, false);
  if (reply.status != 200) {
    return Fail(Code::kUnreachable, fmt::format("status {}{}", reply.status, Reason(answer)));
  }
  try {
    SIGHTLINE_RETURN_IF_ERROR(Save(answer));
    return PassLine(answer);
  } catch (const json::exception& wrong) {
    return Fail(Code::kInvalidRequest, fmt::format("the answer has another form: {}", wrong.what()));
  }
}

Result<int> SmokeTestVerb::Run() {
  const Result<std::string> line = Ask();
  Print(line ? "PASS " + *line + "\n" : "FAIL " + OneLine(line.error().message) + "\n");
  return line ? 0 : 1;
}

}  // namespace

std::unique_ptr<Verb> MakeSmokeTestVerb() { return std::make_unique<SmokeTestVerb>(); }

}  // namespace sightline
