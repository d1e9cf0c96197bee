// cli: the verbs of the program `sightline`. The only module that turns a command line into calls of the others, and
// the only one that writes to standard output.
#pragma once

namespace sightline {

// Runs one command line and returns the exit code. Results go to standard output, one sentence per error, warnings and
// progress to standard error. Codes: `sightline help exit-codes`, which prints the table of base's Describe. Call once,
// from main, before other threads start.
int RunCommandLine(int argc, char** argv);

}  // namespace sightline
