#include "cli/store_verbs.h"

#include <fmt/format.h>

#include "cli/persona.h"
#include "cli/terminal.h"

namespace sightline {

std::vector<StoreVerb> StoreVerbs() {
  const bool tt_model = CurrentPersona() == Persona::kTtModel;
  std::vector<StoreVerb> verbs;
  const auto add = [&](std::unique_ptr<Verb> verb, bool hidden = false) { verbs.push_back({std::move(verb), hidden}); };
  add(MakePullVerb());
  add(MakeListVerb(tt_model ? "list" : "ls"));
  add(MakeListVerb(tt_model ? "ls" : "list"), true);
  add(MakeShowVerb(tt_model ? "info" : "show"));
  add(MakeShowVerb(tt_model ? "show" : "info"), true);
  add(MakeSearchVerb());
  add(MakeRemoveVerb());
  add(MakeCollectGarbageVerb(), tt_model);
  add(MakeExportVerb(), tt_model);
  add(MakeImportVerb(), tt_model);
  add(MakeValidateVerb(), tt_model);
  add(MakePackageVerb());
  add(MakePushVerb());
  add(MakePublishVerb());
  add(MakeUnpublishVerb());
  add(MakeLoginVerb());
  return verbs;
}

Result<StoreSettings> StoreSettingsOfProgram() {
  SIGHTLINE_ASSIGN_OR_RETURN(StoreSettings settings, StoreSettingsFromEnvironment());
  settings.program = ProgramName();
  return settings;
}

Result<std::unique_ptr<Store>> OpenStore() {
  SIGHTLINE_ASSIGN_OR_RETURN(StoreSettings settings, StoreSettingsOfProgram());
  return std::make_unique<Store>(std::move(settings));
}

Result<int> Failed(const StoreError& error, Reporter& reporter, bool json) {
  if (json) return tl::make_unexpected(Error(error));
  return ShowFailure(error, reporter);
}

Status CheckGiven(const std::string& target, std::string_view expected) {
  return target.empty() ? Status(Fail(Code::kUsage, fmt::format("nothing is given, expected {}", expected))) : Status();
}

Value JsonTextOrNull(const std::string& text) { return text.empty() ? Value{} : Value{text}; }

Value TextsValue(const std::vector<std::string>& texts) {
  Value::List list;
  for (const std::string& text : texts) list.push_back(Value{text});
  return Value{std::move(list)};
}

Value WeightsValue(const std::vector<WeightsState>& weights) {
  Value::List list;
  for (const WeightsState& state : weights) {
    Value row{Value::Map{}};
    row.Set("repo", Value{state.repo});
    row.Set("commit", JsonTextOrNull(state.commit));
    row.Set("folder", JsonTextOrNull(state.folder.string()));
    row.Set("complete", Value{state.complete});
    row.Set("bytes", Value{static_cast<int64_t>(state.bytes)});
    list.push_back(std::move(row));
  }
  return Value{std::move(list)};
}

void PrintJson(const Value& document) {
  constexpr int kIndent = 2;
  Print(ToJson(document, kIndent) + "\n");
}

std::string_view NameOf(RunMode mode) { return mode == RunMode::kNative ? "native" : "container"; }

}  // namespace sightline
