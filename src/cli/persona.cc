#include "cli/persona.h"

namespace sightline {
namespace {

// Set once, before other threads start.
Persona current = Persona::kSightline;

}  // namespace

Persona CurrentPersona() { return current; }
void SetPersona(Persona persona) { current = persona; }

std::string_view ProgramName() { return current == Persona::kTtModel ? "tt-model" : "sightline"; }

Persona PersonaOf(std::string_view program, bool* deprecated_name) {
  if (const size_t slash = program.rfind('/'); slash != std::string_view::npos) program.remove_prefix(slash + 1);
  *deprecated_name = program == "tt-kernel";
  return program == "tt-model" || *deprecated_name ? Persona::kTtModel : Persona::kSightline;
}

GlobalOptions& Globals() {
  static GlobalOptions options;
  return options;
}

}  // namespace sightline
