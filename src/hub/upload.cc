#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hub/lfs.h"
#include "hub/names.h"
#include "hub/state.h"

namespace sightline {
namespace {

constexpr size_t kFilesPerPreupload = 250;
constexpr size_t kOperationsPerCommit = 200;
constexpr uint64_t kSmallBytesPerCommit = 16u << 20;
constexpr int kMostRounds = 6;

// One line of a commit: https://huggingface.co/docs/hub/api, application/x-ndjson.
std::string Line(const char* key, nlohmann::json value) {
  return nlohmann::json{{"key", key}, {"value", std::move(value)}}.dump() + "\n";
}

// What is left to do against one state of the revision.
struct Round {
  std::string parent;  // the revision's commit
  std::vector<const LocalFile*> files;
  std::vector<std::string> deletions;
};

// A commit in the making.
struct Batch {
  std::string lines{};
  std::vector<std::string> files{};
  std::vector<std::string> deletions{};
  int small_files = 0;  // whose bytes are in the commit itself
  uint64_t small_bytes = 0;
  size_t operations() const { return files.size() + deletions.size(); }
};

class Uploader {
 public:
  Uploader(Hub& hub, const HubSession& session, const HubUpload& upload, ProgressMeter& meter,
           const std::stop_token& stop)
      : hub_(hub),
        session_(session),
        upload_(upload),
        subject_{upload.repo, upload.revision, {}},
        meter_(meter),
        stop_(stop) {}

  HubResult<HubUploadReport> Run() {
    SIGHTLINE_RETURN_IF_ERROR(Prepare());
    for (int rounds = 1;; ++rounds) {
      SIGHTLINE_ASSIGN_OR_RETURN(const Round round, Compare());
      if (rounds > 1) CountLostCommit(round);
      if (rounds == 1) report_.files_there = static_cast<int>(files_.size() - round.files.size());
      report_.commit = round.parent;
      if (round.files.empty() && round.deletions.empty()) return report_;
      const HubStatus done = DoRound(round);
      if (done) return report_;
      // Somebody else committed, or the answer to ours was lost: what is there now decides what is left.
      const bool again = done.error().fault == HubFault::kConflict || lost_answer_;
      if (!again || rounds == kMostRounds) return tl::make_unexpected(done.error());
      meter_.OnNote(done.error().message + ": comparing again");
    }
  }

 private:
  HubStatus Prepare() {
    std::set<std::string_view> names;
    uint64_t bytes = 0;
    for (const HubUploadFile& file : upload_.files) {
      SIGHTLINE_RETURN_IF_ERROR(CheckHubPath(file.path));
      if (!names.insert(file.path).second) {
        return tl::make_unexpected(HubError(Error{Code::kUsage, file.path + " is to be uploaded twice", {}}));
      }
      std::error_code ignored;
      const uintmax_t size = std::filesystem::file_size(file.source, ignored);
      bytes += ignored ? 0 : size;
    }
    meter_.Begin(HubPhase::kHashing, 0, bytes, 0, static_cast<int>(upload_.files.size()));
    for (const HubUploadFile& file : upload_.files) {
      SIGHTLINE_ASSIGN_OR_RETURN(LocalFile local, ReadLocalFile(file, meter_, stop_));
      files_.push_back(std::move(local));
    }
    return {};
  }

  HubResult<Round> Compare() {
    SIGHTLINE_ASSIGN_OR_RETURN(const HubRepo info, hub_.Info(upload_.repo, upload_.revision, stop_));
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<HubFile> tree, hub_.Tree(upload_.repo, info.commit, stop_));
    std::map<std::string_view, const HubFile*> there;
    for (const HubFile& file : tree) there[file.path] = &file;
    Round round{info.commit, {}, {}};
    for (const LocalFile& file : files_) {
      const auto found = there.find(file.path);
      const bool same = found != there.end() && found->second->size == file.size &&
                        (found->second->digest() == file.sha256 || found->second->digest() == file.blob_id);
      if (!same) round.files.push_back(&file);
    }
    for (const std::string& path : upload_.deletions) {
      if (there.contains(path)) round.deletions.push_back(path);
    }
    return round;
  }

  HubStatus DoRound(const Round& round) {
    lost_answer_ = false;
    batch_ = {};
    SIGHTLINE_RETURN_IF_ERROR(AskModes(round));
    std::vector<const LocalFile*> large;
    uint64_t bytes = 0;
    for (const LocalFile* file : round.files) {
      if (!large_.contains(file->path)) continue;
      large.push_back(file);
      bytes += file->size;
    }
    meter_.Begin(HubPhase::kUploading, 0, bytes, 0, static_cast<int>(round.files.size()));
    SIGHTLINE_ASSIGN_OR_RETURN(const LfsSent sent, SendLargeFiles(session_, subject_, large, meter_, stop_));
    report_.files_sent += sent.files;
    report_.bytes_sent += sent.bytes;
    return CommitAll(round);
  }

  // Which files the hub wants in its large file storage: it knows .gitattributes, and what binaries look like.
  HubStatus AskModes(const Round& round) {
    for (size_t start = 0; start < round.files.size(); start += kFilesPerPreupload) {
      nlohmann::json files = nlohmann::json::array();
      const size_t end = std::min(start + kFilesPerPreupload, round.files.size());
      for (size_t i = start; i < end; ++i) {
        const LocalFile& file = *round.files[i];
        files.push_back({{"path", file.path}, {"sample", EncodeBase64(AsBytes(file.sample))}, {"size", file.size}});
      }
      const std::string url =
          session_.Url(fmt::format("/api/models/{}/preupload/{}", upload_.repo, PercentEncoded(upload_.revision)));
      const nlohmann::json question{{"files", std::move(files)}};
      SIGHTLINE_ASSIGN_OR_RETURN(const HttpAnswer answer,
                                 session_.SendJson("POST", url, question.dump(), subject_, &meter_, stop_));
      SIGHTLINE_ASSIGN_OR_RETURN(const auto modes, ReadUploadModes(answer.body, subject_));
      for (size_t i = start; i < end; ++i) {
        const LocalFile& file = *round.files[i];
        const auto mode = modes.find(file.path);
        if (mode == modes.end()) {
          return tl::make_unexpected(DamagedError(subject_, "the hub does not say how to upload " + file.path));
        }
        if (mode->second && file.size > 0) large_.insert(file.path);  // the storage takes nothing empty
      }
    }
    return {};
  }

  HubStatus CommitAll(const Round& round) {
    meter_.Begin(HubPhase::kCommitting, 0, 0, 0, static_cast<int>(round.files.size()));
    std::string parent = round.parent;
    const auto flush = [&]() -> HubStatus {
      if (batch_.operations() == 0) return {};
      SIGHTLINE_ASSIGN_OR_RETURN(parent, Commit(parent, batch_.lines));
      report_.commit = parent;
      CountBatch();
      return {};
    };
    for (const LocalFile* file : round.files) {
      const bool large = large_.contains(file->path);
      const bool full = batch_.operations() >= kOperationsPerCommit ||
                        (!large && batch_.small_bytes + file->size > kSmallBytesPerCommit);
      if (full) SIGHTLINE_RETURN_IF_ERROR(flush());
      SIGHTLINE_ASSIGN_OR_RETURN(const std::string line, large ? LargeLine(*file) : SmallLine(*file));
      batch_.lines += line;
      batch_.files.push_back(file->path);
      if (!large) ++batch_.small_files;
      if (!large) batch_.small_bytes += file->size;
    }
    for (const std::string& path : round.deletions) {
      if (batch_.operations() >= kOperationsPerCommit) SIGHTLINE_RETURN_IF_ERROR(flush());
      batch_.lines += Line("deletedFile", {{"path", path}});
      batch_.deletions.push_back(path);
    }
    return flush();
  }

  // What a commit has brought counts when it is made, and not before.
  void CountBatch() {
    ++report_.commits;
    report_.files_sent += batch_.small_files;
    report_.bytes_sent += batch_.small_bytes;
    report_.deleted += static_cast<int>(batch_.deletions.size());
    for (size_t i = 0; i < batch_.files.size(); ++i) meter_.AddFile();
    batch_ = {};
  }

  // A commit whose answer was lost (or was a refusal of its repetition by the HTTP client) has been made when nothing
  // of it is left to do.
  void CountLostCommit(const Round& left) {
    if (batch_.operations() == 0) return;
    const auto is_left = [](const auto& batch, const auto& names) {
      return std::any_of(batch.begin(), batch.end(), [&](const std::string& path) { return names.contains(path); });
    };
    std::set<std::string_view> files;
    for (const LocalFile* file : left.files) files.insert(file->path);
    const std::set<std::string_view> deletions(left.deletions.begin(), left.deletions.end());
    if (!is_left(batch_.files, files) && !is_left(batch_.deletions, deletions)) CountBatch();
  }

  static HubResult<std::string> LargeLine(const LocalFile& file) {
    return Line("lfsFile", {{"path", file.path}, {"algo", "sha256"}, {"oid", file.sha256}, {"size", file.size}});
  }

  static HubResult<std::string> SmallLine(const LocalFile& file) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFile(file.source, file.size + 1));
    if (bytes.size() != file.size) {
      return tl::make_unexpected(
          HubError(Error{Code::kInvalidRequest, file.source.string() + " changed while it was uploaded", {}}));
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Line("file", {{"path", file.path}, {"content", EncodeBase64(AsBytes(text))}, {"encoding", "base64"}});
  }

  // Not repeated when the connection breaks: the commit may have been made.
  HubResult<std::string> Commit(const std::string& parent, const std::string& lines) {
    HttpCall call;
    call.method = "POST";
    call.url = session_.Url(fmt::format("/api/models/{}/commit/{}", upload_.repo, PercentEncoded(upload_.revision)));
    call.headers = {{"Content-Type", "application/x-ndjson"}};
    call.body = Line("header", {{"summary", upload_.summary}, {"description", ""}, {"parentCommit", parent}}) + lines;
    Backoff backoff(session_.settings());
    for (;;) {
      const Try answer = session_.Once(call, subject_, stop_);
      if (answer) return ReadCommit(answer->body, subject_);
      const HubFault fault = answer.error().error.fault;
      lost_answer_ = fault == HubFault::kUnreachable && !answer.error().pause;
      if (lost_answer_) {
        SIGHTLINE_RETURN_IF_ERROR(backoff.Wait(answer.error(), &meter_, stop_));
        return tl::make_unexpected(answer.error().error);
      }
      SIGHTLINE_RETURN_IF_ERROR(backoff.Wait(answer.error(), &meter_, stop_));
    }
  }

  Hub& hub_;
  const HubSession& session_;
  const HubUpload& upload_;
  const HubSubject subject_;
  ProgressMeter& meter_;
  const std::stop_token& stop_;
  std::vector<LocalFile> files_{};
  std::set<std::string> large_{};
  Batch batch_{};
  HubUploadReport report_{};
  bool lost_answer_ = false;
};

}  // namespace

HubResult<HubUploadReport> Hub::Upload(const HubUpload& upload, HubProgressSink* progress, std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(upload.repo));
  SIGHTLINE_RETURN_IF_ERROR(CheckRevision(upload.repo, upload.revision));
  ProgressMeter meter(progress);
  return Uploader(*this, state_->session, upload, meter, stop).Run();
}

HubResult<bool> Hub::CreateRepo(const std::string& repo, HubVisibility visibility, std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const size_t slash = repo.find('/');
  const nlohmann::json body{{"type", "model"},
                            {"name", repo.substr(slash + 1)},
                            {"organization", repo.substr(0, slash)},
                            {"private", visibility == HubVisibility::kPrivate}};
  auto answer = state_->session.SendJson("POST", state_->session.Url("/api/repos/create"), body.dump(), {repo, {}, {}},
                                         nullptr, stop);
  if (answer) return true;
  if (answer.error().fault == HubFault::kConflict) return false;
  return tl::make_unexpected(std::move(answer).error());
}

HubStatus Hub::SetVisibility(const std::string& repo, HubVisibility visibility, std::stop_token stop) {
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(repo));
  const nlohmann::json body{{"private", visibility == HubVisibility::kPrivate}};
  SIGHTLINE_RETURN_IF_ERROR(state_->session.SendJson("PUT",
                                                     state_->session.Url(fmt::format("/api/models/{}/settings", repo)),
                                                     body.dump(), {repo, {}, {}}, nullptr, stop));
  return {};
}

}  // namespace sightline
