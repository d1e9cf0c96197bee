// The questions of the generation goldens, ready to be put to the synthetic networks.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/pipeline.h"
#include "src/pipeline/locate_picture.h"
#include "tests/support/generation_goldens.h"
#include "tests/support/locate_models.h"

namespace sightline {

inline constexpr LocatePrecision kFloat32{Precision::kF32, Precision::kF32};

inline const Tokenizer& ShippedTokens() {
  static const Tokenizer tokenizer = [] {
    const auto files = ShippedTokenizer();
    return Tokenizer::Parse(files[0].contents, files[1].contents, files[2].contents, "shipped").value();
  }();
  return tokenizer;
}

// The goldens of one file of tests/data/locate.
inline std::vector<GenerationGolden> LocateGoldens(const std::string& file) {
  return ReadGenerationGoldens(std::filesystem::path(SIGHTLINE_TEST_DATA) / "locate" / file);
}

// The network that a golden was made with, loaded once per precision.
inline LocateAnything& Network(const GenerationGolden& golden, LocatePrecision precision = kFloat32) {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend({.isa = *DetectIsa()});
  using Key = std::tuple<std::string, uint64_t, Precision, Precision>;
  static std::map<Key, std::unique_ptr<LocateAnything>> networks;
  auto& network = networks[Key{golden.size, golden.seed, precision.vision, precision.language}];
  if (network == nullptr) network = LoadSynthetic(*backend, golden.size, golden.seed, precision);
  return *network;
}

// The question of a golden, ready to be answered.
struct Asked {
  LocatePrompt prompt;
  std::shared_ptr<const std::vector<float>> pictures;  // image rows in the order of the prompt

  std::unique_ptr<LocateAnything::Session> NewSession(LocateAnything& network) const {
    auto session = network.NewSession(std::ssize(prompt.ids) + 128);
    session->SetImages(pictures);
    return session;
  }
};

inline Asked Ask(const GenerationGolden& golden, LocateAnything& network) {
  std::vector<std::vector<float>> rows;
  std::vector<int64_t> picture_tokens;
  for (const auto& [seed, width, height] : golden.pictures) {
    const Image image{width, height, SyntheticRgb(seed, width, height)};
    const auto picture = PrepareLocatePicture(image, {golden.token_limit, std::nullopt}, "image").value();
    picture_tokens.push_back(picture.grid.tokens());
    rows.push_back(network.Encode(picture.patches, picture.grid).value());
  }
  LocateQuestion question{LocateTask::kRaw, {golden.question}, golden.system, true};
  Asked asked{MakeLocatePrompt(ShippedTokens(), LocateTokens(), question, picture_tokens).value(), nullptr};
  auto pictures = std::make_shared<std::vector<float>>();
  for (const size_t picture : asked.prompt.pictures) {
    pictures->insert(pictures->end(), rows[picture].begin(), rows[picture].end());
  }
  asked.pictures = pictures;
  return asked;
}

}  // namespace sightline
