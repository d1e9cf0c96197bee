#include <fmt/format.h>

#include <algorithm>

#include "package/copy_tree.h"
#include "package/git.h"
#include "package/kinds.h"
#include "package/package.h"
#include "package/python_text.h"

namespace sightline {
namespace {

using std::filesystem::path;

// What is made again by itself, and weights, which are only pointed at. Nothing that could be the name of a package.
constexpr std::string_view kNeverShipped[] = {"__pycache__", "*.pyc",  ".pytest_cache", "*.egg-info",    ".venv",
                                              "venv",        "logs",   "*.log",         "*.safetensors", "*.pt",
                                              "*.pth",       "*.ckpt", "*.bin",         "*.refpt"};

constexpr std::string_view kMetalLeftOut[] = {".git", ".cpmcache",    "python_env", "generated",    "built",   "models",
                                              "docs", "tech_reports", "tt-train",   "model_tracer", ".github", "infra",
                                              "jobs", "releases",     "dockerfile", "contributing", ".claude"};

constexpr std::string_view kCheckoutLeftOut[] = {".git", "__pycache__",   ".venv",       "venv",       "build",
                                                 "dist", ".pytest_cache", ".mypy_cache", ".ruff_cache"};

template <size_t N>
bool Holds(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsNeverShipped(const std::string& name) {
  return std::any_of(std::begin(kNeverShipped), std::end(kNeverShipped),
                     [&](std::string_view pattern) { return MatchesEnding(name, pattern); });
}

bool IsLeftOutOfMetal(const std::string& name, bool at_root) {
  if (Holds(kMetalLeftOut, name) || name.starts_with(".venv") || name.ends_with(".log")) return true;
  // Only at the top: deeper down, build_*.cpp are sources.
  return at_root && (name == "build" || name == "venv" || (name.starts_with("build_") && !name.ends_with(".sh")));
}

bool IsLeftOutOfCheckout(const std::string& name) {
  return Holds(kCheckoutLeftOut, name) || name.ends_with(".pyc") || name.ends_with(".egg-info");
}

Status StageEntry(const CodeRoot& root, const std::string& entry, const path& destination,
                  std::vector<std::string>& dropped) {
  if (EscapesRoot(entry)) {
    return Fail(Code::kInvalidRequest,
                fmt::format("code entry {} is expected to be a relative path without ..", PythonQuote(entry)));
  }
  const path source = root.root / entry;
  std::error_code error;
  if (!std::filesystem::exists(source, error)) {
    return Fail(Code::kNotFound, fmt::format("code entry {} does not exist under {}, and nothing is left out silently",
                                             PythonQuote(entry), root.root.string()));
  }
  const auto leave_out = [&](const path& folder, const std::string& name, bool) {
    if (!IsNeverShipped(name)) return false;
    dropped.push_back((folder / name).lexically_relative(root.root).string());
    return true;
  };
  std::string name = entry;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return CopyTree(root.root, source, destination / name, Links::kFollowed, leave_out);
}

Status CheckIsPackage(const path& source) {
  std::error_code error;
  if (std::filesystem::is_regular_file(source / "pyproject.toml", error)) return {};
  if (std::filesystem::is_regular_file(source / "setup.py", error)) return {};
  return Fail(Code::kNotFound,
              fmt::format("{} is no Python package, it has neither pyproject.toml nor setup.py", source.string()));
}

bool IsLeftOutPath(const path& relative) {
  return std::any_of(relative.begin(), relative.end(),
                     [](const path& part) { return IsLeftOutOfCheckout(part.string()); });
}

// Whether git keeps it, or a folder above it.
bool IsInCheckout(path folder) {
  std::error_code error;
  folder = std::filesystem::canonical(folder, error);
  while (!std::filesystem::exists(folder / ".git", error)) {
    if (!folder.has_relative_path()) return false;
    folder = folder.parent_path();
  }
  return true;
}

// Names of the files that belong to a checkout: those that git knows, and new ones that it does not ignore.
Result<std::vector<std::string>> ListCheckout(const path& source) {
  SIGHTLINE_ASSIGN_OR_RETURN(const ProcessOutput listed, RunGit({"-C", source.string(), "ls-files", "-z", "--cached",
                                                                 "--others", "--exclude-standard"}));
  if (listed.exit_code == 0) return PartsOf(listed.standard_output, '\0');
  return Fail(Code::kInternal, fmt::format("git cannot list the files of {}: {}", source.string(), ReasonOf(listed)));
}

}  // namespace

Result<std::vector<std::string>> StageCode(std::span<const CodeRoot> roots, const path& destination) {
  std::error_code error;
  if (std::filesystem::exists(destination, error)) {
    return Fail(Code::kInvalidRequest, fmt::format("{} exists already, expected a new folder", destination.string()));
  }
  std::filesystem::create_directories(destination, error);
  if (error) return tl::make_unexpected(ErrnoError("cannot create", destination, error.value()));
  std::vector<std::string> dropped;
  for (const CodeRoot& root : roots) {
    for (const std::string& entry : root.paths) {
      SIGHTLINE_RETURN_IF_ERROR(StageEntry(root, entry, destination, dropped));
    }
  }
  return dropped;
}

Status CopyMetalTree(const path& source, const path& destination) {
  return CopyTree(source, source, destination, Links::kKept,
                  [](const path&, const std::string& name, bool at_root) { return IsLeftOutOfMetal(name, at_root); });
}

Status CopyCheckout(const path& source, const path& destination) {
  SIGHTLINE_RETURN_IF_ERROR(CheckIsPackage(source));
  const LeaveOut leave_out = [](const path&, const std::string& name, bool) { return IsLeftOutOfCheckout(name); };
  std::vector<std::string> names;
  if (IsInCheckout(source)) {
    SIGHTLINE_ASSIGN_OR_RETURN(names, ListCheckout(source));
  }
  // None: a folder of its own, or one that the checkout around it ignores as a whole.
  if (names.empty()) return CopyTree(source, source, destination, Links::kKept, leave_out);
  for (const std::string& name : names) {
    std::error_code error;
    // Listed but deleted files are no files; a submodule is a folder, and not part of the listing.
    if (IsLeftOutPath(name) || !std::filesystem::is_regular_file(source / name, error)) continue;
    SIGHTLINE_RETURN_IF_ERROR(CopyTree(source, source / name, destination / name, Links::kFollowed, leave_out));
  }
  return {};
}

}  // namespace sightline
