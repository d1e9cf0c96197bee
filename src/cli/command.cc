#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/completion.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/values.h"

namespace sightline {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kMostHeads = 1000;
constexpr int64_t kMostPixels = 65'500LL * 65'500LL;
constexpr std::string_view kModel = "gaze-lle";
constexpr std::string_view kExitCodesTopic = "exit-codes";

// Help that starts with a command to copy.
class ExampleFirst : public CLI::Formatter {
 public:
  explicit ExampleFirst(std::string example) : example_(std::move(example)) {
    label("Positionals", "Arguments");
    label("OPTIONS", "options");
    label("SUBCOMMAND", "verb");
    label("Subcommands", "Verbs");
    column_width(34);
  }
  std::string make_description(const CLI::App* app) const override {
    return fmt::format("Example:\n  {}\n\n{}", example_, CLI::Formatter::make_description(app));
  }

 private:
  std::string example_;
};

void DeclareWeights(OptionSet& options, GazeWeightsOptions& weights) {
  options.Group("Weights (one of them; else the Hugging Face cache)");
  options.Folder("--weights", weights.folder, "folder with one dinov2* and one gazelle* file");
  options.File("--backbone", weights.backbone, "DINOv2 file, together with --decoder");
  options.File("--decoder", weights.decoder, "Gaze-LLE file, together with --backbone");
  options.Flag("--toy", weights.toy, "the small trained network that ships with the program, for its drawings");
  options.Flag("--synthetic", weights.synthetic, "random ViT-B/14 weights, for speed and tests; made on first use");
}

void DeclareCompute(OptionSet& options, std::optional<Precision>& precision, int& threads) {
  options.Group("Computing");
  options.Choice("--precision", precision, std::vector{Precision::kF32, Precision::kBF16},
                 "bf16 where the processor computes in it, else f32");
  options.Whole("--threads", threads, 1, kMostThreads, "as many as the processor has cores free for us");
}

void DeclareProfile(OptionSet& options, Profile& profile) {
  options.Choice("--profile", profile, std::vector{Profile::kUpstream, Profile::kPort},
                 "published program to follow (default upstream)");
}

// The whole command line: what CLI11 fills in, verb by verb.
class Parser {
 public:
  Parser() : app_("Says where the people in a picture look.", "sightline") {
    app_.formatter(std::make_shared<ExampleFirst>("sightline gaze photo.jpg --detect-heads --overlay out.png"));
    app_.set_version_flag("--version", fmt::format("sightline {}", Version()), "print the version");
    app_.set_help_flag("-h,--help", "print this help");
    app_.footer("More: sightline help VERB, sightline help exit-codes");
    app_.require_subcommand(0, 1);
    app_.allow_extras();
    DeclareGaze();
    DeclareServe();
    DeclareSynth();
    DeclareBench();
    DeclareVerify();
    DeclareCompletion();
    DeclareHelp();
  }

  Result<Command> Parse(const std::vector<std::string>& arguments) {
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes from the back
    } catch (const CLI::CallForHelp&) {
      return PrintCommand{app_.help()};
    } catch (const CLI::CallForVersion&) {
      return PrintCommand{app_.version() + "\n"};
    } catch (const CLI::Error& error) {
      return Refuse(error.what());
    }
    SIGHTLINE_RETURN_IF_ERROR(CheckNothingLeft());
    return Chosen();
  }

 private:
  CLI::App& Declare(const std::string& name, const std::string& help, const std::string& example) {
    CLI::App& verb = *app_.add_subcommand(name, help);
    verb.formatter(std::make_shared<ExampleFirst>(example));
    verb.allow_extras();
    return verb;
  }

  void DeclareGaze() {
    CLI::App& verb = Declare("gaze", "Find where people look in pictures",
                             "sightline gaze photo.jpg --detect-heads --overlay out.png\n"
                             "  sightline gaze photo.jpg --box 116,28,176,104 --box 269,37,301,81 --json");
    OptionSet options(verb);
    options.Arguments("IMAGE", gaze_.images, "FILE",
                      "JPEG, PNG or WebP files, folders of them, or - for standard input");
    DeclareGazeHeads(options);
    DeclareWeights(options, gaze_.weights);
    DeclareCompute(options, gaze_.engine.precision, gaze_.engine.threads);
    DeclareProfile(options, gaze_.engine.profile);
    options.Flag("--reference", gaze_.reference, "follow the published program without our guards: raw box rules,\n"
                                                 "EXIF and alpha ignored, --box none allowed");
    options.Whole("--max-pixels", gaze_.decode.max_pixels, 1, kMostPixels,
                  "refuse larger pictures (default 100000000)");
    DeclareGazeOutput(options);
    verb.footer(
        "Several pictures: one answer each, and a bad one does not stop the rest. The exit code is that of the first\n"
        "one that failed, or 20 with --keep-going. Files that exist are overwritten, the pictures themselves never.");
  }

  void DeclareGazeHeads(OptionSet& options) {
    options.Group("Heads (at least one of --box and --detect-heads)");
    options.Repeated("--box", boxes_, "x1,y1,x2,y2", "a head; again for each further one");
    options.AddChoice("--units", {"pixels", "normalized"}, "of --box: pixels (default) or fractions of the picture",
                      [this](size_t index) { gaze_.units = index == 0 ? BoxUnits::kPixels : BoxUnits::kNormalized; });
    options.Flag("--detect-heads", gaze_.detect_heads, "find heads; those turned away can be missed");
    options.Real("--head-threshold", gaze_.heads.threshold, 0, 1, "least score of a found head (default 0.5)");
    options.Whole("--max-heads", gaze_.heads.max_heads, 1, kMostHeads, "keep the best of those found (default 10)");
  }

  void DeclareGazeOutput(OptionSet& options) {
    options.Group("Results");
    options.Flag("--json", gaze_.json, "print what the server answers, one line a picture, instead of a table");
    options.Choice("--heatmap-format", gaze_.heatmap_format,
                   std::vector{HeatmapFormat::kPng, HeatmapFormat::kNpz, HeatmapFormat::kJson, HeatmapFormat::kNone},
                   "heat maps in --json (default png)");
    options.File("--overlay", gaze_.overlay, "draw heads and arrows into this PNG; several pictures: a folder");
    options.Flag("--blend-heatmap", gaze_.blend_heatmap, "draw the heat maps into the overlay too");
    options.File("--heatmap", gaze_.heatmap, "write heat maps as NumPy .npz; several pictures: a folder");
    options.Flag("--keep-going", gaze_.keep_going, "exit with 20 where some of several pictures failed");
  }

  void DeclareServe() {
    CLI::App& verb = Declare("serve", "Answer over HTTP", "sightline serve gaze-lle --toy --port 20000");
    OptionSet options(verb);
    options.Argument("MODEL", serve_.model, std::string(kModel), "what to serve");
    GazeServerOptions& server = serve_.options;
    options.Group("Network");
    options.Text("--host", server.host, "ADDRESS", "address to listen on (default 127.0.0.1)");
    options.Whole("--port", port_, 0, 65535, "exactly this one; 0: any (default 20000 or the next free one)");
    DeclareWeights(options, server.weights);
    DeclareCompute(options, server.engine.precision, server.engine.threads);
    DeclareProfile(options, server.engine.profile);
    options.Flag("--reference-images", server.images.reference, "ignore EXIF and alpha as the published program does");
    options.Group("Limits");
    options.Whole("--max-heads", server.max_heads, 1, kMostHeads, "heads in a request (default 10)");
    options.Real("--head-threshold", server.head_threshold, 0, 1, "least score of a found head (default 0.5)");
    options.Whole("--max-queue", server.engine.max_queue, 1, 100'000, "requests inside at once (default 32)");
    options.Whole("--max-body-mib", max_body_mib_, 1, 4096, "size of a request (default 32)");
    options.Whole("--max-pixels", server.images.max_pixels, 1, kMostPixels, "of a picture (default 100000000)");
    options.Real("--deadline-s", deadline_s_, 0.001, 86'400, "longest time for an answer (default 120)");
    options.Group("Log");
    options.AddChoice("--log-level", {"quiet", "info", "debug"}, "on standard error (default info)",
                      [this](size_t index) { serve_.log_level = static_cast<LogLevel>(index); });
    verb.footer("Ready when the log says: Application startup complete. SIGTERM finishes what runs, then ends.");
  }

  void DeclareSynth() {
    CLI::App& verb = Declare("synth", "Write random weights in the official formats",
                             "sightline synth gaze-lle --size vitb14 --seed 1 --out weights");
    OptionSet options(verb);
    options.Argument("MODEL", synth_.model, std::string(kModel), "whose weights to make");
    options.AddChoice("--size", {kSizes.begin(), kSizes.end()}, "of the network (default tiny)",
                      [this](size_t index) { synth_.options.size = kSizes[index]; });
    options.Flag("--no-inout", no_inout_, "leave out the head that tells in from out of frame");
    options.File("--rules", synth_.options.rules, "rules of synthesis (default: those built in)");
    options.Whole("--seed", synth_.options.seed, 0, std::numeric_limits<int64_t>::max(),
                  "other numbers for another seed (default 1)");
    options.Folder("--out", synth_.options.folder, "folder for both files; made where it is missing");
    options.Flag("--json", synth_.json, "print the paths as JSON");
    verb.footer("Answers from such weights mean nothing as gaze; they show form and speed.");
  }

  void DeclareBench() {
    CLI::App& verb =
        Declare("bench", "Time a model stage by stage", "sightline bench gaze-lle --synthetic --iterations 20");
    OptionSet options(verb);
    options.Argument("MODEL", bench_.model, std::string(kModel), "what to time");
    options.Group("Measuring");
    options.Whole("--iterations", bench_.options.iterations, 1, 100'000, "passes to time (default 10)");
    options.Whole("--heads", bench_.options.heads, 1, kMostHeads, "heads in the stage table (default 1)");
    DeclareWeights(options, bench_.weights);
    DeclareCompute(options, bench_.options.precision, bench_.options.threads);
    options.Group("Results");
    options.Flag("--json", bench_.json, "print JSON instead of a table");
  }

  void DeclareVerify() {
    CLI::App& verb = Declare("verify", "Check the packed weights in the cache folder", "sightline verify");
    OptionSet(verb).Argument("FOLDER", folder_, "FOLDER", "to check instead of the cache folder");
    verb.footer("A damaged file may be removed; it is made again when it is next needed.");
  }

  void DeclareCompletion() {
    CLI::App& verb =
        Declare("completion", "Print a completion script for a shell", "source <(sightline completion bash)");
    OptionSet(verb).Argument("SHELL", shell_, fmt::format("{}", fmt::join(kShells, "|")), "whose script to print");
  }

  void DeclareHelp() {
    CLI::App& verb = Declare("help", "Explain a verb, or the exit codes", "sightline help exit-codes");
    std::vector<std::string> topics = VerbNames();
    std::erase(topics, "help");
    topics.emplace_back(kExitCodesTopic);
    OptionSet(verb).Argument("TOPIC", topic_, fmt::format("{}", fmt::join(topics, "|")), "what to explain");
  }

  std::vector<std::string> VerbNames() const {
    std::vector<std::string> names;
    for (const CLI::App* verb : app_.get_subcommands({})) names.push_back(verb->get_name());
    return names;
  }

  const CLI::App* ChosenVerb() const {
    const std::vector<CLI::App*> chosen = app_.get_subcommands();
    return chosen.empty() ? nullptr : chosen.front();
  }

  // A usage error that ends with where help is.
  tl::unexpected<Error> Refuse(const std::string& sentence, std::string param = {}) const {
    const CLI::App* verb = ChosenVerb();
    const std::string name = verb == nullptr ? "" : " " + verb->get_name();
    return Fail(Code::kUsage, fmt::format("{} (see sightline{} --help)", sentence, name), std::move(param));
  }

  Status CheckNothingLeft() const {
    const CLI::App* verb = ChosenVerb();
    const std::vector<std::string> left = verb == nullptr ? app_.remaining() : verb->remaining();
    if (left.empty()) {
      if (verb != nullptr) return {};
      return Refuse(fmt::format("no verb is given, expected one of {}", fmt::join(VerbNames(), ", ")));
    }
    const std::string& first = left.front();
    if (verb == nullptr && !first.starts_with("-")) {
      return Refuse(fmt::format("'{}' is no verb, expected one of {}", first, fmt::join(VerbNames(), ", ")));
    }
    return Refuse(fmt::format("'{}' is not understood by sightline{}{}", first, verb == nullptr ? "" : " ",
                              verb == nullptr ? "" : verb->get_name()));
  }

  Result<Command> Chosen() {
    const std::string verb = ChosenVerb()->get_name();
    if (verb == "gaze") return Gaze();
    if (verb == "serve") return Serve();
    if (verb == "synth") return Synth();
    if (verb == "bench") return Bench();
    if (verb == "verify") return VerifyCommand{folder_};
    if (verb == "completion") return Completion();
    return Help();
  }

  Result<Command> Gaze() {
    for (const std::string& text : boxes_) {
      auto box = ParseBox(text, gaze_.boxes.size());
      if (!box) return Refuse(box.error().message, box.error().param);
      if (!*box && !gaze_.reference) {
        return Refuse("--box none marks nobody, which only --reference allows",
                      fmt::format("bboxes[{}]", gaze_.boxes.size()));
      }
      gaze_.boxes.push_back(*box);
    }
    if (gaze_.images.empty()) return Refuse("no picture is given, expected a file, a folder or - for standard input");
    if (std::count(gaze_.images.begin(), gaze_.images.end(), "-") > 1) {
      return Refuse("standard input (-) is given twice, expected once");
    }
    if (gaze_.boxes.empty() && !gaze_.detect_heads) {
      return Refuse("no heads are given: draw one with --box x1,y1,x2,y2, or have them found with --detect-heads");
    }
    if (gaze_.blend_heatmap && gaze_.overlay.empty()) return Refuse("--blend-heatmap needs --overlay");
    gaze_.decode.reference = gaze_.reference;
    return gaze_;
  }

  Result<Command> Serve() {
    if (serve_.model.empty()) return Refuse("no model is given, expected gaze-lle");
    if (port_ >= 0) serve_.options.port = port_;
    serve_.options.max_body_bytes = static_cast<size_t>(max_body_mib_) << 20;
    serve_.options.request_deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline_s_ * 1000));
    return serve_;
  }

  Result<Command> Synth() {
    if (synth_.model.empty()) return Refuse("no model is given, expected gaze-lle");
    if (synth_.options.folder.empty()) return Refuse("--out is missing, expected a folder for the files");
    synth_.options.inout = !no_inout_;
    return synth_;
  }

  Result<Command> Bench() {
    if (bench_.model.empty()) return Refuse("no model is given, expected gaze-lle");
    return bench_;
  }

  Result<Command> Completion() {
    auto script = CompletionScript(shell_, DescribeVerbs());
    if (!script) return Refuse(script.error().message);
    return PrintCommand{*std::move(script)};
  }

  Result<Command> Help() {
    if (topic_.empty()) return PrintCommand{app_.help("", CLI::AppFormatMode::All)};
    if (topic_ == kExitCodesTopic) return PrintCommand{ExitCodesText()};
    for (const CLI::App* verb : app_.get_subcommands({})) {
      if (verb->get_name() == topic_) return PrintCommand{verb->help("sightline")};
    }
    return Refuse(fmt::format("'{}' is no topic, expected a verb or exit-codes", topic_));
  }

  std::vector<VerbDescription> DescribeVerbs() const;

  static constexpr std::array<const char*, 3> kSizes = {"tiny", "vitb14", "vitl14"};

  CLI::App app_;
  GazeCommand gaze_;
  std::vector<std::string> boxes_;
  ServeCommand serve_;
  int port_ = -1;
  int max_body_mib_ = 32;
  double deadline_s_ = 120;
  SynthCommand synth_;
  bool no_inout_ = false;
  BenchCommand bench_;
  std::string folder_, shell_, topic_;
};
