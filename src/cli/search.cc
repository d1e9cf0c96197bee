#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class SearchVerb : public Verb {
 public:
  VerbText text() const override {
    return {"search", "Find packages on the hub", fmt::format("{} search gaze", ProgramName()), ""};
  }
  void Declare(OptionSet& options) override {
    options.Argument("QUERY", query_, "TEXT", "part of a name (default: every package)");
    options.Whole("--limit", limit_, 1, 10'000, "at most so many (default 50)");
    options.Flag("--catalog", catalog_, "those that are listed in the catalog alone");
    options.Text("--arch", arch_, "NAME", "for this architecture alone");
    options.Flag("--json", json_, "as a JSON array");
  }
  Result<int> Run() override;

 private:
  std::string query_, arch_;
  int limit_ = 50;
  bool catalog_ = false, json_ = false;
};

Value Document(const HubRepo& repo) {
  Value document{Value::Map{}};
  document.Set("id", Value{repo.id});
  document.Set("private", Value{repo.is_private});
  document.Set("downloads", Value{static_cast<int64_t>(repo.downloads)});
  document.Set("last_modified", JsonTextOrNull(repo.modified));
  return document;
}

Result<int> SearchVerb::Run() {
  std::ranges::transform(arch_, arch_.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter(true);
  const Interrupts interrupts;
  const auto found = store->Search(query_, catalog_, arch_, limit_, interrupts.token());
  if (!found) return Failed(found.error(), *reporter, json_);
  if (json_) {
    Value::List list;
    for (const HubRepo& repo : *found) list.push_back(Document(repo));
    PrintJson(Value{std::move(list)});
    return 0;
  }
  if (found->empty()) Print("No matching bundles found.\n");
  for (const HubRepo& repo : *found) {
    Print(fmt::format("{}  [{}]  downloads={}\n", OneLine(repo.id), repo.is_private ? "private" : "public",
                      repo.downloads));
  }
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeSearchVerb() { return std::make_unique<SearchVerb>(); }

}  // namespace sightline
