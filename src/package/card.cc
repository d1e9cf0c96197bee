#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "package/card_fields.h"
#include "package/card_sections.h"
#include "package/kinds.h"

namespace sightline {
namespace {

constexpr char kNotGiven[] = "_The author of the package did not say._";

std::string Trimmed(const std::optional<std::string>& text) {
  constexpr char kBlanks[] = " \t\r\n";
  const std::string all = text.value_or("");
  const size_t start = all.find_first_not_of(kBlanks);
  return start == std::string::npos ? "" : all.substr(start, all.find_last_not_of(kBlanks) + 1 - start);
}

class CardWriter {
 public:
  explicit CardWriter(const WireManifest& manifest)
      : manifest_(manifest), container_(*manifest.container), card_(container_.card.value_or(Card{})) {
    for (const ServeProfile& profile : container_.serve_profiles) {
      profiles_.push_back(MergeProfile(container_.serve, profile));
    }
    repo_ = TextIn(container_.built, "repo").value_or(manifest.name);
    const KindDescription* kind = FindKind(container_.kind);
    server_ = kind ? kind->server : "its server";
  }

  std::string Write() {
    text_ = CardFrontMatter(manifest_);
    Add("# " + manifest_.name);
    Add(Trimmed(card_.description));
    Add(HardwareSentence());
    Add(fmt::format("Packaged and published with tt-model-manager {} (manifest schema {}).",
                    TextIn(container_.built, "tt_model_version").value_or(manifest_.producer.tt_kernel_version),
                    manifest_.schema_version));
    AddGlance();
    AddIntendedUse();
    AddQuickstart();
    AddProfiles();
    Add(CardUsage(manifest_, profiles_));
    AddSection("Expected performance", Trimmed(card_.performance), kNotGiven);
    AddSection("Limitations", Trimmed(card_.limitations), kNotGiven);
    AddSection("Risks and safety considerations", Trimmed(card_.risks));
    AddSection("Licensing", Trimmed(card_.licensing));
    AddSection("Related packages", Trimmed(card_.related));
    Add(
        fmt::format("## Feedback\n\nAbout this package: https://huggingface.co/{}/discussions, which its author reads. "
                    "About the `tt` tools: `tt report issue`.",
                    repo_));
    text_ += CardProvenance(manifest_);
    return std::move(text_);
  }

 private:
  void Add(const std::string& paragraph) {
    if (!paragraph.empty()) text_ += paragraph + "\n\n";
  }
  void AddSection(std::string_view heading, const std::string& body, const std::string& otherwise = {}) {
    const std::string& shown = body.empty() ? otherwise : body;
    if (!shown.empty()) Add(fmt::format("## {}\n\n{}", heading, shown));
  }
  std::string HardwareSentence() const;
  void AddGlance();
  void AddIntendedUse();
  void AddQuickstart();
  void AddProfiles();
  std::string WeightsSentence() const;

  const WireManifest& manifest_;
  const WireContainer& container_;
  const Card card_;
  std::vector<ServeProfile> profiles_;
  std::string repo_, server_, text_;
};

std::string CardWriter::HardwareSentence() const {
  if (manifest_.device_count == 0) return fmt::format("Runs on the processor, {}, without any device.", manifest_.arch);
  if (profiles_.size() != 1) {
    std::vector<std::string> boards;
    for (const ServeProfile& profile : profiles_)
      boards.push_back(fmt::format("**{}**", profile.hardware.value_or("?")));
    return fmt::format("Runs on {}; see the serve profiles below.", fmt::join(boards, " or "));
  }
  const ServeProfile& profile = profiles_.front();
  std::vector<std::string> more;
  if (profile.max_model_len) more.push_back(WithCommas(*profile.max_model_len) + " tokens of context");
  if (profile.max_num_seqs) more.push_back(fmt::format("up to {} sequences at once", *profile.max_num_seqs));
  return fmt::format("Runs on **{}** (mesh `{}`){}{}.", profile.hardware.value_or("?"),
                     profile.mesh_device.value_or("?"), more.empty() ? "" : ", with ", fmt::join(more, " and "));
}

void CardWriter::AddGlance() {
  std::set<std::string> boards;
  int64_t context = 0;
  for (const ServeProfile& profile : profiles_) {
    if (profile.hardware) boards.insert(*profile.hardware);
    context = std::max(context, profile.max_model_len.value_or(0));
  }
  std::string license;
  if (card_.license) license = Trimmed(card_.license->name).empty() ? card_.license->id : *card_.license->name;
  const std::pair<std::string_view, std::string> rows[] = {
      {"Architecture", Trimmed(card_.architecture)},
      {"Hardware", fmt::format("{}", fmt::join(boards, ", "))},
      {"Context", context > 0 ? WithCommas(context) + " tokens" : ""},
      {"License", license},
      {"Status", Trimmed(card_.status)},
  };
  std::string table = "## At a glance\n\n| | |\n| --- | --- |";
  bool any = false;
  for (const auto& [label, value] : rows) {
    if (value.empty()) continue;
    table += fmt::format("\n| {} | {} |", label, TableCell(value));
    any = true;
  }
  if (any) Add(table);
}

void CardWriter::AddIntendedUse() {
  const std::string use = Trimmed(card_.intended_use);
  const std::string no_use = Trimmed(card_.out_of_scope_use);
  if (use.empty() && no_use.empty()) return;
  Add("## Intended use");
  if (!use.empty()) Add("**Direct use:** " + use);
  if (!no_use.empty()) Add("**Out-of-scope use:** " + no_use);
}

std::string CardWriter::WeightsSentence() const {
  std::vector<std::string> links;
  for (const WeightsPointer& weights : manifest_.AllWeights()) {
    links.push_back(fmt::format("[`{0}`](https://huggingface.co/{0})", weights.repo));
    if (weights.revision) links.back() += fmt::format(" at `{}`", *weights.revision);
  }
  return fmt::format("The weights ({}) go to your Hugging Face cache; they are not in the image.",
                     fmt::join(links, ", "));
}

void CardWriter::AddQuickstart() {
  const auto landmarks = ReadyLandmarks(container_);
  const std::string landmark = landmarks ? landmarks->front() : "that it is ready";
  // The spaces are part of the four commands: `push` finds and rewrites them.
  Add(
      fmt::format("## Quickstart\n\n```bash\ntt model pull {0}\ntt serve {0}\n```\n\nOr with tt-model alone:\n\n"
                  "```bash\ntt-model pull  {0} --with-weights\ntt-model serve {0}\n```",
                  repo_));
  Add(fmt::format(
      "{} It starts {} on port {} or the next free one, and is ready when its log says `{}`. The first start "
      "compiles kernels, which takes minutes.",
      WeightsSentence(), server_, kDefaultPort, landmark));
  Add(Trimmed(card_.quickstart));
}

void CardWriter::AddProfiles() {
  if (profiles_.size() < 2) return;
  const bool capacity = std::any_of(profiles_.begin(), profiles_.end(), [](const ServeProfile& profile) {
    return profile.max_num_seqs || profile.max_model_len;
  });
  std::string table =
      "## Serve profiles\n\nOne image serves them all; choose with `--profile`.\n\n| profile | hardware | "
      "mesh |";
  table += capacity ? " max_num_seqs | max_model_len |\n| --- | --- | --- | --- | --- |" : "\n| --- | --- | --- |";
  const std::string preferred = container_.DefaultProfileName().value_or("");
  const auto number = [](const std::optional<int64_t>& value) { return value ? std::to_string(*value) : ""; };
  for (const ServeProfile& profile : profiles_) {
    table +=
        fmt::format("\n| `{}`{} | {} | {} |", TableCell(profile.name), profile.name == preferred ? " *(default)*" : "",
                    TableCell(profile.hardware.value_or("")), TableCell(profile.mesh_device.value_or("")));
    if (capacity) table += fmt::format(" {} | {} |", number(profile.max_num_seqs), number(profile.max_model_len));
  }
  Add(table);
}

}  // namespace

std::string TableCell(std::string_view text) {
  std::string cell = Unwrapped(text);
  for (size_t at = cell.find('|'); at != std::string::npos; at = cell.find('|', at + 2)) cell.insert(at, "\\");
  return cell;
}

std::string WithCommas(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string GenerateCard(const WireManifest& manifest) {
  if (!manifest.container) return {};
  return CardWriter(manifest).Write();
}

}  // namespace sightline
