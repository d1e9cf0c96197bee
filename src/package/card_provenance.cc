#include <fmt/format.h>

#include "package/card_fields.h"
#include "package/card_sections.h"
#include "package/kinds.h"

namespace sightline {
namespace {

// A remote in any of git's spellings as a page to look at; empty: it has none.
std::string PageOf(std::string remote) {
  if (remote.starts_with("git@")) {
    const size_t colon = remote.find(':');
    if (colon == std::string::npos) return {};
    remote = fmt::format("https://{}/{}", remote.substr(4, colon - 4), remote.substr(colon + 1));
  }
  if (!remote.starts_with("https://") && !remote.starts_with("http://")) return {};
  // A password in a remote must not reach a page.
  const size_t host = remote.find("://") + 3;
  const size_t at = remote.find('@', host);
  if (at != std::string::npos && at < remote.find('/', host)) remote.erase(host, at + 1 - host);
  if (remote.ends_with(".git")) remote.resize(remote.size() - 4);
  while (remote.ends_with('/')) remote.pop_back();
  return remote;
}

bool IsTrue(const Value& map, std::string_view key) {
  const Value* found = map.Find(key);
  const bool* truth = found ? std::get_if<bool>(&found->data) : nullptr;
  return truth && *truth;
}

bool IsFalse(const Value& map, std::string_view key) {
  const Value* found = map.Find(key);
  const bool* truth = found ? std::get_if<bool>(&found->data) : nullptr;
  return truth && !*truth;
}

// A commit only as a link that a reader can follow.
std::string Commit(const Value& source, std::string_view remote_key) {
  const std::string sha = TextIn(source, "sha").value_or("");
  const std::string page = PageOf(TextIn(source, remote_key).value_or(""));
  const bool shown = !sha.empty() && sha != "unknown" && !page.empty() && !IsFalse(source, "pushed");
  std::string cell = shown ? fmt::format("[`{0}`]({1}/commit/{0})", sha, page) : "a local checkout, not published";
  if (IsTrue(source, "dirty")) cell += " *(dirty: with changes that are in no commit)*";
  return cell;
}

// What became of runtime.KEY; empty: the package has none.
std::string Engine(const WireContainer& container, std::string_view key) {
  const Value built = MapIn(container.built, key);
  const Value written = MapIn(container.runtime, key);
  if (const auto wheel = TextIn(built, "wheel")) return fmt::format("`{}`, a wheel of the author", TableCell(*wheel));
  if (TextIn(built, "sha")) return Commit(built, "repo");
  if (const auto version = TextIn(written, "version")) return fmt::format("release `v{}`", TableCell(*version));
  return {};
}

}  // namespace

std::string CardProvenance(const WireManifest& manifest) {
  const WireContainer& container = *manifest.container;
  std::string lines =
      "## Provenance\n\nWhat the image was built from. `code/` in this repository is the model's code in the image, "
      "byte "
      "for byte.\n\n| component | built from |\n| --- | --- |\n";
  lines += fmt::format("| tt-metal | {} |\n", Commit(MapIn(container.built, "tt_metal"), "remote"));
  const std::string vllm = Engine(container, "vllm");
  const std::string plugin = Engine(container, "plugin");
  if (!vllm.empty()) lines += fmt::format("| vLLM | {} |\n", vllm);
  if (!plugin.empty()) lines += fmt::format("| vllm-tt-plugin | {} |\n", plugin);
  lines += fmt::format("| `code/` digest | `{}` (sha256, first 16 hex digits) |\n",
                       TextIn(container.built, "code_sha256").value_or("").substr(0, 16));
  lines += fmt::format("| built | {} by tt-model {} |\n", TableCell(TextIn(container.built, "created_at").value_or("")),
                       TableCell(TextIn(container.built, "tt_model_version").value_or("")));
  return lines;
}

}  // namespace sightline
