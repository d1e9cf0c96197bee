#include "cli/tokenizer_files.h"

#include "text/text.h"

namespace sightline {

Result<TokenizerFiles> ReadTokenizerFiles(const std::filesystem::path& folder) {
  constexpr size_t kMaxFile = 64 << 20;
  if (!folder.empty()) {
    if (auto checked = Tokenizer::Open(folder); !checked) return tl::make_unexpected(std::move(checked).error());
  }
  TokenizerFiles files;
  for (const auto& [name, contents] : ShippedTokenizer()) {
    files.emplace_back(name, contents);
    if (folder.empty()) continue;
    const Result<std::vector<std::byte>> file = ReadFile(folder / name, kMaxFile);
    if (file) {
      files.back().second.assign(reinterpret_cast<const char*>(file->data()), file->size());
    } else if (file.error().code != Code::kNotFound) {
      return tl::make_unexpected(file.error());
    }
  }
  return files;
}

}  // namespace sightline
