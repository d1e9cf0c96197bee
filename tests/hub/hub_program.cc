// The hub module as a program, for tests: what the environment says, one verb, one line of answer.
//   hub_program download REPO [--revision R] [--allow P]... [--ignore P]...
//   hub_program fetch REPO FILE [--revision R]
//   hub_program upload REPO FOLDER [--create]
//   hub_program verify REPO [--repair]
//   hub_program list
// HUB_PROGRAM_FAST shortens the pauses, HUB_PROGRAM_RANGE is the size of a range.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hub/hub.h"

namespace sightline {
namespace {

class Lines : public HubProgressSink {
 public:
  void OnProgress(const HubProgress&) override {}
  void OnNote(std::string_view line) override { LogInfo(line); }
};

struct Arguments {
  std::vector<std::string> words;
  std::string revision = "main";
  HubPatterns patterns;
  bool repair = false;
  bool create = false;
};

Arguments Read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--revision") {
      arguments.revision = value();
    } else if (word == "--allow") {
      arguments.patterns.allow.push_back(value());
    } else if (word == "--ignore") {
      arguments.patterns.ignore.push_back(value());
    } else if (word == "--repair") {
      arguments.repair = true;
    } else if (word == "--create") {
      arguments.create = true;
    } else {
      arguments.words.push_back(word);
    }
  }
  arguments.words.resize(3);
  return arguments;
}

HubResult<std::string> Upload(Hub& hub, const Arguments& arguments) {
  Lines lines;
  if (arguments.create) {
    SIGHTLINE_RETURN_IF_ERROR(hub.CreateRepo(arguments.words[1], HubVisibility::kPrivate));
  }
  HubUpload upload{arguments.words[1]};
  SIGHTLINE_ASSIGN_OR_RETURN(upload.files, ListUploadFolder(arguments.words[2]));
  SIGHTLINE_ASSIGN_OR_RETURN(const HubUploadReport report, hub.Upload(upload, &lines));
  return report.commit + " sent " + std::to_string(report.files_sent) + " there " + std::to_string(report.files_there);
}

HubResult<std::string> Verify(const Hub& hub, const Arguments& arguments) {
  SIGHTLINE_ASSIGN_OR_RETURN(const CacheReport report, hub.cache().Verify(arguments.words[1], arguments.repair));
  for (const CacheProblem& problem : report.problems) std::puts(problem.sentence.c_str());
  return std::to_string(report.problems.size()) + " problems, " + std::to_string(report.blobs) + " blobs";
}

HubResult<std::string> List(const Hub& hub) {
  SIGHTLINE_ASSIGN_OR_RETURN(const auto repos, hub.cache().List());
  std::string text;
  for (const CachedRepo& repo : repos) text += repo.id + " " + std::to_string(repo.bytes) + "\n";
  return text;
}

HubResult<std::string> Run(Hub& hub, const Arguments& arguments) {
  Lines lines;
  const std::string& verb = arguments.words[0];
  if (verb == "download") {
    SIGHTLINE_ASSIGN_OR_RETURN(const CachedSnapshot snapshot,
                               hub.Download({arguments.words[1], arguments.revision, arguments.patterns}, &lines));
    return snapshot.folder.string() + (snapshot.fetched ? " fetched" : " there");
  }
  if (verb == "fetch") {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::filesystem::path file,
                               hub.Fetch(arguments.words[1], arguments.revision, arguments.words[2], &lines));
    return file.string();
  }
  if (verb == "upload") return Upload(hub, arguments);
  if (verb == "verify") return Verify(hub, arguments);
  if (verb == "list") return List(hub);
  return tl::make_unexpected(HubError(Error{Code::kUsage, "there is no verb '" + verb + "'", {}}));
}

int Main(int argc, char** argv) {
  SetUpLogging(LogLevel::kInfo);
  auto settings = HubSettingsFromEnvironment();
  if (!settings) {
    LogError(settings.error().message);
    return Describe(settings.error().code).exit_code;
  }
  if (std::getenv("HUB_PROGRAM_FAST") != nullptr) settings->first_pause = std::chrono::milliseconds(10);
  if (const char* range = std::getenv("HUB_PROGRAM_RANGE")) settings->range_bytes = std::strtoull(range, nullptr, 10);
  Hub hub(std::move(*settings));
  const auto answer = Run(hub, Read(argc, argv));
  if (!answer) {
    LogError(answer.error().message);
    return Describe(answer.error().code).exit_code;
  }
  std::puts(answer->c_str());
  return 0;
}

}  // namespace
}  // namespace sightline

int main(int argc, char** argv) { return sightline::Main(argc, argv); }
