// The generated card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "package/package.h"
#include "tests/support/manifest_text.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string CardOf(std::string_view text, const std::string& built = "{}") {
  WireManifest wire = WireOf(ParsedManifest(text));
  wire.container->built = ParseJson(built, "built").value();
  if (!wire.container->built.Find("repo")) wire.container->built.Set("repo", Value{ParsedManifest(text).repo});
  return GenerateCard(wire);
}

// Headings, in order.
std::vector<std::string> Headings(const std::string& card) {
  std::vector<std::string> headings;
  for (size_t at = card.find("\n## "); at != std::string::npos; at = card.find("\n## ", at + 1)) {
    headings.push_back(card.substr(at + 4, card.find('\n', at + 1) - at - 4));
  }
  return headings;
}

constexpr char kCard[] = R"(card:
  description: What it is.
  architecture: 7B | dense
  status: Trial
  intended_use: Chat.
  out_of_scope_use: Pictures.
  usage: Ask it.
  quickstart: "### Prompting"
  performance: Fast.
  limitations: Some.
  risks: Few.
  licensing: Free.
  related: Others.
  license: {id: apache-2.0}
)";

TEST(PackageCard, SectionsInOrder) {
  const std::string card = CardOf(std::string(kPluginManifest) + kCard);
  EXPECT_THAT(Headings(card), ElementsAre("At a glance", "Intended use", "Quickstart", "Using it",
                                          "Expected performance", "Limitations", "Risks and safety considerations",
                                          "Licensing", "Related packages", "Feedback", "Provenance"));
  EXPECT_THAT(card, HasSubstr("# my-model\n\nWhat it is.\n\nRuns on **p150x4** (mesh `P150x4`)"));
  EXPECT_THAT(card, HasSubstr("| Architecture | 7B \\| dense |"));
  EXPECT_THAT(card, HasSubstr("| Context | 131,072 tokens |"));
  EXPECT_THAT(card, HasSubstr("(manifest schema 5.1)"));
}

TEST(PackageCard, WithoutAuthorOnlyTheRequiredSections) {
  const std::string card = CardOf(kDitManifest);
  EXPECT_THAT(Headings(card), ElementsAre("At a glance", "Quickstart", "Using it", "Expected performance",
                                          "Limitations", "Feedback", "Provenance"));
  EXPECT_THAT(card, HasSubstr("**not** an OpenAI-compatible API"));
  EXPECT_THAT(card, Not(HasSubstr("pipeline_tag")));
}

TEST(PackageCard, FrontMatter) {
  const std::string card = CardOf(std::string(kPluginManifest) + kCard);
  EXPECT_TRUE(
      card.starts_with("---\ntags:\n- blackhole\n- p150x4\n- tt-model-cache\n- tt-model-container\n- vllm-plugin\n"
                       "license: apache-2.0\npipeline_tag: text-generation\nbase_model:\n- org/Weights-7B\n---\n\n"))
      << card;
}

TEST(PackageCard, OtherLicensesHaveSlugAndLink) {
  const std::string text =
      std::string(kDitManifest) +
      "card:\n  license: {id: other, name: \"Fish Audio (v1.0) / Research\\n\", link: \"https://a.b/x#y\"}\n"
      "  pipeline_tag: \"yes\"\n  base_model: [a/b]\n";
  EXPECT_THAT(CardOf(text),
              HasSubstr("license: other\nlicense_name: fish-audio-v1.0-research\n"
                        "license_link: \"https://a.b/x#y\"\npipeline_tag: \"yes\"\nbase_model:\n- a/b\n"));
}

TEST(PackageCard, FrontMatterIsYamlWhateverIsInIt) {
  const std::string text =
      std::string(kDitManifest) +
      "card:\n  license: {id: other, name: x, link: \"a: [b\\\" {c\"}\n  pipeline_tag: \"- 'x\\ny: z\"\n";
  const std::string card = CardOf(text);
  const auto front = ParseYaml(card.substr(4, card.find("\n---\n") - 4), "front matter");
  ASSERT_TRUE(front.has_value()) << front.error().message;
  EXPECT_EQ(*front->Find("license_link")->AsText(), "a: [b\" {c");
  EXPECT_EQ(*front->Find("pipeline_tag")->AsText(), "- 'x y: z");
}

TEST(PackageCard, SeveralProfiles) {
  const std::string text = std::string(kPluginManifest) +
                           "serve_profiles:\n  - {name: a, max_num_seqs: 8, capabilities: {tool_parser: hermes}}\n"
                           "  - {name: b, hardware: p300x2, mesh_device: P300x2}\ndefault_profile: a\n";
  const std::string card = CardOf(text);
  EXPECT_THAT(card, HasSubstr("Runs on **p150x4** or **p300x2**"));
  EXPECT_THAT(card, HasSubstr("| `a` *(default)* | p150x4 | P150x4 | 8 | 131072 |"));
  EXPECT_THAT(card, HasSubstr("| `b` | p300x2 | P300x2 | 32 | 131072 |"));
  EXPECT_THAT(card, HasSubstr("With `--profile a` (the default), tool calling is on"));
  EXPECT_THAT(CardTags(WireOf(ParsedManifest(text))),
              ElementsAre("blackhole", "p150x4", "p300x2", "tt-model-cache", "tt-model-container", "vllm-plugin"));
}

TEST(PackageCard, ProvenanceShowsOnlyCommitsThatCanBeFetched) {
  const std::string pushed = R"({"tt_metal": {"sha": "8b98410e", "remote": "git@github.com:a/b.git", "pushed": true},
                                "code_sha256": "99ab6c3ad7b4ea9e0000", "created_at": "2026-09-13T15:37:45+00:00",
                                "tt_model_version": "0.1.0", "repo": "org/my-dit"})";
  EXPECT_THAT(CardOf(kDitManifest, pushed),
              HasSubstr("| tt-metal | [`8b98410e`](https://github.com/a/b/commit/8b98410e) |"));
  EXPECT_THAT(CardOf(kDitManifest, pushed),
              HasSubstr("| `code/` digest | `99ab6c3ad7b4ea9e` (sha256, first 16 hex digits) |"));
  EXPECT_THAT(CardOf(kDitManifest, pushed), HasSubstr("| built | 2026-09-13T15:37:45+00:00 by tt-model 0.1.0 |"));
  for (const std::string& text :
       {With(pushed, "true", "false"), With(pushed, "git@github.com:a/b.git", "/home/me/b")}) {
    EXPECT_THAT(CardOf(kDitManifest, text), HasSubstr("| tt-metal | a local checkout, not published |"));
  }
  EXPECT_THAT(CardOf(kDitManifest, With(pushed, "git@github.com:a/b.git", "https://me:secret@github.com/a/b")),
              Not(HasSubstr("secret")));
}

TEST(PackageCard, Case68RepointRewritesOnlyTheFourCommands) {
  const std::string card = CardOf(std::string(kDitManifest) + "card: {description: About org/my-dit}\n");
  const std::string moved = RepointCard(card, "new/home");
  for (const char* line :
       {"\ntt model pull new/home\n", "\ntt serve new/home\n", "\ntt-model pull  new/home --with-weights\n",
        "\ntt-model serve new/home\n", "About org/my-dit"}) {
    EXPECT_THAT(moved, HasSubstr(line));
  }
  EXPECT_EQ(RepointCard(moved, "new/home"), moved);
  EXPECT_EQ(RepointCard(moved, "org/my-dit"), card);
  for (const char* prose : {"use tt serve a/b", "tt serve nothing", "tt-model pull one/space", "tt serve a/b/c", ""}) {
    EXPECT_EQ(RepointCard(prose, "new/home"), prose);
  }
}

}  // namespace
}  // namespace sightline
