// `serve` has two forms: a server of a model in this process, and a package that is started.
#pragma once

#include <string>
#include <vector>

namespace sightline {

// Whether these arguments, all that follow `serve`, mean a package: ORG/NAME, a file, oci://...; or a model's short
// name together with an option that only packages have and none that names weights.
bool MeansPackage(const std::vector<std::string>& arguments);

}  // namespace sightline
