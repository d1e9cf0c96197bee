// What a command line asks for, as types. Parsing is pure: it reads no file and prints nothing.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/base.h"
#include "models/models.h"
#include "pipeline/pipeline.h"
#include "server/server.h"

namespace sightline {

struct GazeCommand {
  std::vector<std::string> images;        // files, folders, "-" for standard input
  std::vector<std::optional<Box>> boxes;  // nullopt: "none"
  BoxUnits units = BoxUnits::kPixels;
  bool detect_heads = false;
  HeadOptions heads;
  GazeWeightsOptions weights;
  GazeEngineOptions engine;
  bool reference = false;
  DecodeOptions decode;
  bool json = false;
  HeatmapFormat heatmap_format = HeatmapFormat::kPng;  // of the JSON document
  std::filesystem::path overlay, heatmap;              // empty: not wanted
  bool blend_heatmap = false;
  bool keep_going = false;
};

struct ServeCommand {
  std::string model;
  GazeServerOptions options;
  LogLevel log_level = LogLevel::kInfo;
};

struct SynthCommand {
  std::string model;
  SyntheticGazeOptions options;
  bool json = false;
};

struct BenchCommand {
  std::string model;
  GazeWeightsOptions weights;
  GazeBenchOptions options;
  bool json = false;
};

struct VerifyCommand {
  std::filesystem::path folder;  // empty: CacheFolder()
};

// Help, version and completion scripts: text for standard output, made while parsing.
struct PrintCommand {
  std::string text;
};

using Command = std::variant<GazeCommand, ServeCommand, SynthCommand, BenchCommand, VerifyCommand, PrintCommand>;

// `arguments` without the program's name. Fails with kUsage (kInvalidBox never: boxes are judged by the pipeline).
Result<Command> ParseCommandLine(const std::vector<std::string>& arguments);

// One function per verb; each returns the exit code, or the error that ended it.
Result<int> RunGaze(const GazeCommand& command);
Result<int> RunServe(const ServeCommand& command);
Result<int> RunSynth(const SynthCommand& command);
Result<int> RunBench(const BenchCommand& command);
Result<int> RunVerify(const VerifyCommand& command);

// kNotFound unless `model` is one that this program knows.
Status CheckModel(std::string_view model);

}  // namespace sightline
