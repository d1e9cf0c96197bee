#include "cli/picture_run.h"

#include <fmt/format.h>

#include <chrono>

#include "cli/report.h"
#include "server/server.h"

namespace sightline {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 30;
constexpr int kSomeFailed = 20;  // exit code of --keep-going

}  // namespace

PictureRun::PictureRun(const std::vector<std::string>& arguments, const PictureRunOptions& options)
    : options_(options), pictures_(FindPictures(arguments)), progress_("sightline:") {
  if (pictures_.skipped.empty()) return;
  PrintNote(fmt::format("{} of the files in folders are no pictures by name and were skipped, the first is {}",
                        pictures_.skipped.size(), pictures_.skipped.front()));
}

Result<ReadPicture> PictureRun::Read(const Picture& picture) const {
  if (picture.error) return tl::make_unexpected(*picture.error);
  SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<std::byte> file,
                             ReadFile(picture.path, kMostFileBytes, picture.named ? Pipes::kRead : Pipes::kRefuse));
  const auto start = std::chrono::steady_clock::now();
  ReadPicture read;
  read.name = picture.path.string();
  SIGHTLINE_ASSIGN_OR_RETURN(DecodedImage decoded, DecodeImage(file, options_.decode));
  read.image = std::make_shared<const DecodedImage>(std::move(decoded));
  read.digest = Sha256Hex(file);
  read.decode_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return read;
}

void PictureRun::PrintDocument(const std::string& document, const std::string& name, bool empty) const {
  Print((pictures_.several ? DocumentLine(document, name, empty ? "empty" : "ok") : document) + "\n");
}

void PictureRun::PrintFailure(const Picture& picture, const Error& error) const {
  if (options_.json) Print(DocumentLine(ErrorDocument(error, "", false), picture.path.string(), "error") + "\n");
  PrintError(fmt::format("{}: {}", picture.path.string(), error.message));
}

Status PictureRun::OpenOnce() {
  if (opened_) return {};
  engine_failed_ = true;
  SIGHTLINE_RETURN_IF_ERROR(OpenEngine());
  engine_failed_ = false;
  opened_ = true;
  return {};
}

Status PictureRun::AnswerOne(size_t index) {
  const Picture& picture = pictures_.pictures[index];
  if (pictures_.several) {
    progress_.Show(fmt::format("{} of {}, {}", index + 1, pictures_.pictures.size(), picture.path.string()));
  }
  SIGHTLINE_ASSIGN_OR_RETURN(const ReadPicture read, Read(picture));
  SIGHTLINE_RETURN_IF_ERROR(OpenOnce());
  return Answer(read, index);
}

Result<int> PictureRun::AnswerAll() {
  SIGHTLINE_RETURN_IF_ERROR(PlanFiles());
  int exit_code = 0;
  for (size_t i = 0; i < pictures_.pictures.size(); ++i) {
    const Status status = AnswerOne(i);
    progress_.Clear();
    if (!status) {
      if (engine_failed_ || !pictures_.several) return tl::make_unexpected(status.error());
      PrintFailure(pictures_.pictures[i], status.error());
      if (exit_code == 0) exit_code = options_.keep_going ? kSomeFailed : Describe(status.error().code).exit_code;
    }
    SIGHTLINE_RETURN_IF_ERROR(FlushOutput());
  }
  return exit_code;
}

}  // namespace sightline
