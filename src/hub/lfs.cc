#include "hub/lfs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

namespace sightline {
namespace {

constexpr size_t kFilesPerBatch = 100;
constexpr uint64_t kMostParts = 10'000;
constexpr std::string_view kLfsJson = "application/vnd.git-lfs+json";

using BySha256 = std::map<std::string, const LocalFile*>;

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

// The first error ends it.
HubStatus SendObjects(const HubSession& session, const HubSubject& subject, const std::vector<LfsObject>& objects,
                      const BySha256& files, ProgressMeter& meter, const std::stop_token& stop) {
  std::stop_source ends;
  const std::stop_callback chained(stop, [&ends] { ends.request_stop(); });
  const std::stop_token token = ends.get_token();
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::optional<HubError> first;
  const auto run = [&] {
    for (size_t i; (i = next++) < objects.size() && !token.stop_requested();) {
      const LocalFile& file = *files.at(objects[i].oid);
      const HubStatus sent = LfsUpload(session, subject, file, objects[i], meter, token).Run();
      if (sent) continue;
      const std::lock_guard lock(mutex);
      if (!first) first = sent.error();
      ends.request_stop();
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t wanted = std::min(objects.size(), static_cast<size_t>(std::max(session.settings().files_at_once, 1)));
    for (size_t i = 1; i < wanted; ++i) threads.emplace_back(run);
    run();
  }
  if (first) return tl::make_unexpected(std::move(*first));
  if (stop.stop_requested()) return tl::make_unexpected(HubError(Error{Code::kCancelled, "cancelled", {}}));
  return {};
}

}  // namespace

HubResult<LfsSent> SendLargeFiles(const HubSession& session, const HubSubject& subject,
                                  const std::vector<const LocalFile*>& files, ProgressMeter& meter,
                                  const std::stop_token& stop) {
  BySha256 by_digest;
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
    SIGHTLINE_RETURN_IF_ERROR(SendObjects(session, subject, objects, by_digest, meter, stop));
  }
  return sent;
}

}  // namespace sightline
