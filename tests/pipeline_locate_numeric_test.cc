// Numbers that are none: never from a sound network, whatever the picture's size, and never silently from a damaged
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/pipeline/locate_picture.h"
#include "tests/support/locate_questions.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// llama.cpp #17534: the vision tower gave NaN for some sizes, about 1024x484.
void SweepWidths(int step) {
  const auto backend = MakeCpuBackend({.isa = *DetectIsa()});
  const auto network = LoadSynthetic(*backend, "tiny", 1, {});
  for (int width = 28; width <= 1100; width += step) {
    const Image image{width, 484, SyntheticRgb(1, width, 484)};
    const auto picture = PrepareLocatePicture(image, {25'600, std::nullopt}, "image").value();
    const auto rows = network->Encode(picture.patches, picture.grid);
    ASSERT_TRUE(rows) << width << ": " << rows.error().message;
    ASSERT_TRUE(std::ranges::all_of(*rows, [](float value) { return std::isfinite(value); })) << width;
  }
}

TEST(LocateNumbers, AreFiniteForEveryWidth) { SweepWidths(67); }
TEST(LocateNumbers, Long_AreFiniteForEveryWidth) { SweepWidths(1); }

// mlx-vlm #1163: bright pictures of high contrast overflowed.
TEST(LocateNumbers, AreFiniteForTheBrightestPictures) {
  const auto backend = MakeCpuBackend({.isa = *DetectIsa()});
  const auto network = LoadSynthetic(*backend, "tiny", 1, {});
  for (const int period : {1, 2, 14, 1000}) {
    Image image{280, 140, std::vector<uint8_t>(280 * 140 * 3)};
    for (size_t i = 0; i < image.rgb.size(); ++i) {
      image.rgb[i] = (i / 3 / static_cast<size_t>(period)) % 2 == 0 ? 255 : 0;
    }
    const auto picture = PrepareLocatePicture(image, {}, "image").value();
    const auto rows = network->Encode(picture.patches, picture.grid);
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_TRUE(std::ranges::all_of(*rows, [](float value) { return std::isfinite(value); })) << period;
  }
}

// A synthetic folder in which the first value of one tensor is not a number.
class DamagedFolder {
 public:
  explicit DamagedFolder(const std::string& tensor) {
    for (const auto& entry : fs::directory_iterator(SyntheticFolder("tiny", 1))) {
      fs::copy(entry.path(), folder_.path() / entry.path().filename());
    }
    for (const auto& [name, contents] : ShippedTokenizer()) std::ofstream(folder_.path() / name) << contents;
    std::fstream file(folder_.path() / "model-00001-of-00001.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    std::string header(header_bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header_bytes));
    const auto offset = json::parse(header).at(tensor).at("data_offsets").at(0).get<uint64_t>();
    file.seekp(static_cast<std::streamoff>(sizeof header_bytes + header_bytes + offset));
    file.write("\xc0\x7f", 2);
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

std::string AnswerOfDamaged(const std::string& tensor, Code* code) {
  const DamagedFolder folder(tensor);
  const TemporaryFolder cache;
  LocateWeights weights;
  weights.folder = folder.path();
  LocateEngineOptions options;
  options.cache_folder = cache.path();
  const auto engine = LocateEngine::Open(weights, options);
  if (!engine) return engine.error().message;
  LocateRequest request;
  auto picture = std::make_shared<DecodedImage>();
  picture->image = Image{56, 56, SyntheticRgb(1, 56, 56)};
  request.pictures = {{picture, ""}};
  request.question.query = {"car"};
  request.generation.max_new_tokens = 8;
  const auto answer = (*engine)->Run(std::move(request));
  if (answer) return "answered";
  *code = answer.error().code;
  return answer.error().message;
}

TEST(LocateNumbers, ADamagedNetworkGivesAnErrorAndNoText) {
  for (const auto& [tensor, part] : {std::pair{"mlp1.3.bias", "vision tower"},
                                     std::pair{"vision_model.encoder.blocks.0.norm0.weight", "vision tower"},
                                     std::pair{"language_model.model.norm.weight", "decoder"},
                                     std::pair{"language_model.model.layers.0.self_attn.q_proj.bias", "decoder"}}) {
    Code code = Code::kInternal;
    EXPECT_THAT(AnswerOfDamaged(tensor, &code), HasSubstr(part)) << tensor;
    EXPECT_EQ(code, Code::kNumeric) << tensor;
  }
}

}  // namespace
}  // namespace sightline
