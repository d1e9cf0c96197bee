#include <fmt/format.h>

#include <cstdlib>

#include "cli/launching.h"
#include "cli/persona.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sightline {
namespace {

constexpr int kCouldNotConnect = 7;  // what curl itself ends with

std::string DefaultBaseUrl() {
  for (const char* name : {"TT_MODEL_BASE_URL", "TT_KERNEL_BASE_URL"}) {
    if (const char* url = std::getenv(name); url != nullptr && *url != '\0') return url;
  }
  return fmt::format("http://localhost:{}", kDefaultPort);
}

// One question to a server that chats.
class CurlVerb : public Verb {
 public:
  VerbText text() const override {
    return {"curl", "Ask a server that speaks OpenAI's chat protocol", fmt::format("{} curl \"hello\"", ProgramName()),
            "Other options become members of the request: --temperature 0.5, --top-p 0.9, --stream."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("PROMPT", request_.prompt, "TEXT", "what to ask (default: Hello!)");
    options.Flag("--print", print_, "print the curl command, and send nothing");
    options.Text("--model", model_, "NAME", "default: the first that the server lists");
    options.Text("--base-url", request_.base_url, "URL", "default: TT_MODEL_BASE_URL, else http://localhost:20000");
  }
  bool wants_rest() const override { return true; }
  void TakeRest(std::vector<std::string> rest) override { rest_ = std::move(rest); }
  Status Check() override {
    SIGHTLINE_ASSIGN_OR_RETURN(request_.parameters, ChatParameters(rest_));
    return {};
  }
  Result<int> Run() override;

 private:
  Status CheckItChats(Launcher& launcher) const;
  int Send(const ChatCall& call) const;

  ChatRequest request_;
  std::string model_;
  std::vector<std::string> rest_;
  bool print_ = false;
};

// A server that we started and that does something else says so better than with a 404.
Status CurlVerb::CheckItChats(Launcher& launcher) const {
  const std::string origin = UrlOrigin(request_.base_url);
  const bool local = origin.starts_with("http://localhost:") || origin.starts_with("http://127.0.0.1:");
  if (!local) return {};
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<RunningPackage> running, launcher.Running(false, nullptr));
  for (const RunningPackage& row : running) {
    if (row.chat.value_or(true) || !origin.ends_with(fmt::format(":{}", row.port))) continue;
    const bool on_hub = row.target.find('/') != std::string::npos;
    return Fail(Code::kUnsupported,
                fmt::format("{} does not chat: ask curl {}/v1/health or curl {}/v1/models; its own routes are in {}",
                            row.target, request_.base_url, request_.base_url,
                            on_hub ? "https://huggingface.co/" + row.target : "docs/http-api.md"));
  }
  return {};
}

int CurlVerb::Send(const ChatCall& call) const {
  const Interrupts interrupts;
  HttpCall http;
  http.method = "POST";
  http.url = call.url;
  http.headers = {{"Content-Type", "application/json"}};
  http.body = ToJson(call.body, -1);
  // In pieces, so that a streamed answer is seen while it grows.
  http.sink = [](const HttpAnswer&, std::span<const std::byte> bytes) -> Status {
    Print({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return FlushOutput();
  };
  HttpClientOptions options;
  options.stall_timeout = std::chrono::hours(1);  // a model may think for long before its first word
  const auto answer = HttpClient(options).Send(http, interrupts.token());
  if (!answer) {
    PrintError(answer.error().message);
    return answer.error().code == Code::kCancelled ? InterruptedExit() : kCouldNotConnect;
  }
  Print(answer->body + "\n");  // of an error; else empty
  return 0;
}

Result<int> CurlVerb::Run() {
  if (request_.prompt.empty()) request_.prompt = "Hello!";
  if (request_.base_url.empty()) request_.base_url = DefaultBaseUrl();
  while (request_.base_url.ends_with("/")) request_.base_url.pop_back();
  if (!model_.empty()) request_.model = model_;
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Launcher> launcher, MakeLauncher());
  SIGHTLINE_RETURN_IF_ERROR(CheckItChats(*launcher));
  for (const IndexEntry& entry : launcher->store().index().Read()) request_.installed.push_back(entry.id);
  SIGHTLINE_ASSIGN_OR_RETURN(const ChatCall call, PrepareChat(request_));
  if (!print_) return Send(call);
  PrintNote(fmt::format("the model's name is from {}", call.model_source));
  Print(PrintableCurl(call));
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeCurlVerb() { return std::make_unique<CurlVerb>(); }

}  // namespace sightline
