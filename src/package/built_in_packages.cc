#include <algorithm>

#include "package/package.h"

extern "C" {
extern const std::byte sightline_gaze_lle_tt_model[], sightline_gaze_lle_tt_model_end[];
extern const std::byte sightline_gaze_lle_sightline[], sightline_gaze_lle_sightline_end[];
extern const std::byte sightline_locate_anything_tt_model[], sightline_locate_anything_tt_model_end[];
extern const std::byte sightline_locate_anything_sightline[], sightline_locate_anything_sightline_end[];
}

namespace sightline {
namespace {

std::string_view Text(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin)};
}

BuiltInPackage Read(std::string name, std::string_view tt_model, std::string_view own) {
  auto native = NativePackage::Parse(own, name + "/" + kNativeManifestName);
  SIGHTLINE_CHECK(native.has_value());  // it was checked when the program was built
  return {std::move(name), tt_model, own, std::move(*native)};
}

}  // namespace

const std::vector<BuiltInPackage>& BuiltInPackages() {
  static const std::vector<BuiltInPackage> kPackages = {
      Read("gaze-lle", Text(sightline_gaze_lle_tt_model, sightline_gaze_lle_tt_model_end),
           Text(sightline_gaze_lle_sightline, sightline_gaze_lle_sightline_end)),
      Read("locate-anything", Text(sightline_locate_anything_tt_model, sightline_locate_anything_tt_model_end),
           Text(sightline_locate_anything_sightline, sightline_locate_anything_sightline_end)),
  };
  return kPackages;
}

const BuiltInPackage* FindBuiltInPackage(std::string_view name) {
  const auto& all = BuiltInPackages();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const BuiltInPackage& package) { return package.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const BuiltInPackage* FindPackageByWeights(std::string_view weights_repo) {
  const auto& all = BuiltInPackages();
  const auto found = std::find_if(all.begin(), all.end(), [&](const BuiltInPackage& package) {
    return package.native.weights.repo == weights_repo;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace sightline
