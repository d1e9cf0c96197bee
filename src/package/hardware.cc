#include "package/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "package/python_text.h"

namespace sightline {
namespace {

struct Board {
  std::string_view name;
  int64_t chips;
};
constexpr Board kBoards[] = {{"e150", 1}, {"n150", 1}, {"n300", 2}, {"p100", 1}, {"p150", 1}, {"p300", 2}};

struct Preset {
  std::string_view name;
  MeshShape shape;
};
constexpr Preset kPresets[] = {
    {"BH-Galaxy", {4, 8}}, {"N150", {1, 1}},   {"N150x4", {1, 4}}, {"N300", {1, 2}},   {"P100", {1, 1}},
    {"P150", {1, 1}},      {"P150x2", {1, 2}}, {"P150x4", {1, 4}}, {"P150x8", {1, 8}}, {"P300", {1, 2}},
    {"P300x2", {1, 4}},    {"QB2", {2, 2}},    {"T3K", {1, 8}},    {"TG", {4, 8}},
};

// No machine has more; keeps products of two sides far from overflow.
constexpr int64_t kMostChips = 1'000'000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// A count written in full; nullopt for anything else.
std::optional<int64_t> Count(std::string_view digits) {
  int64_t value = 0;
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), IsDigit)) return std::nullopt;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc() || value > kMostChips) return std::nullopt;
  return value;
}

// "(1, 4)", "[1, 4]" or "1, 4".
std::optional<MeshShape> ReadPair(std::string_view text) {
  text = Trim(text);
  if (text.size() >= 2 &&
      ((text.front() == '(' && text.back() == ')') || (text.front() == '[' && text.back() == ']'))) {
    text = Trim(text.substr(1, text.size() - 2));
  }
  if (text.ends_with(',')) text.remove_suffix(1);
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto rows = Count(Trim(text.substr(0, comma)));
  const auto columns = Count(Trim(text.substr(comma + 1)));
  if (!rows || !columns || *rows < 1 || *columns < 1) return std::nullopt;
  return MeshShape{*rows, *columns};
}

}  // namespace

std::string LowerHardware(std::string_view hardware) {
  std::string label(Trim(hardware));
  std::transform(label.begin(), label.end(), label.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return label;
}

std::optional<int64_t> ChipsOfHardware(std::string_view hardware) {
  const std::string label = LowerHardware(hardware);
  std::string_view rest = label;
  const auto board = std::find_if(std::begin(kBoards), std::end(kBoards),
                                  [&](const Board& known) { return rest.starts_with(known.name); });
  if (board == std::end(kBoards)) return std::nullopt;
  rest.remove_prefix(board->name.size());
  const bool revision = !rest.empty() && rest[0] >= 'a' && rest[0] <= 'z' && !(rest[0] == 'x' && rest.size() > 1);
  if (revision) rest.remove_prefix(1);
  if (rest.empty()) return board->chips;
  if (rest[0] != 'x') return std::nullopt;
  const auto boards = Count(rest.substr(1));
  if (!boards || *boards < 1) return std::nullopt;
  return board->chips * *boards;
}

bool IsMeshPreset(std::string_view name) {
  return std::any_of(std::begin(kPresets), std::end(kPresets),
                     [&](const Preset& preset) { return preset.name == name; });
}

std::vector<std::string> BoardNames() {
  std::vector<std::string> names;
  for (const Board& board : kBoards) names.emplace_back(board.name);
  return names;
}

Result<MeshShape> ParseMeshDevice(std::string_view mesh_device) {
  if (const auto pair = ReadPair(mesh_device)) return *pair;
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == mesh_device) return preset.shape;
    names.emplace_back(preset.name);
  }
  return Fail(Code::kInvalidRequest, fmt::format("invalid mesh_device {}, expected \"(rows, columns)\" or one of {}",
                                                 PythonQuote(mesh_device), PythonList(names)));
}

}  // namespace sightline
