// Bodies of the LocateAnything server's POST /predict: whatever comes is refused with a sentence or well formed for
// another parser too.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "server/locate_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string body = text;
  const auto fields = ParseLocateFields(body, {});
  SIGHTLINE_CHECK(body == text);
  if (!fields) {
    SIGHTLINE_CHECK(!fields.error().message.empty());
    return 0;
  }
  SIGHTLINE_CHECK(nlohmann::json::accept(text));
  SIGHTLINE_CHECK(!fields->files.empty() && fields->files.size() <= kMaxPictures);
  SIGHTLINE_CHECK(!fields->query.empty() || fields->question.task == LocateTask::kReadText);
  SIGHTLINE_CHECK(fields->generation.max_new_tokens >= 1 && fields->generation.max_new_tokens <= 1024);
  SIGHTLINE_CHECK(CheckGenerationOptions(fields->generation).has_value());
  const auto& grid = fields->scaling.grid;
  SIGHTLINE_CHECK(!grid || (grid->height % 2 == 0 && grid->width % 2 == 0 && grid->height < kMaxGridSide));
  return 0;
}
