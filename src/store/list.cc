#include <fmt/format.h>

#include "store/documents.h"
#include "store/state.h"

namespace sightline {
namespace {

std::string KindOf(const IndexEntry& entry) {
  if (entry.mode == RunMode::kNative) return "native";
  if (entry.container) return "container";
  return BoolMember(entry.other, "self_contained") ? "bundle" : "thin";
}

class Lister {
 public:
  explicit Lister(Store& store) : store_(store), engine_(store.Engine()) {
    if (!engine_) return;
    if (const auto version = engine_->ServerVersion(); !version) engine_ = tl::make_unexpected(version.error());
  }
  ListedPackage Look(const IndexEntry& entry);

 private:
  void LookAtImage(const LocalPackage& package, ListedPackage& row);
  void LookAtWeights(const LocalPackage& package, ListedPackage& row);

  Store& store_;
  Result<ContainerEngine> engine_;
};

ListedPackage Lister::Look(const IndexEntry& entry) {
  ListedPackage row;
  row.entry = entry;
  row.kind = KindOf(entry);
  const Result<Target> target = ParseTarget(entry.id);
  const StoreResult<LocalPackage> package =
      target ? store_.FindLocal(*target) : StoreResult<LocalPackage>(tl::make_unexpected(StoreError(target.error())));
  if (row.kind == "bundle" || row.kind == "thin") {
    row.problem = "an install of tt-model without a container, which this program does not run";
    return row;
  }
  if (!package) {
    row.problem = package.error().message;
    return row;
  }
  LookAtWeights(*package, row);
  if (row.kind == "container") LookAtImage(*package, row);
  row.ready = row.problem.empty();
  return row;
}

void Lister::LookAtImage(const LocalPackage& package, ListedPackage& row) {
  if (!engine_) {
    row.problem = engine_.error().message;
    return;
  }
  const std::string reference = ImageReference(package.manifest, package.entry);
  const Result<ImageIdentity> identity = IdentityOf(*engine_, reference, package.manifest, row.entry);
  if (!identity) {
    row.problem = identity.error().message;
    return;
  }
  if (identity->present_id.empty()) {
    row.problem = fmt::format("the image {} is not in the engine", reference);
    return;
  }
  if (!ImageIsCurrent(*identity)) {
    row.problem = fmt::format("the image {} is another one than the package names", reference);
  }
  row.image_bytes = engine_->ImageBytes(reference).value_or(0);
}

void Lister::LookAtWeights(const LocalPackage& package, ListedPackage& row) {
  const HubCache& cache = store_.hub().cache();
  for (const WeightsPointer& pointer : WeightsFor(package, row.entry.mode)) {
    const auto snapshot = cache.FindComplete(pointer.repo, RevisionOf(pointer), PatternsOf(pointer));
    WeightsState state{pointer.repo, {}, {}, snapshot.has_value(), 0};
    if (snapshot) {
      state.commit = snapshot->commit;
      state.folder = snapshot->folder;
    }
    state.bytes = cache.BytesThere(pointer.repo, RevisionOf(pointer));
    if (!state.complete && row.kind == "native") {
      row.problem = fmt::format("the weights {} are {}", pointer.repo, state.bytes == 0 ? "not here" : "here in part");
    }
    row.weights.push_back(std::move(state));
  }
}

}  // namespace

std::vector<ListedPackage> Store::List() {
  std::vector<ListedPackage> rows;
  const std::vector<IndexEntry> entries = state_->index.Read();
  if (entries.empty()) return rows;
  Lister lister(*this);
  for (const IndexEntry& entry : entries) rows.push_back(lister.Look(entry));
  return rows;
}

std::vector<VerdictRow> Store::Verdict(const WireManifest& manifest, const std::optional<std::string>& arch) const {
  if (!NeedsDevices(manifest)) return {};
  const std::vector<int> chips = ChipInventory(state_->settings.host_root);
  const std::string local = arch ? *arch : chips.empty() ? "" : Host().arch;
  std::vector<VerdictRow> rows;
  if (!local.empty() && local != manifest.arch) rows.push_back({true, "arch", manifest.arch, local});
  if (local.empty() && chips.empty()) rows.push_back({true, "arch", manifest.arch, "no Tenstorrent device"});
  if (!arch && std::cmp_less(chips.size(), manifest.device_count)) {
    rows.push_back({true, "device_count", std::to_string(manifest.device_count), std::to_string(chips.size())});
  }
  return rows;
}

}  // namespace sightline
