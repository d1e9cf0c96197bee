#include "net/transfer.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>

#include "net/head.h"

namespace sightline {
namespace {

constexpr size_t kMostHeaderBytes = 256u << 10;
constexpr int kLongestWaitMs = 1000;  // curl's own timers are shorter; a stop wakes the wait

struct Freed {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, Freed>;

bool HasControlBytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

Result<HeaderList> ListOf(const HttpCall& call) {
  HeaderList list;
  const auto append = [&list](const std::string& line) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) return false;
    static_cast<void>(list.release());  // the longer list owns it
    list.reset(longer);
    return true;
  };
  bool there = append("Expect:");  // not every server knows it, and waiting for one that does not takes a second
  bool typed = false;
  for (const auto& [name, value] : call.headers) {
    if (name.empty() || HasControlBytes(name) || HasControlBytes(value) || name.find(':') != std::string::npos) {
      return Fail(Code::kInvalidRequest, fmt::format("a header of the request to {} has control bytes or a wrong name",
                                                     PrintableUrl(call.url)));
    }
    typed = typed || EqualsIgnoringCase(name, "Content-Type");
    there = there && append(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!typed) there = there && append("Content-Type:");  // curl would call it a form
  if (!there) return Fail(Code::kOutOfMemory, "there is no memory for a request");
  return list;
}

// What the callbacks of one request share.
struct Transfer {
  const HttpCall& call;
  HttpAnswer answer{};
  Status failure{};  // of a sink, a reader or a limit: why we ended the request
  size_t header_bytes = 0;
  uint64_t read_at = 0;

  bool Ends(tl::unexpected<Error> error) {
    failure = std::move(error);
    return true;
  }
};

void ReadStatusLine(std::string_view line, HttpAnswer& answer) {
  // Answers come one after another: of a proxy, 100 Continue, the one that counts. The last one stays.
  answer.headers.clear();
  answer.status = 0;
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return;
  answer.status = std::atoi(std::string(line.substr(space + 1, 3)).c_str());
}

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > kMostHeaderBytes) {
    transfer.Ends(Fail(Code::kHeaderTooLarge, fmt::format("{}: the answer's headers are over {} KiB",
                                                          PrintableUrl(transfer.call.url), kMostHeaderBytes >> 10)));
    return 0;
  }
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.substr(0, 5) == "HTTP/") {
    ReadStatusLine(line, transfer.answer);
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    transfer.answer.headers.emplace_back(line.substr(0, colon), value);
  }
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpAnswer& answer = transfer.answer;
  const size_t bytes = size * count;
  if (transfer.call.sink && answer.status / 100 == 2) {
    transfer.failure = transfer.call.sink(answer, std::as_bytes(std::span(data, bytes)));
  } else if (answer.body.size() + bytes > transfer.call.max_body_bytes) {
    transfer.Ends(Fail(Code::kBodyTooLarge, fmt::format("{}: the answer is over {} bytes", PrintableUrl(answer.url),
                                                        transfer.call.max_body_bytes)));
  } else {
    answer.body.append(data, bytes);
  }
  return transfer.failure ? bytes : CURL_WRITEFUNC_ERROR;
}

size_t OnRead(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const HttpBodyReader& reader = transfer.call.reader;
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(size * count, reader.size - transfer.read_at));
  if (wanted == 0) return 0;
  const auto got = reader.read(transfer.read_at, std::as_writable_bytes(std::span(data, wanted)));
  if (!got || *got == 0 || *got > wanted) {
    transfer.Ends(got ? Fail(Code::kInternal, "the body of a request ended before its size")
                      : tl::make_unexpected(got.error()));
    return CURL_READFUNC_ABORT;
  }
  transfer.read_at += *got;
  return *got;
}

int OnSeek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(user)->read_at = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  const auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.call.sent) transfer.call.sent(static_cast<uint64_t>(sent));
  return 0;
}

void SetBody(CURL* curl, const HttpCall& call, Transfer& transfer) {
  if (call.reader.read) {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(call.reader.size));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, &OnRead);
    curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, &OnSeek);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &transfer);
  } else if (!call.body.empty() || call.method == "POST" || call.method == "PUT" || call.method == "PATCH") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call.body.data());
  }
  if (call.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
}

void SetLimits(CURL* curl, const HttpCall& call, const HttpClientOptions& options) {
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(call.timeout.count()));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
}

constexpr const char* kRootVariables[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"};

// The variable that names roots in place of the system's; nullptr where none does.
const char* RootVariable() {
  const auto* found = std::find_if(std::begin(kRootVariables), std::end(kRootVariables),
                                   [](const char* name) { return !EnvironmentVariable(name).empty(); });
  return found == std::end(kRootVariables) ? nullptr : *found;
}

void SetRoots(CURL* curl) {
  const char* variable = RootVariable();
  if (variable == nullptr) return;
  const std::string roots = EnvironmentVariable(variable);
  std::error_code ignored;
  curl_easy_setopt(curl, std::filesystem::is_directory(roots, ignored) ? CURLOPT_CAPATH : CURLOPT_CAINFO,
                   roots.c_str());
}

// curl reads the lower-case variables, and of the upper-case ones all but HTTP_PROXY, which a web server may have made
// of a stranger's header; then there is a REQUEST_METHOD.
void SetProxy(CURL* curl, const HttpCall& call) {
  if (IsLoopbackUrl(call.url)) {
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  } else if (UrlOrigin(call.url).starts_with("http:") && EnvironmentVariable("http_proxy").empty() &&
             EnvironmentVariable("REQUEST_METHOD").empty()) {
    const std::string proxy = EnvironmentVariable("HTTP_PROXY");
    if (!proxy.empty()) curl_easy_setopt(curl, CURLOPT_PROXY, proxy.c_str());
  }
}

void SetUp(CURL* curl, const HttpCall& call, const HttpClientOptions& options, Transfer& transfer,
           const HeaderList& headers) {
  curl_easy_setopt(curl, CURLOPT_URL, call.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, options.user_agent.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // threads
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  SetRoots(curl);
  SetProxy(curl, call);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, call.sent ? 0L : 1L);
  SetBody(curl, call, transfer);
  SetLimits(curl, call, options);
}

bool IsAboutCertificates(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR ||
         code == CURLE_SSL_INVALIDCERTSTATUS;
}

std::string CertificateAdvice() {
  if (const char* variable = RootVariable()) {
    return fmt::format(
        "check the name in the URL, this machine's clock, and that {}={} holds the roots that vouch for "
        "the server",
        variable, EnvironmentVariable(variable));
  }
  return fmt::format(
      "check the name in the URL and this machine's clock, or set {} to a file or folder of the roots "
      "that vouch for the server",
      fmt::join(kRootVariables, " or "));
}

Code CodeOf(CURLcode code) {
  if (IsAboutCertificates(code)) return Code::kNoPermission;
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return Code::kDeadline;
    case CURLE_OUT_OF_MEMORY:
      return Code::kOutOfMemory;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return Code::kInvalidRequest;
    default:
      return Code::kUnreachable;
  }
}

}  // namespace

struct ClientConnection::Handles {
  std::unique_ptr<CURL, Freed> easy{curl_easy_init()};
  CURLM* multi = curl_multi_init();  // holds the connections that stay open
  std::array<char, CURL_ERROR_SIZE> reason{};

  ~Handles() {
    easy.reset();
    if (multi != nullptr) curl_multi_cleanup(multi);
  }

  // CURLE_ABORTED_BY_CALLBACK when stopped.
  CURLcode Perform(const std::stop_token& stop) {
    if (curl_multi_add_handle(multi, easy.get()) != CURLM_OK) return CURLE_OUT_OF_MEMORY;
    const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi); });
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    int running = 1;
    while (running > 0 && !stop.stop_requested()) {
      if (curl_multi_perform(multi, &running) != CURLM_OK) break;
      if (running > 0) curl_multi_poll(multi, nullptr, 0, kLongestWaitMs, nullptr);
    }
    int left = 0;
    if (const CURLMsg* message = curl_multi_info_read(multi, &left); message != nullptr) code = message->data.result;
    curl_multi_remove_handle(multi, easy.get());
    return code;
  }
};

ClientConnection::ClientConnection() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  handles_ = std::make_unique<Handles>();
}

ClientConnection::~ClientConnection() = default;

Result<HttpAnswer> ClientConnection::Send(const HttpCall& call, const HttpClientOptions& options,
                                          const std::stop_token& stop) {
  CURL* curl = handles_->easy.get();
  if (curl == nullptr || handles_->multi == nullptr) {
    return Fail(Code::kOutOfMemory, "there is no memory for a request");
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const HeaderList headers, ListOf(call));
  Transfer transfer{call};
  transfer.answer.url = call.url;
  curl_easy_reset(curl);  // keeps the connections
  SetUp(curl, call, options, transfer, headers);
  handles_->reason[0] = '\0';
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, handles_->reason.data());
  const CURLcode code = handles_->Perform(stop);
  if (!transfer.failure) return tl::make_unexpected(transfer.failure.error());
  if (code == CURLE_OK) return std::move(transfer.answer);
  const std::string url = PrintableUrl(call.url);
  if (stop.stop_requested()) return Fail(Code::kCancelled, fmt::format("{}: the request was cancelled", url));
  const char* reason = handles_->reason[0] != '\0' ? handles_->reason.data() : curl_easy_strerror(code);
  const std::string advice = IsAboutCertificates(code) ? "; " + CertificateAdvice() : "";
  return Fail(CodeOf(code), fmt::format("{}: {}{}", url, reason, advice));
}

}  // namespace sightline
