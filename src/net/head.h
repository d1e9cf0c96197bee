// The strictness that Beast's parser leaves to us. Two programs that disagree about where a request ends can be played
// against each other (request smuggling), so whatever is ambiguous is refused. RFC 9112, sections 2.2, 3.2, 5 and 6.
#pragma once

#include <string>
#include <string_view>

#include "base/base.h"
#include "net/net.h"

namespace sightline {

// The length of the request head that `text` begins with, its empty line included; 0 while that line is not there.
// `from`: where an earlier search ended. Lone line feeds count as line ends here, for CheckHeadBytes to refuse them.
size_t FindHeadEnd(std::string_view text, size_t from);

// Refuses lone CR or LF, control bytes, folded lines and names that are not tokens (a space before the colon).
Status CheckHeadBytes(std::string_view head);

// Refuses missing, double or malformed Host and every doubtful body length.
Status CheckHeadFields(const HttpRequest& request, bool is_http_1_0);

// The path of a request target in origin-form or absolute-form, percent-decoded, without its query. "*" stays.
Result<std::string> DecodePath(std::string_view target);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace sightline
