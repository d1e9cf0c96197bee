#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/base.h"

namespace sightline {
namespace {

struct Row {
  Code code;
  CodeDescription description;
};

// In the order of the enum, so that a code is an index; the static_assert below holds us to it.
constexpr Row kRows[] = {
    // code                      name                     own  seed exit
    {Code::kUsage, {"usage", 400, 400, 2}},
    {Code::kInvalidRequest, {"invalid_request", 400, 400, 2}},
    {Code::kInvalidUtf8, {"invalid_utf8", 400, 400, 2}},
    {Code::kMissingField, {"missing_field", 400, 422, 2}},
    {Code::kInvalidBase64, {"invalid_base64", 400, 400, 4}},
    {Code::kImageEmpty, {"image_empty", 400, 400, 4}},
    {Code::kImageTruncated, {"image_truncated", 400, 400, 4}},
    {Code::kImageUndecodable, {"image_undecodable", 400, 400, 4}},
    {Code::kImageUrlNotAllowed, {"image_url_not_allowed", 400, 400, 4}},
    {Code::kInvalidBox, {"invalid_box", 422, 400, 4}},
    {Code::kBoxOutside, {"box_outside", 422, 400, 4}},
    {Code::kUnitsMismatch, {"units_mismatch", 422, 400, 4}},
    {Code::kTooManyBoxes, {"too_many_boxes", 422, 400, 4}},
    {Code::kAspectTooExtreme, {"aspect_too_extreme", 422, 400, 4}},
    {Code::kPromptTooLong, {"prompt_too_long", 422, 400, 4}},
    {Code::kUnsupportedMedia, {"unsupported_media_type", 415, 400, 4}},
    {Code::kImageTooLarge, {"image_too_large", 413, 413, 4}},
    {Code::kBodyTooLarge, {"body_too_large", 413, 413, 4}},
    {Code::kHeaderTooLarge, {"header_too_large", 431, 431, 4}},
    {Code::kNotFound, {"not_found", 404, 404, 3}},
    {Code::kMethodNotAllowed, {"method_not_allowed", 405, 405, 1}},
    {Code::kRequestTimeout, {"request_timeout", 408, 408, 8}},
    {Code::kBusy, {"busy", 503, 503, 5}},
    {Code::kStarting, {"starting", 503, 503, 5}},
    {Code::kDraining, {"draining", 503, 503, 5}},
    {Code::kDeadline, {"deadline", 504, 504, 8}},
    {Code::kCancelled, {"cancelled", 499, 499, 130}},
    {Code::kUnreachable, {"unreachable", 502, 502, 5}},
    {Code::kCorruptWeights, {"corrupt_weights", 500, 500, 6}},
    {Code::kNoSpace, {"no_space", 507, 500, 7}},
    {Code::kNoPermission, {"no_permission", 500, 500, 7}},
    {Code::kOutOfMemory, {"out_of_memory", 503, 503, 9}},
    {Code::kDeviceLost, {"device_lost", 503, 503, 10}},
    {Code::kUnsupported, {"unsupported", 501, 501, 1}},
    {Code::kNumeric, {"numeric", 500, 500, 6}},
    {Code::kInternal, {"internal", 500, 500, 1}},
};

constexpr bool RowsFollowTheEnum() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].code) != i) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Code::kInternal) + 1;
}
static_assert(RowsFollowTheEnum());

Code CodeOfErrno(int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kNoPermission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::kNoSpace;
    case ENOMEM:
      return Code::kOutOfMemory;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return Code::kInvalidRequest;
    default:
      return Code::kInternal;
  }
}

std::string TextOfErrno(int errno_value) {
  const char* known = strerrordesc_np(errno_value);  // never translated, unlike strerror
  if (known == nullptr) return "error " + std::to_string(errno_value);
  std::string text = known;
  if (text[0] >= 'A' && text[0] <= 'Z' && !(text[1] >= 'A' && text[1] <= 'Z')) text[0] += 'a' - 'A';
  return text;
}

}  // namespace

const CodeDescription& Describe(Code code) { return kRows[static_cast<size_t>(code)].description; }

Error ErrnoError(std::string_view action, const std::filesystem::path& path, int errno_value) {
  std::string message = "cannot ";
  message.append(action).append(" ").append(path.string()).append(": ").append(TextOfErrno(errno_value));
  return Error{CodeOfErrno(errno_value), std::move(message), {}};
}

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

std::string_view Version() { return SIGHTLINE_VERSION; }

}  // namespace sightline
