#include <fmt/format.h>

#include <system_error>

#include "store/store.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

bool EndsInDocument(std::string_view text) {
  return text.ends_with(".json") || text.ends_with(".yaml") || text.ends_with(".yml");
}

// What is written as a path, or is a file, or a folder with a manifest. "org/name" is a package even where a folder of
// that name happens to be.
bool IsPath(const std::string& text) {
  std::error_code error;
  if (text.starts_with(".") || text.starts_with("/") || EndsInDocument(text)) return true;
  return fs::is_regular_file(text, error) || fs::is_regular_file(fs::path(text) / kWireManifestName, error);
}

Target FileTarget(const std::string& text) {
  std::error_code error;
  fs::path file = text;
  if (fs::is_directory(file, error)) file /= kWireManifestName;
  return Target{TargetKind::kFile, text, {}, file};
}

}  // namespace

Result<Target> ParseTarget(const std::string& text) {
  if (text.empty()) return Fail(Code::kUsage, "the package is an empty text, expected ORG/NAME, a file or oci://...");
  if (text.starts_with("oci://")) {
    SIGHTLINE_ASSIGN_OR_RETURN(const OciReference reference, ParseOciReference(text));
    return Target{TargetKind::kRegistry, FormatOciReference(reference), {}, {}};
  }
  if (FindBuiltInPackage(text) != nullptr) return Target{TargetKind::kShortName, text, {}, {}};
  if (IsPath(text)) return FileTarget(text);
  Target target{TargetKind::kHub, text, {}, {}};
  if (const size_t at = text.rfind('@'); at != std::string::npos) {
    target.id = text.substr(0, at);
    target.revision = text.substr(at + 1);
    if (target.revision->empty()) return Fail(Code::kUsage, fmt::format("'{}' names no revision behind @", text));
  }
  SIGHTLINE_RETURN_IF_ERROR(CheckRepoId(target.id));
  if (target.id.find('/') != std::string::npos) return target;
  std::string names;
  for (const BuiltInPackage& package : BuiltInPackages()) names += ", " + package.name;
  return Fail(Code::kUsage,
              fmt::format("'{}' is not a repo id, expected ORG/NAME, oci://HOST/REPO:TAG{} or a file", text, names));
}

}  // namespace sightline
