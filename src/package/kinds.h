// The kinds of server that an image may hold, and what each asks of a manifest. One row per kind; the commands that
// start them are in launch_command.cc, the scripts that build them in build_scripts.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "package/fields.h"
#include "package/package.h"

namespace sightline {

enum class Kind { kVllmPlugin, kVllmFork, kTtDitServer, kHttpServer };

struct KindDescription {
  Kind kind;
  std::string_view name;
  bool needs_engine_settings;  // max_num_seqs and block_size
  std::vector<std::string> runtime_keys;
  std::string_view pipeline_tag;  // where the author gives none; may be empty
  std::string_view server;        // what a card calls it
};
// nullptr: no such kind.
const KindDescription* FindKind(std::string_view name);

// Of profiles of `kind`; of an unknown one those of vLLM.
std::vector<std::string> RequiredServeFields(std::string_view kind);

// What is wrong with manifest.runtime for its kind, which must be known.
void CheckRuntime(const Manifest& manifest, ProblemList& problems);

// Every path that the image will hold.
std::vector<std::string> ShippedPaths(const ManifestSource& source);
// Whether a path that should stay below its root does not: absolute, empty, or with a ".." in it.
bool EscapesRoot(std::string_view path);
// The port that a server binds by its merged profile: 8000 where that sets none.
int64_t ServerPort(const ServeProfile& profile);
// The variable that carries the shape of the mesh to a tt-dit-server.
std::string MeshShapeVariable(const Value& runtime);

}  // namespace sightline
