// The tables of boot stages: which log lines begin and end each.
#pragma once

#include <functional>
#include <span>

#include "containers/containers.h"

namespace sightline {

// A sign is text that a line must contain; "a*b" means a and, later, b; '#' stands for digits.
bool HasSign(std::string_view line, std::string_view sign);

struct StageRule {
  std::string_view active_label, done_label;
  std::vector<std::string_view> starts;
  std::string_view done;  // empty: only the next stage ends it
  // What a line says of the stage: empty when nothing.
  std::string (*detail)(std::string_view line);
};

// Of the kinds that run vLLM, or of the others.
std::span<const StageRule> StageRules(bool vllm);

// Lines that say why something went wrong.
bool NamesACause(std::string_view line);

// "47%|####   | 8/17": 8 and 17.
bool ReadCounts(std::string_view line, uint64_t* done, uint64_t* total);

// Without escape codes and without the prefixes that loggers put before what they say: times, levels, sources.
std::string CleanLine(std::string_view line);

}  // namespace sightline
