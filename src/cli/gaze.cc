#include "cli/gaze.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/engine_options.h"
#include "cli/values.h"
#include "cli/verb.h"

namespace sightline {
namespace {

class GazeVerb : public Verb {
 public:
  VerbText text() const override;
  void Declare(OptionSet& options) override;
  Status Check() override;
  Result<int> Run() override { return AnswerPictures(gaze_); }

 private:
  void DeclareHeads(OptionSet& options);
  void DeclareResults(OptionSet& options);
  Status ReadBoxes();

  GazeOptions gaze_;
  std::vector<std::string> boxes_;
};

VerbText GazeVerb::text() const {
  return {
      "gaze", "Find where people look in pictures",
      "sightline gaze photo.jpg --detect-heads --overlay out.png\n"
      "sightline gaze photo.jpg --box 116,28,176,104 --box 269,37,301,81 --json",
      "Several pictures: one answer each, and a bad one does not stop the rest. The exit code is that of the first\n"
      "one that failed, or 20 with --keep-going. Files that exist are overwritten, the pictures themselves never."};
}

void GazeVerb::Declare(OptionSet& options) {
  options.Argument("IMAGE", gaze_.images, "FILE", "JPEG, PNG or WebP: files, folders of them, - for standard input");
  DeclareHeads(options);
  DeclareWeights(options, gaze_.weights);
  DeclareCompute(options, gaze_.engine.precision, gaze_.engine.threads);
  DeclareProfile(options, gaze_.engine.profile);
  options.Flag("--reference", gaze_.reference,
               "as the published program, without guards: its box rules,\nEXIF and alpha ignored, --box none allowed");
  options.Whole("--max-pixels", gaze_.decode.max_pixels, 1, kMostPixels, "refuse larger pictures (default 100000000)");
  DeclareResults(options);
}

void GazeVerb::DeclareHeads(OptionSet& options) {
  options.Group("Heads (at least one of --box and --detect-heads)");
  options.Repeated("--box", boxes_, "x1,y1,x2,y2", "a head; again for each further one");
  options.Choice("--units", {"pixels", "normalized"}, "of --box: pixels (default) or fractions of the picture",
                 [this](size_t index) { gaze_.units = index == 0 ? BoxUnits::kPixels : BoxUnits::kNormalized; });
  options.Flag("--detect-heads", gaze_.detect_heads, "find heads; those turned away can be missed");
  options.Real("--head-threshold", gaze_.heads.threshold, 0, 1, "least score of a found head (default 0.5)");
  options.Whole("--max-heads", gaze_.heads.max_heads, 1, kMostHeads, "keep the best of those found (default 10)");
}

void GazeVerb::DeclareResults(OptionSet& options) {
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

Status GazeVerb::ReadBoxes() {
  for (size_t i = 0; i < boxes_.size(); ++i) {
    SIGHTLINE_ASSIGN_OR_RETURN(const std::optional<Box> box, ParseBox(boxes_[i], i));
    if (!box && !gaze_.reference) {
      return Fail(Code::kUsage, "--box none marks nobody, which only --reference allows", fmt::format("bboxes[{}]", i));
    }
    gaze_.boxes.push_back(box);
  }
  return {};
}

Status GazeVerb::Check() {
  SIGHTLINE_RETURN_IF_ERROR(ReadBoxes());
  if (gaze_.images.empty()) {
    return Fail(Code::kUsage, "no picture is given, expected a file, a folder or - for standard input");
  }
  if (std::count(gaze_.images.begin(), gaze_.images.end(), "-") > 1) {
    return Fail(Code::kUsage, "standard input (-) is given twice, expected once");
  }
  if (gaze_.boxes.empty() && !gaze_.detect_heads) {
    return Fail(Code::kUsage,
                "no heads are given: mark each with --box x1,y1,x2,y2, or have them found with --detect-heads");
  }
  if (gaze_.blend_heatmap && gaze_.overlay.empty()) return Fail(Code::kUsage, "--blend-heatmap needs --overlay");
  if (!gaze_.overlay.empty() && gaze_.overlay == gaze_.heatmap && gaze_.overlay.has_extension()) {
    return Fail(Code::kUsage, "--overlay and --heatmap name the same file, expected two");
  }
  gaze_.decode.reference = gaze_.reference;
  return {};
}

}  // namespace

std::unique_ptr<Verb> MakeGazeVerb() { return std::make_unique<GazeVerb>(); }

}  // namespace sightline
