// The file that LogToFile chose.
#pragma once

namespace sightline {

// Begins a new file when the present one is over its limit. Any thread; does nothing without a file.
void RotateLogFileIfLarge();

}  // namespace sightline
