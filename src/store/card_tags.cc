#include "store/card_tags.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace sightline {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string_view Unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0;;) {
    const size_t end = text.find('\n', begin);
    lines.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return lines;
    begin = end + 1;
  }
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\n") + lines[i];
  return text;
}

// The value of a "- value" line; nothing for other lines.
std::optional<std::string_view> Item(std::string_view line) {
  line = Trim(line);
  if (!line.starts_with("- ")) return std::nullopt;
  return Unquoted(Trim(line.substr(2)));
}

// Turns "tags: [a, b]" into lines of its own, so that there is one form to edit. `at` is the line.
void SpreadFlowList(std::vector<std::string>& lines, size_t at) {
  const std::string line = lines[at];
  const size_t open = line.find('['), close = line.rfind(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  lines[at] = "tags:";
  std::vector<std::string> items;
  const std::string_view inner = std::string_view(line).substr(open + 1, close - open - 1);
  for (size_t begin = 0; begin <= inner.size();) {
    const size_t comma = std::min(inner.find(',', begin), inner.size());
    const std::string_view item = Trim(inner.substr(begin, comma - begin));
    if (!item.empty()) items.push_back(fmt::format("- {}", item));
    begin = comma + 1;
  }
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at) + 1, items.begin(), items.end());
}

struct FrontMatter {
  size_t end = 0;              // the line that closes it; 0: there is none
  std::optional<size_t> tags;  // the line "tags:"
};

FrontMatter Find(const std::vector<std::string>& lines) {
  FrontMatter found;
  if (Trim(lines.front()) != "---") return found;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (Trim(lines[i]) == "---") {
      found.end = i;
      return found;
    }
    if (lines[i].starts_with("tags:")) found.tags = i;
  }
  return {};
}

}  // namespace

std::string WithCardTag(std::string_view readme, std::string_view tag) {
  std::vector<std::string> lines = Lines(readme);
  FrontMatter front = Find(lines);
  if (front.end == 0) return fmt::format("---\ntags:\n- {}\n---\n{}", tag, readme);
  if (!front.tags) {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(front.end), {"tags:", fmt::format("- {}", tag)});
    return Joined(lines);
  }
  SpreadFlowList(lines, *front.tags);
  size_t at = *front.tags + 1;
  for (; at < lines.size() && Item(lines[at]); ++at) {
    if (*Item(lines[at]) == tag) return std::string(readme);
  }
  // As the others are indented.
  const std::string& last = lines[at - 1];
  const std::string indent = at - 1 == *front.tags ? "" : last.substr(0, last.find('-'));
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), fmt::format("{}- {}", indent, tag));
  return Joined(lines);
}

std::string WithoutCardTag(std::string_view readme, std::string_view tag) {
  std::vector<std::string> lines = Lines(readme);
  const FrontMatter front = Find(lines);
  if (front.end == 0 || !front.tags) return std::string(readme);
  SpreadFlowList(lines, *front.tags);
  for (size_t at = *front.tags + 1; at < lines.size() && Item(lines[at]); ++at) {
    if (*Item(lines[at]) != tag) continue;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
    return Joined(lines);
  }
  return std::string(readme);
}

}  // namespace sightline
