#include "cli/cli.h"

int main(int argc, char** argv) { return sightline::RunCommandLine(argc, argv); }
