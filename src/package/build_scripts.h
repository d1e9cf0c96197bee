// The parts of the files that build an image.
#pragma once

#include <string>
#include <string_view>

#include "package/package.h"

namespace sightline {

// Installs the server's software into $VENV, inside the build.
std::string InstallEngineScript(const Manifest& manifest, const BuildFacts& facts);
// Checks the finished image: imports, the pinned torch, and what the author asserts.
std::string VerifyScript(const Manifest& manifest, const BuildFacts& facts);
// What the image does without arguments: serves the default profile.
Result<std::string> ServeDefaultScript(const Manifest& manifest);
std::string_view DockerfileText();
std::string_view EntrypointText();

// Where models lie inside the image that the vLLM plugin looks for; empty: none.
std::string ExtraModelsFolder(const Manifest& manifest);

}  // namespace sightline
