#include "hub/lfs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hub/for_each_at_once.h"

namespace sightline {
namespace {

constexpr size_t kFilesPerBatch = 100;
constexpr uint64_t kMostParts = 10'000;
constexpr std::string_view kLfsJson = "application/vnd.git-lfs+json";

HubResult<std::vector<LfsObject>> AskBatch(const HubSession& session, const HubSubject& subject,
                                           const std::vector<const LocalFile*>& files, HubProgressSink* notes,
                                           const std::stop_token& stop) {
  nlohmann::json objects = nlohmann::json::array();
  for (const LocalFile* file : files) objects.push_back({{"oid", file->sha256}, {"size", file->size}});
  const nlohmann::json question{{"operation", "upload"},
                                {"transfers", {"basic", "multipart"}},
                                {"hash_algo", "sha256"},
                                {"ref", {{"name", subject.revision}}},
                                {"objects", std::move(objects)}};
  HttpCall call;
  call.method = "POST";
  call.url = session.Url(fmt::format("/{}.git/info/lfs/objects/batch", subject.repo));
  call.headers = {{"Accept", std::string(kLfsJson)}, {"Content-Type", std::string(kLfsJson)}};
  call.body = question.dump();
  SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer, session.Send(call, subject, notes, stop));
  return ReadLfsBatch(answer.body, subject);
}

// Sends one file's content as its actions say.
class LfsUpload {
 public:
  LfsUpload(const HubSession& session, HubSubject subject, const LocalFile& file, const LfsObject& object,
            ProgressMeter& meter, const std::stop_token& stop)
      : session_(session), subject_(std::move(subject)), file_(file), object_(object), meter_(meter), stop_(stop) {
    subject_.path = file.path;
  }

  HubStatus Run() {
    if (object_.part_bytes > 0) {
      SIGHTLINE_RETURN_IF_ERROR(SendParts());
    } else {
      SIGHTLINE_RETURN_IF_ERROR(Put(object_.upload.url, object_.upload.headers, 0, file_.size));
    }
    if (object_.verify.url.empty()) return {};
    const nlohmann::json body{{"oid", file_.sha256}, {"size", file_.size}};
    return Tell(object_.verify, body.dump());
  }

 private:
  HubStatus SendParts() {
    const uint64_t parts = (file_.size + object_.part_bytes - 1) / object_.part_bytes;
    if (parts != object_.part_urls.size() || parts > kMostParts) {
      return tl::make_unexpected(DamagedError(
          subject_, fmt::format("the hub gives {} addresses for {} parts", object_.part_urls.size(), parts)));
    }
    nlohmann::json list = nlohmann::json::array();
    for (uint64_t i = 0; i < parts; ++i) {
      const uint64_t offset = i * object_.part_bytes;
      const uint64_t size = std::min(object_.part_bytes, file_.size - offset);
      std::string tag;
      SIGHTLINE_RETURN_IF_ERROR(Put(object_.part_urls[static_cast<size_t>(i)], {}, offset, size, &tag));
      if (tag.empty()) return tl::make_unexpected(DamagedError(subject_, "a part was taken without an ETag"));
      list.push_back({{"partNumber", i + 1}, {"etag", tag}});
    }
    const nlohmann::json body{{"oid", file_.sha256}, {"parts", std::move(list)}};
    return Tell(object_.upload, body.dump());
  }

  HubStatus Put(const std::string& url, const HttpHeaders& headers, uint64_t offset, uint64_t size,
                std::string* tag = nullptr) {
    HttpCall call;
    call.method = "PUT";
    call.url = session_.AtEndpoint(url);
    call.headers = headers;
    Backoff backoff(session_.settings());
    for (;;) {
      SIGHTLINE_ASSIGN_OR_RETURN(call.reader, ReaderOf(file_, offset, size));
      uint64_t counted = 0;
      call.sent = [&](uint64_t bytes) {
        meter_.AddBytes(static_cast<int64_t>(bytes - counted), true);
        counted = bytes;
      };
      const Try answer = session_.Once(call, subject_, stop_);
      if (answer && answer->status / 100 == 2) {
        meter_.AddBytes(static_cast<int64_t>(size - counted), true);
        if (tag != nullptr) *tag = answer->Header("ETag");
        return {};
      }
      meter_.AddBytes(-static_cast<int64_t>(counted), false);
      if (answer) return tl::make_unexpected(DamagedError(subject_, "the storage redirects an upload"));
      SIGHTLINE_RETURN_IF_ERROR(backoff.Wait(answer.error(), &meter_, stop_));
    }
  }

  HubStatus Tell(const LfsAction& action, const std::string& body) {
    HttpCall call;
    call.method = "POST";
    call.url = session_.AtEndpoint(action.url);
    call.headers = action.headers;
    call.headers.emplace_back("Accept", kLfsJson);
    call.headers.emplace_back("Content-Type", kLfsJson);
    call.body = body;
    SIGHTLINE_RETURN_IF_ERROR(session_.Send(call, subject_, &meter_, stop_));
    return {};
  }

  const HubSession& session_;
  HubSubject subject_;
  const LocalFile& file_;
  const LfsObject& object_;
  ProgressMeter& meter_;
  const std::stop_token& stop_;
};

}  // namespace

HubResult<LfsSent> SendLargeFiles(const HubSession& session, const HubSubject& subject,
                                  const std::vector<const LocalFile*>& files, ProgressMeter& meter,
                                  const std::stop_token& stop) {
  std::map<std::string, const LocalFile*> by_digest;
  for (const LocalFile* file : files) by_digest[file->sha256] = file;
  std::vector<const LocalFile*> contents;
  for (const auto& [digest, file] : by_digest) contents.push_back(file);
  LfsSent sent;
  for (size_t start = 0; start < contents.size(); start += kFilesPerBatch) {
    const size_t count = std::min(kFilesPerBatch, contents.size() - start);
    const auto begin = contents.begin() + static_cast<std::ptrdiff_t>(start);
    const std::vector<const LocalFile*> batch(begin, begin + static_cast<std::ptrdiff_t>(count));
    SIGHTLINE_ASSIGN_OR_RETURN(std::vector<LfsObject> objects, AskBatch(session, subject, batch, &meter, stop));
    for (const LfsObject& object : objects) {
      const auto found = by_digest.find(object.oid);
      if (found == by_digest.end()) {
        return tl::make_unexpected(DamagedError(subject, "the hub asks for a file that was not offered"));
      }
      if (object.upload.url.empty()) {  // stored already
        meter.AddBytes(static_cast<int64_t>(found->second->size), false);
      } else {
        sent.bytes += found->second->size;
        ++sent.files;
      }
    }
    std::erase_if(objects, [](const LfsObject& object) { return object.upload.url.empty(); });
    SIGHTLINE_RETURN_IF_ERROR(ForEachAtOnce(
        objects, session.settings().files_at_once, stop, [&](const LfsObject& object, const std::stop_token& ends) {
          return LfsUpload(session, subject, *by_digest.at(object.oid), object, meter, ends).Run();
        }));
  }
  return sent;
}

}  // namespace sightline
