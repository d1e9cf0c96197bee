#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "package/card_fields.h"
#include "package/card_sections.h"
#include "package/hardware.h"
#include "package/kinds.h"
#include "package/plain_scalar.h"

namespace sightline {
namespace {

bool IsPlainCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("./_+-").find(c) != std::string_view::npos;
}

// Bare where YAML reads it as the same text, else in double quotes, as JSON writes it.
std::string YamlText(const std::string& text) {
  const bool starts = !text.empty() && text.front() != '-' && text.front() != '.';
  const bool plain = starts && std::all_of(text.begin(), text.end(), IsPlainCharacter);
  const auto read = ReadPlainScalar(text);
  if (plain && read && read->AsText()) return text;
  return ToJson(Value{text}, 0);
}

// The title of a license as the Hub wants it in license_name: "MiniMax License 1.0" is "minimax-license-1.0".
std::string LicenseSlug(const std::string& title) {
  std::string slug;
  for (char c : title) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool keeps = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (keeps) {
      slug += c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && (slug.back() == '-' || slug.back() == '.')) slug.pop_back();
  slug.erase(0, slug.find_first_not_of("-."));
  return slug;
}

void AddLicense(const CardLicense& license, std::string& lines) {
  const std::string id = Unwrapped(license.id);
  lines += fmt::format("license: {}\n", YamlText(id));
  if (id != "other") return;
  const std::string slug = LicenseSlug(Unwrapped(license.name.value_or("")));
  const std::string link = Unwrapped(license.link.value_or(""));
  if (!slug.empty()) lines += fmt::format("license_name: {}\n", YamlText(slug));
  if (!link.empty()) lines += fmt::format("license_link: {}\n", YamlText(link));
}

}  // namespace

std::vector<std::string> CardTags(const WireManifest& manifest) {
  std::set<std::string> tags = {"tt-model-cache", "tt-model-container", manifest.arch};
  if (manifest.container) {
    tags.insert(manifest.container->kind);
    for (const ServeProfile& profile : manifest.container->serve_profiles) {
      const std::string label = LowerHardware(MergeProfile(manifest.container->serve, profile).hardware.value_or(""));
      if (!label.empty()) tags.insert(label);
    }
  }
  return {tags.begin(), tags.end()};
}

std::string CardFrontMatter(const WireManifest& manifest) {
  const WireContainer& container = *manifest.container;
  std::string lines = "---\ntags:\n";
  for (const std::string& tag : CardTags(manifest)) lines += fmt::format("- {}\n", YamlText(tag));
  const Card card = container.card.value_or(Card{});
  if (card.license) AddLicense(*card.license, lines);
  const KindDescription* kind = FindKind(container.kind);
  std::string task = Unwrapped(card.pipeline_tag.value_or(""));
  if (task.empty() && kind) task = kind->pipeline_tag;
  if (!task.empty()) lines += fmt::format("pipeline_tag: {}\n", YamlText(task));
  std::vector<std::string> bases = card.base_model.value_or(std::vector<std::string>());
  if (bases.empty() && manifest.weights) bases.push_back(manifest.weights->repo);
  if (!bases.empty()) lines += "base_model:\n";
  for (const std::string& base : bases) lines += fmt::format("- {}\n", YamlText(Unwrapped(base)));
  return lines + "---\n\n";
}

}  // namespace sightline
