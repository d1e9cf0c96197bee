#include <fmt/format.h>

#include <algorithm>

#include "cli/launching.h"
#include "cli/number_text.h"
#include "cli/persona.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

class ListVerb : public Verb {
 public:
  explicit ListVerb(std::string name) : name_(std::move(name)) {}
  VerbText text() const override {
    return {name_, "List the packages that are here", fmt::format("{} {}", ProgramName(), name_),
            "✓ is ready to be served, ✗ is not; why is said below."};
  }
  void Declare(OptionSet& options) override { options.Flag("--json", json_, "as a JSON array"); }
  Result<int> Run() override;

 private:
  std::string name_;
  bool json_ = false;
};

Value Document(const ListedPackage& row) {
  Value document{Value::Map{}};
  document.Set("id", Value{row.entry.id});
  document.Set("kind", Value{row.kind});
  document.Set("ready", Value{row.ready});
  document.Set("problem", JsonTextOrNull(row.problem));
  document.Set("arch", JsonTextOrNull(row.entry.arch));
  document.Set("revision", JsonTextOrNull(row.entry.revision.value_or("")));
  document.Set("pinned", Value{row.entry.pinned});
  document.Set("image", JsonTextOrNull(row.kind == "container" ? row.entry.image : ""));
  document.Set("image_bytes", Value{static_cast<int64_t>(row.image_bytes)});
  document.Set("profile", JsonTextOrNull(row.entry.profile));
  document.Set("profiles", TextsValue(row.entry.profiles));
  document.Set("manifest", JsonTextOrNull(row.entry.manifest.string()));
  document.Set("weights", WeightsValue(row.weights));
  return document;
}

std::string WeightsText(const ListedPackage& row) {
  uint64_t bytes = 0;
  for (const WeightsState& state : row.weights) bytes += state.bytes;
  const bool complete = std::ranges::all_of(row.weights, [](const WeightsState& state) { return state.complete; });
  if (row.weights.empty()) return "";
  if (bytes == 0) return "weights not here";
  return fmt::format("weights {}{}", DecimalBytes(bytes), complete ? "" : " in part");
}

std::vector<std::string> TableRow(const ListedPackage& row) {
  std::string image;
  if (row.kind == "container") {
    image =
        fmt::format("image {}{}", row.entry.image, row.image_bytes == 0 ? "" : "  " + DecimalBytes(row.image_bytes));
  }
  return {fmt::format("  {} {}", row.ready ? "✓" : "✗", row.entry.id),     row.kind,        row.entry.arch, image,
          row.entry.profile.empty() ? "" : "profile " + row.entry.profile, WeightsText(row)};
}

Result<int> ListVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore());
  const std::vector<ListedPackage> rows = store->List();
  if (json_) {
    Value::List list;
    for (const ListedPackage& row : rows) list.push_back(Document(row));
    PrintJson(Value{std::move(list)});
    return 0;
  }
  if (rows.empty()) {
    Print(CurrentPersona() == Persona::kTtModel ? "No bundles installed.\n" : "No packages are here.\n");
    return 0;
  }
  std::vector<std::vector<std::string>> table;
  for (const ListedPackage& row : rows) table.push_back(TableRow(row));
  Print(TableText(table));
  for (const ListedPackage& row : rows) {
    if (!row.ready) PrintWarning(fmt::format("{}: {}", row.entry.id, row.problem));
  }
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeListVerb(std::string name) { return std::make_unique<ListVerb>(std::move(name)); }

}  // namespace sightline
