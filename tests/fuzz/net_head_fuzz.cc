// The checks of a request head that run on bytes from anybody.
#include <cstdint>

#include "net/head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const size_t end = FindHeadEnd(text, 0);
  SIGHTLINE_CHECK(end <= size);
  for (size_t part = 0; part < size; part += 1 + size / 8) {
    // Found in pieces or at once, it is the same end.
    const size_t early = FindHeadEnd(text.substr(0, part), 0);
    SIGHTLINE_CHECK((early == 0 ? FindHeadEnd(text, part) : early) == end);
  }
  const std::string_view head = text.substr(0, end);
  if (const Status checked = CheckHeadBytes(head)) {
    SIGHTLINE_CHECK(head.find('\0') == std::string_view::npos);
  } else {
    SIGHTLINE_CHECK(!checked.error().message.empty());
  }
  if (const auto path = DecodePath(text)) {
    SIGHTLINE_CHECK(*path == "*" || path->front() == '/');
    SIGHTLINE_CHECK(path->size() <= size + 1);
  }
  return 0;
}
