// Which program the user called: `sightline`, or `tt-model` (a link to the same file), which has tt-model's verbs,
// flags, output and exit codes.
#pragma once

#include <string_view>

namespace sightline {

enum class Persona { kSightline, kTtModel };

// What RunCommandLine found in argv[0]; kSightline until then.
Persona CurrentPersona();
void SetPersona(Persona persona);

// "sightline" or "tt-model": for examples and messages.
std::string_view ProgramName();

// From the last part of argv[0]; `deprecated_name` becomes true for tt-kernel, the name of old.
Persona PersonaOf(std::string_view program, bool* deprecated_name);

// The options of tt-model that stand before its verb.
struct GlobalOptions {
  bool verbose = false;   // -v, --verbose: every step as plain lines
  bool no_color = false;  // --no-color, NO_COLOR
};
GlobalOptions& Globals();

}  // namespace sightline
