// The body of the LocateAnything server's POST /predict: JSON text to typed fields, every one checked
// (docs/http-api.md, "LocateAnything").
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base.h"
#include "pipeline/pipeline.h"
#include "server/server.h"

namespace sightline {

struct LocateFields {
  std::vector<std::vector<std::byte>> files;  // pictures, not yet looked at
  LocateQuestion question;
  std::string query;  // as asked; several texts joined by "</c>"
  LocateScaling scaling;
  GenerationOptions generation;
  bool return_overlay = false;
  std::vector<Warning> warnings;  // "unknown_field"
};

// What a request may ask for, and what it gets when it does not say.
struct LocateLimits {
  LocateScaling scaling;
  int64_t max_new_tokens = 128;
  int64_t max_new_tokens_cap = 1024;
  int64_t max_token_limit = 25'600;
};

inline constexpr size_t kMaxQueryCharacters = 1000;
inline constexpr size_t kMaxPictures = 8;

// "24x44" as (24, 44): whole numbers from 1 to 99999.
std::optional<std::pair<int, int>> ParseSides(std::string_view text);
// `body` may be enlarged, its text stays. Errors are those of the code table with the offending field as `param`; no
// message repeats more than 64 bytes of the request. What depends on pictures or tokens is the engine's to check.
Result<LocateFields> ParseLocateFields(std::string& body, const LocateLimits& limits);

}  // namespace sightline
