// What verbs about pictures share: one answer for each picture, where a bad one does not stop the rest.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/base.h"
#include "cli/pictures.h"
#include "cli/terminal.h"
#include "media/media.h"

namespace sightline {

struct PictureRunOptions {
  DecodeOptions decode;
  bool json = false;
  bool keep_going = false;  // exit with 20 where some of several pictures failed
};

struct ReadPicture {
  std::string name;  // as shown: the path, or "-"
  std::shared_ptr<const DecodedImage> image;
  std::string digest;  // SHA-256 of the file
  double decode_ms = 0;
};

class PictureRun {
 public:
  // Says which files of folders are no pictures.
  PictureRun(const std::vector<std::string>& arguments, const PictureRunOptions& options);
  virtual ~PictureRun() = default;

  // Answers every picture. Returns the exit code; fails with what went wrong where there was one picture only, or where
  // nothing could be answered at all (no weights).
  Result<int> AnswerAll();

 protected:
  // Before any picture is read.
  virtual Status PlanFiles() = 0;
  // Called once, when the first picture is read, so that a mistyped name costs nothing.
  virtual Status OpenEngine() = 0;
  // Asks, writes files, prints.
  virtual Status Answer(const ReadPicture& picture, size_t index) = 0;

  const Pictures& pictures() const { return pictures_; }
  Progress& progress() { return progress_; }
  Result<ReadPicture> Read(const Picture& picture) const;
  // Prints an answer's document, with its picture's name where there are several.
  void PrintDocument(const std::string& document, const std::string& name, bool empty) const;

 private:
  Status AnswerOne(size_t index);
  Status OpenOnce();
  void PrintFailure(const Picture& picture, const Error& error) const;

  const PictureRunOptions options_;
  const Pictures pictures_;
  Progress progress_;
  bool opened_ = false, engine_failed_ = false;
};

}  // namespace sightline
