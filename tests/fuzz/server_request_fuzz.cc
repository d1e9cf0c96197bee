// Bodies of POST /predict and image fields: whatever comes is refused with a sentence or well formed for another parser
// too.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "server/gaze_fields.h"
#include "server/server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string text(reinterpret_cast<const char*>(data), size);

  std::string body = text;
  const auto request = ParseGazeFields(body, {});
  SIGHTLINE_CHECK(body == text);
  if (request) {
    SIGHTLINE_CHECK(nlohmann::json::accept(text));
    SIGHTLINE_CHECK(!request->file.empty() && request->boxes.size() <= 10);
  } else {
    SIGHTLINE_CHECK(!request.error().message.empty());
  }

  const auto bytes = DecodeImageText(text);
  if (bytes) {
    const auto again = DecodeImageText(EncodeBase64(*bytes));
    SIGHTLINE_CHECK(again && *again == *bytes);
  }
  return 0;
}
