#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "package/card_sections.h"
#include "package/kinds.h"

namespace sightline {
namespace {

std::string CapabilitySentence(const ServeProfile& profile) {
  std::vector<std::string> parts;
  if (!profile.capabilities) return {};
  if (const std::string tool = profile.capabilities->tool_parser.value_or(""); !tool.empty()) {
    parts.push_back(fmt::format("tool calling is on (`--tool-call-parser {}`)", tool));
  }
  if (const std::string reasoning = profile.capabilities->reasoning_parser.value_or(""); !reasoning.empty()) {
    parts.push_back(fmt::format("reasoning arrives apart from the answer (`--reasoning_parser {}`)", reasoning));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

// Once where all profiles agree, else by profile.
std::string Capabilities(const WireContainer& container, const std::vector<ServeProfile>& profiles) {
  std::vector<std::string> sentences;
  for (const ServeProfile& profile : profiles) sentences.push_back(CapabilitySentence(profile));
  if (sentences.empty()) return {};
  const bool agree = std::all_of(sentences.begin(), sentences.end(),
                                 [&](const std::string& sentence) { return sentence == sentences.front(); });
  if (agree) return sentences.front().empty() ? "" : fmt::format("\n\nWith every profile, {}.", sentences.front());
  const std::string preferred = container.DefaultProfileName().value_or("");
  std::string text;
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (sentences[i].empty()) continue;
    text += fmt::format("\n\nWith `--profile {}`{}, {}.", profiles[i].name,
                        profiles[i].name == preferred ? " (the default)" : "", sentences[i]);
  }
  return text;
}

}  // namespace

std::string CardUsage(const WireManifest& manifest, const std::vector<ServeProfile>& profiles) {
  const WireContainer& container = *manifest.container;
  std::string text = "## Using it\n\n";
  if (SpeaksOpenAi(container.kind)) {
    text += fmt::format(
        "The server speaks the OpenAI API at `http://127.0.0.1:{}/v1`, or at the port that your serve "
        "command names. Its `model` is `{}`.",
        kDefaultPort, manifest.weights ? manifest.weights->repo : manifest.name);
    text += Capabilities(container, profiles);
  } else {
    text += fmt::format(
        "This is **not** an OpenAI-compatible API: requests and answers on port {} are the model's own. "
        "They are described by the author on this page, or else by the server's routes and `code/`.",
        kDefaultPort);
  }
  const std::string usage = container.card ? container.card->usage.value_or("") : "";
  const size_t end = usage.find_last_not_of(" \t\r\n");
  if (end != std::string::npos) text += "\n\n" + usage.substr(0, end + 1);
  return text;
}

}  // namespace sightline
