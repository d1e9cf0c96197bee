// How Python writes values as text: packages were defined by a Python program, and its texts reach command lines.
#pragma once

#include <string>
#include <string_view>

#include "package/package.h"

namespace sightline {

// repr(): "1.0", "1e-07", "1e+22", "inf"
std::string PythonFloat(double value);
// str() of a scalar: "None", "True", "8", "1.5", the text itself. A list or map is a bug.
std::string PythonText(const Value& scalar);
// repr() of plain text: 'org/name'. For messages and generated Python.
std::string PythonQuote(std::string_view text);
// ['a', 'b']
std::string PythonList(const std::vector<std::string>& texts);

}  // namespace sightline
