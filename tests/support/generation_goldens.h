// Answers of the official generate(), step by step (tests/data/locate/*_generate_*.json), and the check of a model's
// own answer against one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/models.h"

namespace sightline {

struct GenerationGolden {
  struct Picture {
    uint64_t seed = 0;
    int width = 0, height = 0;
  };
  struct Step {
    bool window = false;
    std::string type, source;  // source: empty for single tokens
    int64_t position = 0;
    std::vector<TokenId> rows, appended;  // rows: of greedy goldens
    nlohmann::json numbers;               // the step as it stands in the file
  };

  std::string name, size;  // size of the synthetic model: "tiny", "puppet"
  uint64_t seed = 0;       // of its weights
  std::vector<Picture> pictures;
  std::vector<PatchGrid> grids;  // in the order of the pictures in the text
  std::string question;          // raw, as with `reference`
  std::optional<std::string> system;
  int64_t token_limit = 0;  // patches of a picture
  size_t prompt_tokens = 0;
  GenerationOptions options;  // with `reference`
  std::vector<TokenId> ids;
  int64_t forwards = 0, switches = 0;
  double robust = 0;       // distance of the nearest other decision, in log probability
  bool bf16_same = false;  // the official code gives the same ids in bfloat16
  std::vector<Step> steps;
};

inline GenerationOptions GoldenOptions(const nlohmann::json& params) {
  GenerationOptions options;
  options.reference = true;
  options.mode = ParseDecodingMode(params["mode"].get<std::string>()).value();
  options.max_new_tokens = params["max_new"].get<int64_t>();
  options.sampling.temperature = params["t"].get<double>();
  options.sampling.repetition_penalty = params["repetition_penalty"].get<double>();
  options.sampling.top_p = params.value("top_p", 1.0);
  options.sampling.top_k = params.value("top_k", 0);
  return options;
}

inline GenerationGolden::Step GoldenStep(const nlohmann::json& step) {
  return {step["mode"] == "mtp",
          step["type"].get<std::string>(),
          step.value("source", ""),
          step["total_before"].get<int64_t>(),
          step.value("x0", std::vector<TokenId>()),
          step["appended"].get<std::vector<TokenId>>(),
          step};
}

inline GenerationGolden ReadGenerationGolden(const nlohmann::json& golden) {
  GenerationGolden read;
  read.name = golden["name"].get<std::string>(), read.size = golden["size"].get<std::string>();
  read.seed = golden["seed"].get<uint64_t>();
  for (const auto& picture : golden["images"]) {
    read.pictures.push_back({picture[0].get<uint64_t>(), picture[1].get<int>(), picture[2].get<int>()});
  }
  for (const auto& grid : golden["grid_hw"]) read.grids.push_back({grid[0].get<int>(), grid[1].get<int>()});
  read.question = golden["text"].get<std::string>();
  if (!golden["system"].is_null()) read.system = golden["system"].get<std::string>();
  read.token_limit = golden["in_token_limit"].get<int64_t>();
  read.prompt_tokens = golden["prompt_ids"].get<size_t>();
  read.options = GoldenOptions(golden["params"]);
  read.ids = golden["ids"].get<std::vector<TokenId>>();
  read.forwards = golden["forwards"].get<int64_t>(), read.switches = golden["switches_to_ar"].get<int64_t>();
  read.robust = golden["min_robust"].get<double>();
  read.bf16_same = golden.value("bf16_same", false);
  for (const auto& step : golden["steps"]) read.steps.push_back(GoldenStep(step));
  return read;
}

// Throws on a file that is missing or not as expected.
inline std::vector<GenerationGolden> ReadGenerationGoldens(const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto document = nlohmann::json::parse(file);
  std::vector<GenerationGolden> goldens;
  for (const auto& golden : document["cases"]) goldens.push_back(ReadGenerationGolden(golden));
  return goldens;
}

inline void ExpectStep(const GenerationStep& step, const GenerationGolden::Step& expected) {
  SCOPED_TRACE("step at " + std::to_string(expected.position));
  EXPECT_EQ(step.source.has_value(), expected.window);
  EXPECT_EQ(NameOf(step.type), expected.type);
  EXPECT_EQ(step.source ? NameOf(*step.source) : "", expected.source);
  EXPECT_EQ(step.position, expected.position);
  EXPECT_THAT(step.rows, testing::ElementsAreArray(expected.rows));
  EXPECT_THAT(step.appended, testing::ElementsAreArray(expected.appended));
}

// Generates with the golden's options (`prompt` as the tokenizer and `model` with its pictures were prepared for it)
// and compares ids, passes, and each step's rule and tokens.
inline void ExpectGeneration(const GenerationGolden& golden, TokenModel& model, std::span<const TokenId> prompt) {
  SCOPED_TRACE(golden.size + ", " + golden.name + ": " + golden.question);
  ASSERT_EQ(prompt.size(), golden.prompt_tokens);
  size_t steps = 0;
  const auto compare = [&](const GenerationStep& step) {
    if (steps < golden.steps.size()) ExpectStep(step, golden.steps[steps]);
    ++steps;
  };
  const auto answer = Generate(model, prompt, golden.options, {}, compare);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->ids, golden.ids);
  EXPECT_EQ(answer->forwards, golden.forwards);
  EXPECT_EQ(answer->switches_to_single, golden.switches);
  EXPECT_EQ(steps, golden.steps.size());
}

}  // namespace sightline
