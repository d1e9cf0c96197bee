// Declares the options of one verb. CLI11 reads them; this header hides it.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"

namespace CLI {
class App;
}

namespace sightline {

// Each method adds one option whose value lands in `target` when the command line is parsed; `target` must live until
// then. An option given twice has its last value. The type shown in help ("FILE", "upstream|port") is also what
// completion goes by.
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
  // The target is an integer or a std::optional of one.
  template <typename T>
  void Whole(const std::string& name, T& target, int64_t least, int64_t most, const std::string& help) {
    AddWhole(name, least, most, help, [&target](int64_t value) { SetWhole(target, value); });
  }
  // One of the values that NameOf names; the target may be a std::optional.
  template <typename T, typename Target>
  void Choice(const std::string& name, Target& target, const std::vector<T>& values, const std::string& help) {
    std::vector<std::string> names;
    for (const T value : values) names.emplace_back(NameOf(value));
    Choice(name, names, help, [&target, values](size_t index) { target = values[index]; });
  }
  void Choice(const std::string& name, const std::vector<std::string>& choices, const std::string& help,
              std::function<void(size_t index)> take);
  // May be given any number of times.
  void Repeated(const std::string& name, std::vector<std::string>& target, const std::string& type,
                const std::string& help);
  // After parsing: the name of an option under `heading` that was given, or an empty text.
  std::string GivenUnder(const std::string& heading) const;
  // One argument without a name; several where `target` is a vector.
  void Argument(const std::string& name, std::string& target, const std::string& type, const std::string& help);
  void Argument(const std::string& name, std::vector<std::string>& target, const std::string& type,
                const std::string& help);

 private:
  template <std::integral T>
  static void SetWhole(T& target, int64_t value) {
    target = static_cast<T>(value);
  }
  template <std::integral T>
  static void SetWhole(std::optional<T>& target, int64_t value) {
    target = static_cast<T>(value);
  }
  void Add(const std::string& name, const std::string& type, const std::string& help,
           std::function<Status(const std::string& text)> take);
  void AddWhole(const std::string& name, int64_t least, int64_t most, const std::string& help,
                std::function<void(int64_t)> take);
  void AddPath(const std::string& name, const std::string& type, std::filesystem::path& target,
               const std::string& help);

  CLI::App& app_;
  std::string heading_ = "Options";
};

}  // namespace sightline
