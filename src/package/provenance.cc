#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "package/git.h"
#include "package/package.h"
#include "package/python_text.h"

namespace sightline {
namespace {

constexpr char kSubmoduleFile[] = "tt_metal/third_party/umd/CMakeLists.txt";

bool IsHexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string Trimmed(std::string line) {
  line.erase(0, std::min(line.find_first_not_of(" *\t"), line.size()));
  return line.substr(0, line.find(" -> "));
}

// The remote that a reader should look at: where HEAD is, the branch's own first; else origin, else any.
std::optional<std::string> RemoteOf(const std::filesystem::path& folder, const std::optional<std::string>& branch,
                                    const std::vector<std::string>& holding_branches) {
  const std::vector<std::string> remotes = PartsOf(AskGit(folder, {"remote"}).value_or(""), '\n');
  const auto holds_head = [&](const std::string& remote) {
    return std::any_of(holding_branches.begin(), holding_branches.end(),
                       [&](const std::string& line) { return Trimmed(line).starts_with(remote + "/"); });
  };
  const auto is_known = [&](const std::string& remote) {
    return std::find(remotes.begin(), remotes.end(), remote) != remotes.end();
  };
  std::vector<std::string> candidates;
  if (branch && *branch != "HEAD") {
    const auto tracked = AskGit(folder, {"config", "--get", fmt::format("branch.{}.remote", *branch)});
    if (tracked && is_known(*tracked) && holds_head(*tracked)) candidates.push_back(*tracked);
  }
  std::copy_if(remotes.begin(), remotes.end(), std::back_inserter(candidates), holds_head);
  if (is_known("origin")) candidates.emplace_back("origin");
  candidates.insert(candidates.end(), remotes.begin(), remotes.end());
  if (candidates.empty()) return std::nullopt;
  const auto address = AskGit(folder, {"remote", "get-url", candidates.front()});
  return address ? std::optional(WithoutCredentials(*address)) : std::nullopt;
}

Status CheckMetal(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder / "tt_metal", error)) {
    return Fail(Code::kNotFound,
                fmt::format("source.tt_metal: {} is no tt-metal checkout, it has no folder tt_metal", folder.string()));
  }
  if (std::filesystem::is_regular_file(folder / kSubmoduleFile, error)) return {};
  return Fail(
      Code::kNotFound,
      fmt::format("source.tt_metal: {} has uninitialised git submodules, {} is missing; run git -C {} submodule "
                  "update --init --recursive",
                  folder.string(), kSubmoduleFile, folder.string()));
}

// A number in decimal digits that begins `text`, which moves behind it.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  return value;
}

bool Take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// The commit of `reference` among lines "SHA\tNAME" of ls-remote. Names are tried in the order of gitrevisions(7); of
// an annotated tag NAME^{} is the commit.
std::optional<std::string> CommitOf(const std::string& reference, const std::vector<std::string>& lines) {
  for (const char* prefix : {"", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"}) {
    for (const char* suffix : {"^{}", ""}) {
      const std::string end = "\t" + (prefix + reference) + suffix;
      const auto found =
          std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.ends_with(end); });
      if (found != lines.end()) return found->substr(0, found->find('\t'));
    }
  }
  return std::nullopt;
}

}  // namespace

std::string ScmVersion(std::string_view describe, bool dirty) {
  constexpr char kUnknown[] = "0.0.0.dev0";
  if (describe.ends_with("-dirty")) {
    describe.remove_suffix(6);
    dirty = true;
  }
  if (!Take(describe, "v")) return kUnknown;
  const auto major = TakeNumber(describe);
  if (!major || !Take(describe, ".")) return kUnknown;
  const auto minor = TakeNumber(describe);
  if (!minor || !Take(describe, ".")) return kUnknown;
  const auto patch = TakeNumber(describe);
  if (!patch || *patch > 1'000'000'000) return kUnknown;
  int64_t distance = 0;
  std::string node;
  if (!describe.empty()) {
    if (!Take(describe, "-")) return kUnknown;
    const auto count = TakeNumber(describe);
    if (!count || !Take(describe, "-g") || describe.empty() || !IsHexadecimal(describe)) return kUnknown;
    distance = *count;
    node = describe;
  }
  std::string version = distance == 0 ? fmt::format("{}.{}.{}", *major, *minor, *patch)
                                      : fmt::format("{}.{}.{}.dev{}", *major, *minor, *patch + 1, distance);
  if (dirty && !node.empty()) version += "+g" + node;
  return version;
}

std::optional<CheckoutState> ResolveCheckout(const std::filesystem::path& folder) {
  const auto sha = AskGit(folder, {"rev-parse", "HEAD"});
  if (!sha) return std::nullopt;
  return CheckoutState{*sha, AskGit(folder, {"status", "--porcelain"}).has_value()};
}

Result<MetalProvenance> ResolveLocalMetal(const std::filesystem::path& folder) {
  SIGHTLINE_RETURN_IF_ERROR(CheckMetal(folder));
  MetalProvenance found;
  const CheckoutState state = ResolveCheckout(folder).value_or(CheckoutState{});
  found.sha = state.sha;
  found.dirty = state.dirty;
  found.describe = AskGit(folder, {"describe", "--abbrev=10", "--first-parent", "--dirty=-dirty"});
  found.branch = AskGit(folder, {"rev-parse", "--abbrev-ref", "HEAD"});
  const std::vector<std::string> holding =
      PartsOf(AskGit(folder, {"branch", "-r", "--contains", "HEAD"}).value_or(""), '\n');
  found.pushed = !holding.empty();
  found.remote = RemoteOf(folder, found.branch, holding);
  const auto release = AskGit(folder, {"describe", "--tags", "--long", "--dirty", "--match", "v[0-9]*.[0-9]*.[0-9]*",
                                       "--exclude", "*-dev*", "--exclude", "*-rc*"});
  if (release) found.scm_version = ScmVersion(*release, false);
  return found;
}

Result<std::string> ResolveGitReference(const std::string& repo, const std::string& reference) {
  if (reference.size() == 40 && IsHexadecimal(reference)) return reference;
  // git takes these for patterns that the end of a name must match.
  SIGHTLINE_ASSIGN_OR_RETURN(const ProcessOutput answer,
                             RunGit({"ls-remote", "--", repo, reference, reference + "^{}"}));
  if (answer.exit_code == 0) {
    if (const auto commit = CommitOf(reference, PartsOf(answer.standard_output, '\n'))) return *commit;
  }
  if (reference.size() >= 7 && reference.size() < 40 && IsHexadecimal(reference)) return reference;
  const std::string reason = ReasonOf(answer);
  return Fail(Code::kNotFound, fmt::format("{} has no branch, tag or commit {}{}", WithoutCredentials(repo),
                                           PythonQuote(reference), reason.empty() ? "" : "; git: " + reason));
}

Status CloneCommit(const GitSource& source, const std::filesystem::path& folder, std::stop_token stop) {
  const std::string commit = source.sha.value_or(source.ref);
  const std::vector<std::string> steps[] = {
      {"clone", "--quiet", "--filter=blob:none", "--no-checkout", "--", source.repo, folder.string()},
      {"-C", folder.string(), "checkout", "--quiet", "--detach", commit}};
  for (const std::vector<std::string>& words : steps) {
    SIGHTLINE_ASSIGN_OR_RETURN(const ProcessOutput output, RunGit(words, stop));
    if (output.exit_code == 0) continue;
    return Fail(Code::kUnreachable,
                fmt::format("git cannot get {} of {}: {}", commit, WithoutCredentials(source.repo), ReasonOf(output)));
  }
  return {};
}

}  // namespace sightline
