#include <fmt/format.h>

#include "store/documents.h"
#include "store/state.h"

namespace sightline {
namespace {

// What the repository's card says, else what we know of the weights of ours.
CardLicense LicenseOf(StoreState& state, const std::string& repo, std::stop_token stop) {
  CardLicense license;
  const HubResult<HubRepo> info = state.weights.Info(repo, "main", std::move(stop));
  if (info) {
    license.id = info->license;
    if (!info->license_name.empty()) license.name = info->license_name;
    if (!info->license_link.empty()) license.link = info->license_link;
  }
  if (!license.id.empty()) return license;
  const BuiltInPackage* built_in = FindPackageByWeights(repo);
  return built_in == nullptr ? license : built_in->native.license;
}

std::string Named(const CardLicense& license) {
  if (license.id.empty()) return "a licence that its card does not name";
  std::string text = license.id == "other" && license.name ? *license.name : license.id;
  if (license.link) text += fmt::format(" ({})", *license.link);
  return text;
}

// Not being able to write it down means being asked again, and nothing worse.
void Record(const StoreFolders& folders, const LicenseNotice& notice) {
  const auto lock = FileLock::Take(folders.root / ".licenses.lock", FileLock::Kind::kExclusive);
  if (!lock) return;
  Value document = ReadMapFile(folders.licenses).value_or(Value{Value::Map{}});
  Value entry{Value::Map{}};
  entry.Set("license", TextValue(std::string_view(notice.license.id)));
  entry.Set("name", TextValue(notice.license.name));
  entry.Set("link", TextValue(notice.license.link));
  entry.Set("accepted_at", TextValue(std::string_view(UtcNow())));
  document.Set(notice.repo, std::move(entry));
  if (const Status written = WriteMapFile(folders.licenses, document); !written) LogWarning(written.error().message);
}

}  // namespace

StoreStatus AgreeToLicense(StoreState& state, const std::string& repo, const LicenseQuestion& question,
                           Reporter& reporter, std::stop_token stop) {
  const Value known = ReadMapFile(state.settings.folders.licenses).value_or(Value{Value::Map{}});
  if (known.Find(repo) != nullptr) return {};
  LicenseNotice notice{repo, LicenseOf(state, repo, stop), {}};
  notice.sentence = fmt::format("the weights {} come under {}", repo, Named(notice.license));
  bool agreed = true;
  if (question) {
    SIGHTLINE_ASSIGN_OR_RETURN(agreed, question(notice, std::move(stop)));
  } else {
    reporter.OnNote(notice.sentence);
  }
  if (!agreed) {
    return tl::make_unexpected(StoreError(
        Code::kNoPermission,
        {"the licence was not accepted", notice.sentence, {}, {"read the licence, then say --accept-license"}}));
  }
  Record(state.settings.folders, notice);
  return {};
}

}  // namespace sightline
