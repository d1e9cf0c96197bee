#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace sightline {
namespace {

constexpr size_t kLongestPart = 255;  // NAME_MAX
constexpr size_t kLongestPath = 2048;
constexpr size_t kLongestRepoPart = 96;

bool IsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool IsRepoPart(std::string_view part) {
  return !part.empty() && part.size() <= kLongestRepoPart && IsWord(part.front()) && IsWord(part.back()) &&
         std::all_of(part.begin(), part.end(), [](char c) { return IsWord(c) || c == '-' || c == '.'; });
}

// What is wrong with one part of a path; empty for nothing.
std::string_view FaultOfPart(std::string_view part) {
  if (part.empty()) return "it has an empty part";
  if (part == "." || part == "..") return "it has a part that is . or ..";
  if (part.size() > kLongestPart) return "a part of it is over 255 bytes";
  return "";
}

std::string_view FaultOfPath(std::string_view path) {
  if (path.empty()) return "it is empty";
  if (path.front() == '/') return "it is absolute";
  if (path.size() > kLongestPath) return "it is over 2048 bytes";
  if (path.find('\\') != std::string_view::npos) return "it has a backslash";
  if (std::any_of(path.begin(), path.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; })) {
    return "it has control bytes";
  }
  if (FindInvalidUtf8(path) != path.npos) return "it is not UTF-8";
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (const std::string_view fault = FaultOfPart(path.substr(start, end - start)); !fault.empty()) return fault;
    start = end + 1;
  }
  return "";
}

// Control bytes of strangers do not reach a terminal.
std::string Printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 32 || byte == 127 ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown;
}

HubError Unsafe(std::string_view repo, std::string_view name, std::string_view fault) {
  HubError error(HubFault::kUnsafe, Code::kInvalidRequest,
                 fmt::format("{}: the name '{}' is refused: {}", repo, Printable(name), fault));
  return error;
}

}  // namespace

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsBlobName(std::string_view text) { return IsHex(text, 40) || IsHex(text, 64); }

bool IsCommit(std::string_view revision) { return IsHex(revision, 40); }

Status CheckRepoId(std::string_view repo) {
  const size_t slash = repo.find('/');
  const bool right = slash != std::string_view::npos && IsRepoPart(repo.substr(0, slash)) &&
                     IsRepoPart(repo.substr(slash + 1)) && repo.find("--") == std::string_view::npos &&
                     repo.find("..") == std::string_view::npos && !repo.ends_with(".git");
  if (right) return {};
  return Fail(Code::kUsage, fmt::format("'{}' is not a repo id, expected org/name of letters, digits, '-', '_' and '.'",
                                        Printable(repo)));
}

Status CheckHubPath(std::string_view path) {
  const std::string_view fault = FaultOfPath(path);
  if (fault.empty()) return {};
  return Fail(Code::kInvalidRequest, fmt::format("the name '{}' is refused: {}", Printable(path), fault));
}

std::string CacheFolderName(std::string_view repo) {
  std::string name = "models--";
  for (const char c : repo) name += c == '/' ? "--" : std::string(1, c);
  return name;
}

std::optional<std::string> RepoOfCacheFolder(std::string_view name) {
  constexpr std::string_view kPrefix = "models--", kBetween = "--";
  const size_t between = name.starts_with(kPrefix) ? name.find(kBetween, kPrefix.size()) : name.npos;
  if (between == name.npos) return std::nullopt;
  std::string repo = fmt::format("{}/{}", name.substr(kPrefix.size(), between - kPrefix.size()),
                                 name.substr(between + kBetween.size()));
  return CheckRepoId(repo) ? std::optional(std::move(repo)) : std::nullopt;
}

HubStatus CheckRevision(std::string_view repo, std::string_view revision) {
  const std::string_view fault = FaultOfPath(revision);
  if (fault.empty()) return {};
  HubError error(HubFault::kUnsafe, Code::kUsage,
                 fmt::format("{}: '{}' is no revision: {}", repo, Printable(revision), fault));
  return tl::make_unexpected(std::move(error));
}

HubStatus CheckTree(std::string_view repo, const std::vector<HubFile>& files) {
  std::set<std::string_view> names;
  for (const HubFile& file : files) {
    if (const std::string_view fault = FaultOfPath(file.path); !fault.empty()) {
      return tl::make_unexpected(Unsafe(repo, file.path, fault));
    }
    if (!IsBlobName(file.digest())) {
      return tl::make_unexpected(Unsafe(repo, file.path, "it comes without a digest to check it by"));
    }
    if (!names.insert(file.path).second) return tl::make_unexpected(Unsafe(repo, file.path, "it comes twice"));
  }
  for (const HubFile& file : files) {
    const std::string_view path = file.path;
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (names.contains(path.substr(0, slash))) {
        return tl::make_unexpected(Unsafe(repo, path, "a part of it is also a file"));
      }
    }
  }
  return {};
}

}  // namespace sightline
