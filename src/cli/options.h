// Declares the options of one verb on CLI11. Included by the files that parse; nothing else sees CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sightline {

// Each method adds one option whose value lands in `target` when the command line is parsed. An option given twice has
// its last value. The type name shown in help ("FILE", "upstream|port") is also what completion goes by.
class OptionSet {
 public:
  explicit OptionSet(CLI::App& app) : app_(app) {}

  // Following options appear under this heading in help.
  void Group(std::string heading) { heading_ = std::move(heading); }

  void Flag(const std::string& name, bool& target, const std::string& help);
  void Text(const std::string& name, std::string& target, const std::string& type, const std::string& help);
  void File(const std::string& name, std::filesystem::path& target, const std::string& help);
  void Folder(const std::string& name, std::filesystem::path& target, const std::string& help);
  void Real(const std::string& name, double& target, double least, double most, const std::string& help);
  template <std::integral T>
  void Whole(const std::string& name, T& target, int64_t least, int64_t most, const std::string& help) {
    AddWhole(name, least, most, help, [&target](int64_t value) { target = static_cast<T>(value); });
  }
  // One of the values that NameOf names.
  template <typename T, typename Target>
  void Choice(const std::string& name, Target& target, std::vector<T> values, const std::string& help) {
    std::vector<std::string> names;
    for (const T value : values) names.emplace_back(NameOf(value));
    AddChoice(name, names, help, [&target, values](size_t index) { target = values[index]; });
  }
  void AddChoice(const std::string& name, const std::vector<std::string>& choices, const std::string& help,
                 std::function<void(size_t index)> take);
  // May be given any number of times.
  void Repeated(const std::string& name, std::vector<std::string>& target, const std::string& type,
                const std::string& help);
  // One argument without a name; several where `target` is a vector.
  void Argument(const std::string& name, std::string& target, const std::string& type, const std::string& help);
  void Arguments(const std::string& name, std::vector<std::string>& target, const std::string& type,
                 const std::string& help);

 private:
  using Take = std::function<Status(const std::string& text)>;
  void Add(const std::string& name, const std::string& type, const std::string& help, Take take);
  void AddWhole(const std::string& name, int64_t least, int64_t most, const std::string& help,
                std::function<void(int64_t)> take);
  void AddPath(const std::string& name, const std::string& type, std::filesystem::path& target,
               const std::string& help);

  CLI::App& app_;
  std::string heading_ = "Options";
};

}  // namespace sightline
