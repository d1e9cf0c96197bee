// A small container package, a docker that keeps its images as files, and a user's store in a folder.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "store/store.h"
#include "tests/support/fake_program.h"
#ifndef SIGHTLINE_LOCAL_HUB
#define SIGHTLINE_LOCAL_HUB SIGHTLINE_TEST_DATA "/../hub/local_hub.py"
#endif
#include "tests/support/local_hub.h"
#include "tests/support/manifest_text.h"

namespace sightline::testing {

namespace fs = std::filesystem;

inline void WriteFile(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

inline std::string ReadWhole(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Relative name to content; links are followed.
inline std::map<std::string, std::string> FilesBelow(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files[entry.path().lexically_relative(folder).string()] = ReadWhole(entry.path());
  }
  return files;
}

// Writes the folder that `package` would have written.
inline void WritePackage(const fs::path& folder, std::string_view manifest_text, const std::string& layer = "a layer") {
  const Manifest manifest = ParsedManifest(manifest_text);
  const TemporaryFolder scratch;
  WriteFile(scratch.path() / "tree" / "file", layer);
  OciImageRecipe recipe;
  recipe.layers = {{scratch.path() / "tree", "/opt"}};
  const auto unnamed = WriteOciImage(recipe, scratch.path() / "unnamed");
  ASSERT_TRUE(unnamed) << unnamed.error().message;
  recipe.reference = FinalTag(manifest.name, unnamed->config.digest);
  const auto image = WriteOciImage(recipe, folder / "image");
  ASSERT_TRUE(image) << image.error().message;
  WireFacts facts;
  facts.image_tag = recipe.reference;
  facts.image_digest = image->config.digest;
  facts.created_at = "2026-09-30T12:00:00Z";
  facts.runtime = manifest.runtime;
  facts.built.Set("repo", Value{manifest.repo});
  const WireManifest wire = ToWire(manifest, std::move(facts));
  WriteFile(folder / kWireManifestName, wire.ToJson());
  WriteFile(folder / "README.md", GenerateCard(wire));
  WriteFile(folder / "code" / "models" / "a.py", "print(1)\n");
}

// Knows images as files i-REFERENCE that hold an id; containers as files c-NAME.
inline constexpr char kImageDocker[] = R"sh(
name() { echo "$1" | tr '/:' '__'; }
case "$1" in
  --version) echo "Docker version 25.0.3, build x";;
  version) echo 25.0.3;;
  info) echo '[]';;
  load) cat > loaded-$$.tar
    tar -xOf loaded-$$.tar manifest.json > loaded-$$.json || exit 1
    reference=$(grep -o '"RepoTags": *\[ *"[^"]*' loaded-$$.json | sed 's/.*"//')
    id=$(grep -o 'blobs/sha256/[0-9a-f]*' loaded-$$.json | head -1 | sed 's/.*\///')
    echo "sha256:$id" > "i-$(name "$reference")"
    echo "Loaded image: $reference";;
  pull) [ -e "pull-$(name "$2")" ] || { echo "manifest unknown" >&2; exit 1; }
    cp "pull-$(name "$2")" "i-$(name "$2")";;
  image) for last; do :; done
    if [ "$2" = rm ]; then rm "i-$(name "$3")"; exit; fi
    [ -e "i-$(name "$last")" ] || { echo "Error: No such image: $last" >&2; exit 1; }
    case "$*" in *Size*) echo 1000;; *) cat "i-$(name "$last")";; esac;;
  container) cat "c-$3" 2>/dev/null || { echo "Error: No such container: $3" >&2; exit 1; };;
  ps) for f in c-*; do [ -e "$f" ] && printf '%s\timage\tExited\t\n' "${f#c-}"; done; exit 0;;
  rm) for last; do :; done; rm -f "c-$last";;
  *) exit 0;;
esac
)sh";

// What a store says.
class KeptReports : public Reporter {
 public:
  void OnStep(const StepReport& step) override {
    if (step.state == StepState::kDone) done.push_back(step.key + ": " + step.label);
  }
  void OnNote(std::string_view line) override { notes += std::string(line) + "\n"; }
  void OnWarning(std::string_view line) override { warnings += std::string(line) + "\n"; }
  std::vector<std::string> done;
  std::string notes, warnings;
};

// A hub, a user with an empty home, and a docker. Device files lie under `root`.
class StoreTest : public ::testing::Test {
 protected:
  StoreTest() { docker_.Answer(kImageDocker); }

  StoreSettings SettingsIn(const fs::path& home) const {
    StoreSettings settings;
    settings.folders.root = home / ".cache" / "tt-model";
    settings.folders.index = settings.folders.root / "installed.json";
    settings.folders.pulled = settings.folders.root / "pulled";
    settings.folders.licenses = settings.folders.root / "licenses.json";
    settings.folders.images = home / ".cache" / "sightline" / "packages";
    settings.hub = hub_.Settings(home / "hub", "hf_write");
    settings.engine.program = engine_;
    settings.host_root = folder_.path() / "root";
    settings.program = "tt-model";
    return settings;
  }
  StoreSettings Settings() const { return SettingsIn(home()); }
  fs::path home() const { return folder_.path() / "home"; }

  void AddDevice() const { WriteFile(folder_.path() / "root" / "dev" / "tenstorrent" / "0", ""); }
  void RemoveEngine() { engine_ = "nothing-of-that-name"; }

  // Publishes a package; returns the commit.
  std::string Publish(const std::string& repo, std::string_view manifest, const std::string& layer = "a layer") {
    const TemporaryFolder package;
    WritePackage(package.path() / "p", manifest, layer);
    return hub_.Put(repo, FilesBelow(package.path() / "p"));
  }
  StoreResult<PullReport> Pull(const std::string& target, PullOptions options = {}) {
    Store store(Settings());
    const auto parsed = ParseTarget(target);
    if (!parsed) return tl::make_unexpected(StoreError(parsed.error()));
    return store.Pull(*parsed, options, &reports_);
  }
  // Requests since the hub was told to forget them, of a path that contains `part`.
  int Requests(const std::string& part) {
    int count = 0;
    for (const auto& entry : hub_.Log()) count += std::string(entry["path"]).find(part) != std::string::npos ? 1 : 0;
    return count;
  }
  int Calls(const std::string& verb) const {
    int count = 0;
    for (const std::string& call : docker_.Calls()) {
      count += call == "docker|" + verb || call.starts_with("docker|" + verb + "|") ? 1 : 0;
    }
    return count;
  }

  TemporaryFolder folder_;
  LocalHub hub_;
  FakeProgram docker_{"docker"};
  std::string engine_ = "docker";
  KeptReports reports_;
};

}  // namespace sightline::testing
