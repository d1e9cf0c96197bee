#include <fmt/format.h>

#include <system_error>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "weights/weights.h"

namespace sightline {
namespace {

class VerifyVerb : public Verb {
 public:
  VerbText text() const override {
    return {"verify", "Check the packed weights in the cache folder", "sightline verify",
            "A damaged file may be removed; it is made again when it is next needed."};
  }
  void Declare(OptionSet& options) override {
    options.Argument("FOLDER", folder_, "FOLDER", "to check instead of the cache folder");
  }
  Result<int> Run() override;

 private:
  // The folder to check; empty where the cache folder has not been made yet.
  Result<std::filesystem::path> Folder() const;
  std::string folder_;
};

Result<std::filesystem::path> VerifyVerb::Folder() const {
  std::filesystem::path folder = folder_;
  if (folder_.empty()) {
    SIGHTLINE_ASSIGN_OR_RETURN(folder, CacheFolder());
  }
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return folder;
  if (folder_.empty()) return std::filesystem::path();
  return Fail(Code::kNotFound, fmt::format("{} is no folder", folder_));
}

Result<int> VerifyVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path folder, Folder());
  int files = 0, failures = 0, exit_code = 0;
  const auto report = [&](const std::filesystem::path& path, const Status& status) {
    ++files;
    Print(fmt::format("{}: {}\n", OneLine(path.string()), status ? "ok" : "damaged"));
    if (status) return;
    PrintError(status.error().message);
    if (failures++ == 0) exit_code = sightline::Describe(status.error().code).exit_code;
  };
  if (!folder.empty()) {
    const Status verified = VerifyPackedFiles(folder, report);
    if (!verified && failures == 0) return tl::make_unexpected(verified.error());
  }
  if (files == 0) Print("no packed files\n");
  return exit_code;
}

}  // namespace

std::unique_ptr<Verb> MakeVerifyVerb() { return std::make_unique<VerifyVerb>(); }

}  // namespace sightline
