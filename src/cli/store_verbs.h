// The verbs that bring packages here, look after them and send them elsewhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/reporter.h"
#include "cli/verb.h"
#include "store/store.h"

namespace sightline {

struct StoreVerb {
  std::unique_ptr<Verb> verb;
  bool hidden = false;  // another name of a verb that is listed
};
// Those of the program that was called, in the order of its help.
std::vector<StoreVerb> StoreVerbs();

std::unique_ptr<Verb> MakePullVerb();
std::unique_ptr<Verb> MakeListVerb(std::string name);
std::unique_ptr<Verb> MakeShowVerb(std::string name);
std::unique_ptr<Verb> MakeSearchVerb();
std::unique_ptr<Verb> MakeRemoveVerb();
std::unique_ptr<Verb> MakeCollectGarbageVerb();
std::unique_ptr<Verb> MakeValidateVerb();
std::unique_ptr<Verb> MakePackageVerb();
std::unique_ptr<Verb> MakePushVerb();
std::unique_ptr<Verb> MakePublishVerb();
std::unique_ptr<Verb> MakeUnpublishVerb();
std::unique_ptr<Verb> MakeExportVerb();
std::unique_ptr<Verb> MakeImportVerb();
std::unique_ptr<Verb> MakeLoginVerb();

// ---- what they share

Result<StoreSettings> StoreSettingsOfProgram();
Result<std::unique_ptr<Store>> OpenStore();

// A failure as the exit code, after showing it; with --json as the error that the command line turns into a document.
Result<int> Failed(const StoreError& error, Reporter& reporter, bool json);

// kUsage naming what is expected unless `target` was given.
Status CheckGiven(const std::string& target, std::string_view expected);
inline constexpr std::string_view kTargetWords = "a package, as ORG/NAME or a file";

// Documents of --json.
Value JsonTextOrNull(const std::string& text);
Value TextsValue(const std::vector<std::string>& texts);
Value WeightsValue(const std::vector<WeightsState>& weights);
void PrintJson(const Value& document);

std::string_view NameOf(RunMode mode);

}  // namespace sightline
