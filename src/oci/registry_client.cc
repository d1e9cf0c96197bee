// Manifests and blobs of one repository (distribution specification 1.1).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "oci/blob.h"
#include "oci/documents.h"
#include "oci/partial_blob.h"
#include "oci/registry_session.h"

namespace sightline {
namespace {

constexpr const char* kAccepted =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
constexpr const char* kBytes = "application/octet-stream";
constexpr const char* kDigestHeader = "Docker-Content-Digest";

bool Succeeded(const HttpAnswer& answer) { return answer.status >= 200 && answer.status < 300; }

// "0-1023" of an upload: 1024. Nothing when it cannot be read.
std::optional<uint64_t> UploadedBytes(std::string_view range) {
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view last = range.substr(dash + 1);
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(last.data(), last.data() + last.size(), value);
  if (problem != std::errc() || end != last.data() + last.size()) return std::nullopt;
  return value == 0 ? 0 : value + 1;  // registries say 0-0 of an empty upload
}

std::string WithQuery(const std::string& url, const std::string& query) {
  return url + (url.find('?') == std::string::npos ? "?" : "&") + query;
}

std::string MediaTypeOf(const HttpAnswer& answer) {
  const std::string_view type = answer.Header("Content-Type");
  return std::string(type.substr(0, type.find(';')));
}

// A part of a file as the body of a request.
HttpBodyReader PartOf(int descriptor, uint64_t begin, uint64_t size, const std::filesystem::path& file) {
  const auto read = [=](uint64_t offset, std::span<std::byte> bytes) -> Result<size_t> {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(bytes.size(), size - offset));
    const ssize_t count = ::pread(descriptor, bytes.data(), wanted, static_cast<off_t>(begin + offset));
    if (count > 0) return static_cast<size_t>(count);
    if (count < 0) return tl::make_unexpected(ErrnoError("read", file, errno));
    return Fail(Code::kInvalidRequest, fmt::format("{}: became shorter while it was sent", file.string()));
  };
  return {size, read};
}

// One blob on its way to a registry.
class Upload {
 public:
  Upload(RegistrySession* session, const OciDescriptor& blob, const std::filesystem::path& file, int descriptor)
      : session_(session), blob_(blob), file_(file), descriptor_(descriptor) {}

  Status Start() {
    HttpCall call;
    call.method = "POST";
    call.url = session_->Url("blobs/uploads/");
    SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, session_->Send(call));
    if (answer.status != 202) return tl::make_unexpected(session_->Refused(answer, "start an upload"));
    sent_ = 0;
    return FollowLocation(answer);
  }

  Status SendAll() {
    const uint64_t chunk = session_->options().chunk_bytes;
    while (chunk > 0 && blob_.size > chunk && sent_ < blob_.size) SIGHTLINE_RETURN_IF_ERROR(SendChunk(chunk));
    HttpCall call = Call("PUT", WithQuery(location_, "digest=" + blob_.digest), blob_.size - sent_);
    SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, session_->Send(std::move(call), 1));
    if (answer.status == 201 || answer.status == 204) return {};
    return tl::make_unexpected(session_->Refused(answer, "finish the upload of " + blob_.digest));
  }

  // After an upload broke off: where it stands. False when the registry has forgotten it.
  bool Ask() {
    HttpCall call;
    call.url = location_;
    const auto answer = session_->Send(call, 1);
    const auto bytes = answer && Succeeded(*answer) ? UploadedBytes(answer->Header("Range")) : std::nullopt;
    if (!bytes || *bytes > blob_.size || !FollowLocation(*answer)) return false;
    sent_ = *bytes;
    return true;
  }

  uint64_t sent() const { return sent_; }

 private:
  HttpCall Call(const char* method, std::string url, uint64_t size) {
    HttpCall call;
    call.method = method;
    call.url = std::move(url);
    call.headers = {{"Content-Type", kBytes}};
    if (size > 0) call.reader = PartOf(descriptor_, sent_, size, file_);
    const auto& progress = session_->options().transfer.progress;
    if (progress)
      call.sent = [this, progress](uint64_t bytes) { progress(std::min(blob_.size, sent_ + bytes), blob_.size); };
    return call;
  }

  Status SendChunk(uint64_t chunk) {
    const uint64_t size = std::min(chunk, blob_.size - sent_);
    HttpCall call = Call("PATCH", location_, size);
    call.headers.emplace_back("Content-Range", fmt::format("{}-{}", sent_, sent_ + size - 1));
    SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, session_->Send(std::move(call), 1));
    if (!Succeeded(answer)) return tl::make_unexpected(session_->Refused(answer, "upload " + blob_.digest));
    const uint64_t before = std::exchange(sent_, UploadedBytes(answer.Header("Range")).value_or(sent_ + size));
    // It would never end, and the digest could not be right.
    if (sent_ <= before || sent_ > before + size) {
      return Fail(Code::kUnreachable,
                  fmt::format("{}: says that it has {} bytes of an upload after {} and {} more were sent",
                              session_->reference().host, std::exchange(sent_, before), before, size));
    }
    return FollowLocation(answer);
  }

  Status FollowLocation(const HttpAnswer& answer) {
    const std::string location(answer.Header("Location"));
    if (location.empty() && !location_.empty()) return {};
    location_ = ResolveUrl(answer.url.empty() ? session_->base() : answer.url, location);
    const bool plain = !UrlOrigin(location_).starts_with("https:") && session_->base().starts_with("https:");
    if (!location_.empty() && !plain) return {};
    return Fail(Code::kUnreachable, fmt::format("{}: names no place to upload to", session_->reference().host));
  }

  RegistrySession* session_;
  const OciDescriptor& blob_;
  const std::filesystem::path& file_;
  int descriptor_;
  std::string location_;
  uint64_t sent_ = 0;
};

bool MayTryAgain(const Error& error) {
  return error.code == Code::kUnreachable || error.code == Code::kDeadline || error.code == Code::kNotFound ||
         error.code == Code::kBusy;
}

}  // namespace

struct RegistryClient::State {
  RegistrySession session;
};

RegistryClient::RegistryClient(OciReference reference, RegistryOptions options)
    : state_(std::make_unique<State>(State{RegistrySession(reference, std::move(options))})) {}
RegistryClient::~RegistryClient() = default;
RegistryClient::RegistryClient(RegistryClient&&) noexcept = default;
RegistryClient& RegistryClient::operator=(RegistryClient&&) noexcept = default;

Result<std::optional<OciDescriptor>> RegistryClient::FindManifest(const std::string& tag_or_digest) {
  HttpCall call;
  call.method = "HEAD";
  call.url = state_->session.Url("manifests/" + tag_or_digest);
  call.headers = {{"Accept", kAccepted}};
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, state_->session.Send(call));
  if (answer.status == 404) return std::optional<OciDescriptor>();
  if (!Succeeded(answer)) return tl::make_unexpected(state_->session.Refused(answer, "look for " + tag_or_digest));
  OciDescriptor found{MediaTypeOf(answer), std::string(answer.Header(kDigestHeader))};
  const std::string_view length = answer.Header("Content-Length");
  const bool sized = std::from_chars(length.data(), length.data() + length.size(), found.size).ec == std::errc();
  if (IsDigest(found.digest) && sized) return std::optional(std::move(found));
  SIGHTLINE_ASSIGN_OR_RETURN(Manifest manifest, GetManifest(tag_or_digest));
  return std::optional(std::move(manifest.descriptor));
}

Result<RegistryClient::Manifest> RegistryClient::GetManifest(const std::string& tag_or_digest) {
  HttpCall call;
  call.url = state_->session.Url("manifests/" + tag_or_digest);
  call.headers = {{"Accept", kAccepted}};
  call.max_body_bytes = kMaxDocumentBytes;
  SIGHTLINE_ASSIGN_OR_RETURN(HttpAnswer answer, state_->session.Send(call));
  if (!Succeeded(answer)) return tl::make_unexpected(state_->session.Refused(answer, "get " + tag_or_digest));
  const std::string digest = DigestOf(answer.body);
  const std::string_view said = answer.Header(kDigestHeader);
  const std::string expected = IsDigest(tag_or_digest) ? tag_or_digest : std::string(said);
  if (!expected.empty() && expected != digest) {
    return Fail(Code::kCorruptWeights, fmt::format("{}: the manifest {} has the digest {}, expected {}",
                                                   state_->session.reference().host, tag_or_digest, digest, expected));
  }
  return Manifest{{MediaTypeOf(answer), digest, answer.body.size()}, std::move(answer.body)};
}

Result<std::string> RegistryClient::PutManifest(const std::string& tag_or_digest, const std::string& media_type,
                                                const std::string& content) {
  HttpCall call;
  call.method = "PUT";
  call.url = state_->session.Url("manifests/" + tag_or_digest);
  call.headers = {{"Content-Type", media_type}};
  call.body = content;
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, state_->session.Send(call));
  if (!Succeeded(answer)) return tl::make_unexpected(state_->session.Refused(answer, "put " + tag_or_digest));
  std::string digest = DigestOf(content);
  const std::string_view said = answer.Header(kDigestHeader);
  if (said.empty() || said == digest) return digest;
  return Fail(Code::kCorruptWeights,
              fmt::format("{}: keeps the manifest as {}, expected {}", state_->session.reference().host, said, digest));
}

Result<bool> RegistryClient::HasBlob(const std::string& digest) {
  HttpCall call;
  call.method = "HEAD";
  call.url = state_->session.Url("blobs/" + digest);
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, state_->session.Send(call));
  if (answer.status == 404) return false;
  if (Succeeded(answer)) return true;
  return tl::make_unexpected(state_->session.Refused(answer, "look for " + digest));
}

Status RegistryClient::PutBlob(const OciDescriptor& blob, const std::filesystem::path& file) {
  SIGHTLINE_ASSIGN_OR_RETURN(const bool there, HasBlob(blob.digest));
  const auto& progress = state_->session.options().transfer.progress;
  if (there) {
    if (progress) progress(blob.size, blob.size);
    return {};
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckBlob(file, blob, nullptr));
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("read", file, errno));
  const std::unique_ptr<const int, void (*)(const int*)> closed(&descriptor, [](const int* open) { ::close(*open); });
  Upload upload(&state_->session, blob, file, descriptor);
  SIGHTLINE_RETURN_IF_ERROR(upload.Start());
  uint64_t furthest = 0;
  for (int attempt = 1;; ++attempt) {
    const Status sent = upload.SendAll();
    if (sent || !MayTryAgain(sent.error())) return sent;
    if (upload.sent() > furthest) attempt = 1;
    furthest = std::max(furthest, upload.sent());
    if (attempt >= state_->session.options().attempts) return sent;
    SIGHTLINE_RETURN_IF_ERROR(state_->session.Wait(attempt, nullptr));
    if (!upload.Ask()) SIGHTLINE_RETURN_IF_ERROR(upload.Start());
  }
}

Status RegistryClient::GetBlob(const OciDescriptor& blob, const std::filesystem::path& file) {
  if (CheckBlob(file, blob, nullptr)) return {};
  RegistrySession& session = state_->session;
  SIGHTLINE_ASSIGN_OR_RETURN(PartialBlob part, PartialBlob::Open(file, blob, session.options().transfer));
  if (part.is_finished()) return {};
  HttpCall call;
  call.url = session.Url("blobs/" + blob.digest);
  const auto from_here = [&part](HttpCall* next) {
    part.ExpectAnswer();
    next->headers.clear();
    if (part.size() > 0) next->headers = {{"Range", fmt::format("bytes={}-", part.size())}};
  };
  from_here(&call);
  call.sink = [&part](const HttpAnswer& head, std::span<const std::byte> bytes) { return part.Take(head, bytes); };
  uint64_t before = part.size();
  const auto again = [&](HttpCall* next) -> Result<bool> {
    from_here(next);
    return std::exchange(before, part.size()) < part.size();
  };
  bool restarted = false;
  while (part.size() < blob.size || blob.size == 0) {
    SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, session.Send(call, 0, again));
    if (answer.status == 416 && !std::exchange(restarted, true)) {
      SIGHTLINE_RETURN_IF_ERROR(part.Restart());
      from_here(&call);
      if (std::exchange(before, 0) > 0) continue;
    }
    if (!Succeeded(answer)) return tl::make_unexpected(session.Refused(answer, "get " + blob.digest));
    if (part.size() == blob.size) break;
    return Fail(Code::kCorruptWeights, fmt::format("{}: the blob {} has {} bytes, expected {}",
                                                   session.reference().host, blob.digest, part.size(), blob.size));
  }
  return part.Finish();
}

}  // namespace sightline
