#include "package/card_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "package/python_text.h"
#include "package/serve_settings.h"

namespace sightline {
namespace {

struct Section {
  const char* key;
  std::optional<std::string> Card::*member;
};
constexpr Section kSections[] = {
    {"description", &Card::description},
    {"quickstart", &Card::quickstart},
    {"architecture", &Card::architecture},
    {"status", &Card::status},
    {"intended_use", &Card::intended_use},
    {"out_of_scope_use", &Card::out_of_scope_use},
    {"usage", &Card::usage},
    {"performance", &Card::performance},
    {"limitations", &Card::limitations},
    {"risks", &Card::risks},
    {"licensing", &Card::licensing},
    {"related", &Card::related},
};

bool IsLicenseId(std::string_view id) {
  const auto starts = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !id.empty() && starts(id.front()) &&
         std::all_of(id.begin(), id.end(), [&](char c) { return starts(c) || c == '.' || c == '+' || c == '-'; });
}

std::optional<std::string> UnwrappedOf(const std::optional<std::string>& text) {
  return text ? std::optional(Unwrapped(*text)) : std::nullopt;
}

Value LicenseValue(const CardLicense& license) {
  Value map{Value::Map{}};
  map.Set("id", Value{license.id});
  map.Set("name", TextOrNull(license.name));
  map.Set("link", TextOrNull(license.link));
  return map;
}

}  // namespace

std::string Unwrapped(std::string_view text) {
  std::string line;
  bool blank = false;
  for (const char c : text) {
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      blank = !line.empty();
      continue;
    }
    if (blank) line += ' ';
    blank = false;
    line += c;
  }
  return line;
}

CardLicense ReadLicense(const Value& value, const std::string& path, CardSource source, ProblemList& problems) {
  const bool strict = source == CardSource::kAuthor;
  FieldReader fields(value, path, problems, strict ? UnknownKeys::kRefused : UnknownKeys::kIgnored);
  CardLicense license;
  license.id = Unwrapped(fields.RequiredText("id"));
  license.name = UnwrappedOf(fields.Text("name"));
  license.link = UnwrappedOf(fields.Text("link"));
  fields.Finish();
  if (!strict || problems.Holds(fields.PathOf("id"))) return license;
  if (!IsLicenseId(license.id)) {
    fields.Complain(
        "id", value.Find("id"),
        fmt::format("{} is expected to be a license identifier of the Hub such as apache-2.0, or other, got "
                    "{}",
                    fields.PathOf("id"), PythonQuote(license.id)));
  } else if (license.id == "other" && license.name.value_or("").empty()) {
    fields.Complain("name", value.Find("name"),
                    fmt::format("{} is required where the license is other", fields.PathOf("name")));
  }
  return license;
}

Card ReadCard(const Value& value, const std::string& path, CardSource source, ProblemList& problems) {
  FieldReader fields(value, path, problems,
                     source == CardSource::kAuthor ? UnknownKeys::kRefused : UnknownKeys::kIgnored);
  Card card;
  for (const Section& section : kSections) card.*section.member = fields.Text(section.key);
  if (const Value* license = fields.Member("license")) {
    card.license = ReadLicense(*license, fields.PathOf("license"), source, problems);
  }
  card.pipeline_tag = UnwrappedOf(fields.Text("pipeline_tag"));
  card.base_model = fields.Texts("base_model");
  if (card.base_model) {
    for (std::string& model : *card.base_model) model = Unwrapped(model);
  }
  fields.Finish();
  return card;
}

Value ToValue(const Card& card) {
  Value map{Value::Map{}};
  for (const Section& section : kSections) map.Set(section.key, TextOrNull(card.*section.member));
  map.Set("license", card.license ? LicenseValue(*card.license) : Value{});
  map.Set("pipeline_tag", TextOrNull(card.pipeline_tag));
  map.Set("base_model", TextsOrNull(card.base_model));
  return map;
}

std::vector<std::string> PublishGaps(const std::optional<Card>& card) {
  std::vector<std::string> gaps;
  if (!card) return gaps;
  if (Unwrapped(card->performance.value_or("")).empty()) gaps.emplace_back("performance");
  if (Unwrapped(card->limitations.value_or("")).empty()) gaps.emplace_back("limitations");
  return gaps;
}

}  // namespace sightline
