#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/base.h"
#include "cli/command_line.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/live_reporter.h"
#include "cli/number_text.h"
#include "cli/outputs.h"
#include "cli/pictures.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/values.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// ---- values

TEST(CliValues, WholeNumbersMustBeWholeAndInRange) {
  EXPECT_EQ(ParseWhole("--threads", "8", 1, 1024).value(), 8);
  for (const char* text : {"0", "-1", "1025", "99999999999999999999", "", "1.5", "2 ", " 2", "0x2", "two"}) {
    const auto value = ParseWhole("--threads", text, 1, 1024);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, Code::kUsage);
    EXPECT_EQ(value.error().message,
              std::string("--threads is '") + text + "', expected a whole number from 1 to 1024");
  }
}

TEST(CliValues, RealNumbersHaveAPointAndARange) {
  EXPECT_DOUBLE_EQ(ParseReal("--head-threshold", "0.25", 0, 1).value(), 0.25);
  for (const char* text : {"0,25", "nan", "inf", "-0.1", "1.1", "", "1e", "1e999"}) {
    EXPECT_FALSE(ParseReal("--head-threshold", text, 0, 1)) << text;
  }
}

TEST(CliValues, BoxHasFourNumbers) {
  const auto box = ParseBox("116,28.5, 176 ,1e2", 0).value();
  ASSERT_TRUE(box.has_value());
  EXPECT_DOUBLE_EQ(box->x1, 116);
  EXPECT_DOUBLE_EQ(box->y1, 28.5);
  EXPECT_DOUBLE_EQ(box->x2, 176);
  EXPECT_DOUBLE_EQ(box->y2, 100);
  EXPECT_DOUBLE_EQ(ParseBox("-5,-.5,3,4", 0).value()->y1, -0.5);
  EXPECT_FALSE(ParseBox("none", 0).value().has_value());
}

TEST(CliValues, BoxErrorNamesTheBoxAndWhatWasExpected) {
  for (const char* text : {"", "1,2,3", "1,2,3,4,5", "1,2,3,", "1;2;3;4", "0,1,0,2,0,3,0,4", "a,b,c,d", "1 2 3 4"}) {
    const auto box = ParseBox(text, 2);
    ASSERT_FALSE(box) << text;
    EXPECT_EQ(box.error().code, Code::kUsage);
    EXPECT_EQ(box.error().param, "bboxes[2]");
    EXPECT_THAT(box.error().message, StartsWith(std::string("--box number 3 is '") + text + "', expected x1,y1,x2,y2"));
  }
}

TEST(CliValues, BoxLetsThroughWhatThePipelineRefuses) {
  EXPECT_TRUE(std::isnan(ParseBox("nan,0,1,1", 0).value()->x1));
  EXPECT_TRUE(std::isinf(ParseBox("0,0,inf,1", 0).value()->x2));
  EXPECT_TRUE(std::isinf(ParseBox("0,0,1,1e999", 0).value()->y2));
}

// ---- command line

Error Refused(const std::vector<std::string>& arguments) {
  CommandLine line;
  const auto parsed = line.Parse(arguments);
  if (parsed) return {Code::kInternal, "was accepted", {}};
  return parsed.error();
}

std::string VerbOf(const std::vector<std::string>& arguments) {
  CommandLine line;
  const auto parsed = line.Parse(arguments);
  if (!parsed) return parsed.error().message;
  return parsed->verb == nullptr ? "" : parsed->verb->text().name;
}

TEST(CliCommandLine, FindsTheVerb) {
  EXPECT_EQ(VerbOf({"gaze", "a.jpg", "--box=1,2,3,4"}), "gaze");
  EXPECT_EQ(VerbOf({"gaze", "--detect-heads", "-"}), "gaze");
  EXPECT_EQ(VerbOf({"gaze", "--box=1,2,3,4", "--box=5,6,7,8", "a.jpg", "b.jpg"}), "gaze");
  EXPECT_EQ(VerbOf({"gaze", "a.jpg", "--reference", "--box=none"}), "gaze");
  EXPECT_EQ(VerbOf({"gaze", "serve", "--detect-heads"}), "gaze") << "a picture may have the name of a verb";
  EXPECT_EQ(VerbOf({"locate", "a.jpg", "car", "traffic light"}), "locate");
  EXPECT_EQ(VerbOf({"locate", "a.jpg", "--task", "read_text", "--grid", "24x44"}), "locate");
  EXPECT_EQ(VerbOf({"locate", "a.jpg", "--prompt", "Point to: a<image-2>.", "--image", "b.jpg", "--together"}),
            "locate");
  EXPECT_EQ(VerbOf({"serve", "gaze-lle", "--toy", "--port", "0"}), "serve");
  EXPECT_EQ(VerbOf({"serve", "locate-anything", "--weights", "x", "--precision", "int4"}), "serve");
  EXPECT_EQ(VerbOf({"smoke-test", "--url", "http://127.0.0.1:1"}), "smoke-test");
  EXPECT_EQ(VerbOf({"synth", "gaze-lle", "--size", "tiny", "--seed", "3", "--out", "x"}), "synth");
  EXPECT_EQ(VerbOf({"synth", "locate-anything", "--size", "puppet", "--out", "x"}), "synth");
  EXPECT_EQ(VerbOf({"extract-llm", "--weights", "a", "--out", "b"}), "extract-llm");
  EXPECT_EQ(VerbOf({"tokenize", "text", "--added-tokens"}), "tokenize");
  EXPECT_EQ(VerbOf({"bench", "gaze-lle", "--toy", "--json", "--json"}), "bench");
  EXPECT_EQ(VerbOf({"verify"}), "verify");
  EXPECT_EQ(VerbOf({"completion", "fish"}), "completion");
  EXPECT_EQ(VerbOf({"help"}), "help");
}

TEST(CliCommandLine, AnOptionGivenTwiceHasItsLastValue) {
  EXPECT_EQ(VerbOf({"gaze", "a.jpg", "--detect-heads", "--threads", "1", "--threads", "2"}), "gaze");
  EXPECT_THAT(Refused({"gaze", "a.jpg", "--detect-heads", "--threads", "1", "--threads", "0"}).message,
              StartsWith("--threads is '0'"));
}

struct RefusedRow {
  std::vector<std::string> arguments;
  std::string starts_with;
};

TEST(CliCommandLine, RefusesWithASentenceAndWhereHelpIs) {
  const std::vector<RefusedRow> rows = {
      {{}, "no verb is given, expected one of gaze, locate, serve,"},
      {{"gase", "a.jpg"}, "'gase' is no verb, expected one of gaze"},
      {{"--frobnicate"}, "'--frobnicate' is not understood here"},
      {{"gaze", "a.jpg"},
       "no heads are given: mark each with --box x1,y1,x2,y2, or have them found with --detect-heads"},
      {{"gaze", "a.jpg", "--toy"}, "no heads are given"},
      {{"gaze", "--detect-heads"}, "no picture is given"},
      {{"gaze", "-", "-", "--detect-heads"}, "standard input (-) is given twice"},
      {{"gaze", "a.jpg", "--detect-heads", "--colour"}, "'--colour' is not understood here"},
      {{"gaze", "a.jpg", "--detect-heads", "--precision", "f16"}, "--precision is 'f16', expected one of f32, bf16"},
      {{"gaze", "a.jpg", "--detect-heads", "--profile", "paper"},
       "--profile is 'paper', expected one of upstream, port"},
      {{"gaze", "a.jpg", "--detect-heads", "--units", "cm"}, "--units is 'cm', expected one of pixels, normalized"},
      {{"gaze", "a.jpg", "--detect-heads", "--threads", "-2"}, "--threads is '-2', expected a whole number"},
      {{"gaze", "a.jpg", "--detect-heads", "--head-threshold", "0,5"}, "--head-threshold is '0,5', expected a number"},
      {{"gaze", "a.jpg", "--box=none"}, "--box none marks nobody, which only --reference allows"},
      {{"gaze", "a.jpg", "--box=1,2,3"}, "--box number 1 is '1,2,3', expected x1,y1,x2,y2"},
      {{"gaze", "a.jpg", "--detect-heads", "--blend-heatmap"}, "--blend-heatmap needs --overlay"},
      {{"gaze", "a.jpg", "--detect-heads", "--overlay", "x.out", "--heatmap", "x.out"}, "--overlay and --heatmap name"},
      {{"gaze", "a.jpg", "--detect-heads", "--weights", ""}, "--weights is empty"},
      {{"gaze", "a.jpg", "--box"}, "--box needs a value"},
      {{"gaze", "a.jpg", "--detect-heads", "--toy=1"}, "--toy takes no value"},
      {{"serve"}, "no model is given, expected gaze-lle"},
      {{"serve", "gaze-lle", "--port", "65536"}, "--port is '65536', expected a whole number from 0 to 65535"},
      {{"serve", "gaze-lle", "other"}, "'other' is not understood here"},
      {{"serve", "gaze-lle", "--grid", "native"}, "--grid does not belong to gaze-lle"},
      {{"serve", "gaze-lle", "--precision", "int8"}, "--precision int8 does not belong to gaze-lle"},
      {{"serve", "locate-anything", "--toy"}, "--toy does not belong to locate-anything"},
      {{"locate"}, "no picture is given"},
      {{"locate", "a.jpg"}, "no QUERY is given, expected what to find"},
      {{"locate", "a.jpg", "b c", "d", "--task", "point"}, "2 texts are given, but --task point takes one"},
      {{"locate", "a.jpg", "b", "--task", "read_text"}, "QUERY is given, but --task read_text takes none"},
      {{"locate", "a.jpg", "b", "--task", "raw"}, "--task is 'raw', expected one of detect, ground_one"},
      {{"locate", "a.jpg", "b", "--prompt", "c"}, "--prompt and QUERY are both given"},
      {{"locate", "a.jpg", "b", "--mode", "medium"}, "--mode is 'medium', expected one of hybrid, fast, slow"},
      {{"locate", "a.jpg", "b", "--grid", "23x44"}, "--grid is '23x44', expected native or rows x columns"},
      {{"locate", "a.jpg", "b", "--temperature", "0.001"}, "temperature is 0.001, expected 0 or a number from 0.01"},
      {{"locate", "-", "b", "--image", "-"}, "standard input (-) is given twice"},
      {{"locate", "a.jpg", "b", "--together", "--keep-going"}, "--keep-going is for one answer a picture"},
      {{"locate", "a.jpg", "b", "--weights", "x", "--precision", "f16"}, "--precision is 'f16', expected one of f32"},
      {{"smoke-test"}, "--url is missing"},
      {{"synth", "gaze-lle"}, "--out is missing"},
      {{"synth", "gaze-lle", "--out", "x", "--size", "huge"}, "--size is 'huge', expected one of tiny, vitb14, vitl14"},
      {{"synth", "locate-anything", "--out", "x", "--rules", "r"}, "--rules does not belong to locate-anything"},
      {{"extract-llm", "--out", "x"}, "--weights is missing"},
      {{"tokenize"}, "TEXT is missing or empty"},
      {{"bench"}, "no model is given"},
      {{"completion"}, "SHELL is '', expected one of bash, zsh, fish"},
      {{"completion", "csh"}, "SHELL is 'csh', expected one of bash, zsh, fish"},
      {{"help", "me"}, "TOPIC is 'me', expected one of gaze, locate, serve"},
  };
  for (const RefusedRow& row : rows) {
    const Error error = Refused(row.arguments);
    EXPECT_EQ(error.code, Code::kUsage) << row.starts_with;
    EXPECT_THAT(error.message, StartsWith(row.starts_with));
    EXPECT_THAT(error.message, EndsWith("--help)"));
  }
}

TEST(CliCommandLine, EveryHelpStartsWithAnExampleAndFitsATerminal) {
  CommandLine line;
  for (const VerbDescription& verb : line.Describe()) {
    const std::string help = line.HelpText(verb.name);
    EXPECT_THAT(help, StartsWith("Example:\n  ")) << verb.name;
    std::istringstream lines(help);
    for (std::string text; std::getline(lines, text);) EXPECT_LE(text.size(), 120u) << text;
  }
}

TEST(CliCommandLine, HelpAndVersionAreTexts) {
  CommandLine line;
  EXPECT_THAT(line.Parse({"--version"})->text, StartsWith("sightline " + std::string(Version())));
  CommandLine again;
  EXPECT_THAT(again.Parse({"gaze", "--help"})->text, HasSubstr("Usage: sightline gaze [options]"));
}

// ---- exit codes

TEST(CliHelp, ExitCodesNameEveryErrorCode) {
  const std::string text = ExitCodesText();
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    EXPECT_THAT(text, HasSubstr(std::string(Describe(static_cast<Code>(i)).name)));
    EXPECT_THAT(
        text, HasSubstr("\n  " + std::string(3 - std::to_string(Describe(static_cast<Code>(i)).exit_code).size(), ' ') +
                        std::to_string(Describe(static_cast<Code>(i)).exit_code) + "  "));
  }
}

// ---- completion

TEST(CliCompletion, KnowsVerbsOptionsChoicesAndFiles) {
  const std::vector<VerbDescription> verbs = CommandLine().Describe();
  const auto gaze = std::find_if(verbs.begin(), verbs.end(), [](const auto& verb) { return verb.name == "gaze"; });
  ASSERT_NE(gaze, verbs.end());
  const auto find = [&gaze](const std::string& name) {
    for (const OptionDescription& option : gaze->options) {
      if (option.names.back() == name) return option.value;
    }
    return ValueDescription{ValueDescription::Kind::kNothing, {"absent"}};
  };
  EXPECT_EQ(gaze->argument.kind, ValueDescription::Kind::kFile);
  EXPECT_EQ(find("--weights").kind, ValueDescription::Kind::kFolder);
  EXPECT_EQ(find("--backbone").kind, ValueDescription::Kind::kFile);
  EXPECT_THAT(find("--profile").choices, ElementsAre("upstream", "port"));
  EXPECT_EQ(find("--box").kind, ValueDescription::Kind::kAny);
  EXPECT_EQ(find("--toy").kind, ValueDescription::Kind::kNothing);
  EXPECT_TRUE(find("--toy").choices.empty());
}

TEST(CliCompletion, EveryShellHasAScriptWithEveryVerbAndOption) {
  const std::vector<VerbDescription> verbs = CommandLine().Describe();
  for (const std::string_view shell : kShells) {
    const std::string script = CompletionScript(shell, verbs).value();
    for (const VerbDescription& verb : verbs) {
      EXPECT_THAT(script, HasSubstr(verb.name));
      for (const OptionDescription& option : verb.options) {
        for (const std::string& name : option.names)
          EXPECT_THAT(script, HasSubstr(name.substr(name.find_first_not_of('-'))));
      }
    }
  }
  EXPECT_EQ(CompletionScript("csh", verbs).error().code, Code::kUsage);
}

// ---- pictures and outputs

class CliFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("sightline_cli_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "photos");
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Touch(const std::string& name) {
    std::ofstream(folder_ / name) << "x";
    return (folder_ / name).string();
  }
  fs::path folder_;
};

std::vector<std::string> NamesOf(const Pictures& pictures) {
  std::vector<std::string> names;
  for (const Picture& picture : pictures.pictures) names.push_back(picture.path.filename().string());
  return names;
}

TEST_F(CliFiles, AFolderStandsForItsPicturesSorted) {
  for (const char* name : {"photos/b.JPG", "photos/a.png", "photos/c.webp", "photos/d.jpeg", "photos/notes.txt"})
    Touch(name);
  fs::create_directories(folder_ / "photos" / "inner.jpg");
  const Pictures found = FindPictures({(folder_ / "photos").string()});
  EXPECT_TRUE(found.several);
  EXPECT_THAT(NamesOf(found), ElementsAre("a.png", "b.JPG", "c.webp", "d.jpeg"));
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_THAT(found.skipped.front(), EndsWith("notes.txt"));
}

TEST_F(CliFiles, AFolderWithoutPicturesIsAnErrorOfItsOwn) {
  const Pictures found = FindPictures({(folder_ / "photos").string(), "a.jpg"});
  ASSERT_EQ(found.pictures.size(), 2u);
  ASSERT_TRUE(found.pictures[0].error.has_value());
  EXPECT_EQ(found.pictures[0].error->code, Code::kNotFound);
  EXPECT_FALSE(found.pictures[1].error.has_value());
}

TEST_F(CliFiles, OneFileIsNotSeveral) {
  const Pictures found = FindPictures({Touch("a.dat")});
  EXPECT_FALSE(found.several);
  EXPECT_THAT(NamesOf(found), ElementsAre("a.dat"));
}

TEST_F(CliFiles, OneOutputGoesWhereItIsTold) {
  const Pictures one = FindPictures({Touch("a.jpg")});
  EXPECT_THAT(PlanOutputs("--overlay", folder_ / "out.png", ".png", one).value(), ElementsAre(folder_ / "out.png"));
  EXPECT_THAT(PlanOutputs("--overlay", folder_ / "photos", ".png", one).value(),
              ElementsAre(folder_ / "photos" / "a.png"));
  EXPECT_THAT(PlanOutputs("--overlay", "", ".png", one).value(), ElementsAre(fs::path()));
  EXPECT_EQ(PlanOutputs("--overlay", folder_ / "no" / "out.png", ".png", one).error().code, Code::kNotFound);
  EXPECT_EQ(PlanOutputs("--overlay", "-", ".png", one).error().code, Code::kUsage);
}

TEST_F(CliFiles, SeveralOutputsGoIntoAFolderWithNamesOfTheirOwn) {
  const Pictures several = FindPictures({Touch("a.jpg"), Touch("a.png"), Touch("photos/a.jpg"), "-"});
  const fs::path out = folder_ / "made" / "here";
  EXPECT_THAT(PlanOutputs("--heatmap", out, ".npz", several).value(),
              ElementsAre(out / "a.npz", out / "a-2.npz", out / "a-3.npz", out / "stdin.npz"));
  EXPECT_TRUE(fs::is_directory(out));
  EXPECT_FALSE(PlanOutputs("--heatmap", Touch("file"), ".npz", several));
}

TEST_F(CliFiles, PicturesAreNeverOverwritten) {
  const std::string photo = Touch("a.png");
  const auto one = PlanOutputs("--overlay", folder_ / "." / "a.png", ".png", FindPictures({photo}));
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, Code::kUsage);
  EXPECT_THAT(one.error().message, HasSubstr("would overwrite the picture"));
  EXPECT_FALSE(PlanOutputs("--overlay", folder_, ".png", FindPictures({photo, Touch("b.jpg")})));
}

// ---- reports

Answered SomeAnswer() {
  Answered answered;
  answered.name = "photo\n.jpg";
  auto picture = std::make_shared<DecodedImage>();
  picture->image = {200, 100, std::vector<uint8_t>(200 * 100 * 3, 128)};
  picture->warnings = {"exif_orientation: turned upright from orientation 6"};
  answered.picture = picture;
  answered.total_ms = 12.4;
  answered.answer.width = 200;
  answered.answer.height = 100;
  GazePerson person;
  person.normalized = {0.1, 0.2, 0.3, 0.4};
  person.heatmap.fill(0.25f);
  person.score = 0.5f;
  person.target = {150, 50};
  person.inout = 0.94f;
  answered.answer.people = {person, person};
  answered.answer.people[1].inout = 0.03f;
  answered.answer.warnings = {{"box_clipped", "the box reaches past the picture", "bboxes[0]"}};
  return answered;
}

GazeEngineInfo SomeEngine() {
  GazeEngineInfo info;
  info.device = "CPU AVX2, 2 threads";
  return info;
}

TEST(CliReport, TableHasALinePerPerson) {
  EXPECT_EQ(TableText(SomeAnswer(), SomeEngine()),
            "photo?.jpg: 200x100, 12 ms, CPU AVX2, 2 threads, f32, profile upstream\n"
            "person  head x1,y1,x2,y2      looks at x, y     score   in frame\n"
            "1       20,20,60,40           150.0, 50.0       0.500   0.94\n"
            "2       20,20,60,40           out of frame      0.500   0.03\n");
}

TEST(CliReport, TableSaysWhichWeightsAreNotReal) {
  GazeEngineInfo info = SomeEngine();
  info.synthetic = true;
  EXPECT_THAT(TableText(SomeAnswer(), info), HasSubstr("[synthetic weights]"));
  info = SomeEngine();
  info.toy = true;
  EXPECT_THAT(TableText(SomeAnswer(), info), HasSubstr("[toy weights]"));
}

TEST(CliReport, NobodyIsAnAnswerWithAReason) {
  Answered answered = SomeAnswer();
  answered.answer.people.clear();
  answered.answer.empty_reason = "no head was found above the threshold 0.5";
  EXPECT_THAT(TableText(answered, SomeEngine()), EndsWith("\nnobody: no head was found above the threshold 0.5\n"));
}

TEST(CliReport, WarningsOfPictureAndAnswerAreSaid) {
  EXPECT_THAT(WarningTexts(SomeAnswer()),
              ElementsAre("photo\n.jpg: exif_orientation: turned upright from orientation 6",
                          "photo\n.jpg: box_clipped: the box reaches past the picture"));
}

TEST(CliReport, DocumentLineKeepsTheDocument) {
  const auto line = nlohmann::json::parse(DocumentLine("{\"model\":\"gaze-lle\",\"x\":1.0}", "a \"b\".jpg", "ok"));
  EXPECT_EQ(line, (nlohmann::json{{"file", "a \"b\".jpg"}, {"status", "ok"}, {"model", "gaze-lle"}, {"x", 1.0}}));
  EXPECT_TRUE(nlohmann::json::accept(DocumentLine("{\"x\":1}", "not utf-8: \xff", "ok")));
}

TEST(CliReport, OverlayIsAPngAndHeatmapsAreAnNpz) {
  const auto overlay = OverlayFile(SomeAnswer(), SomeEngine(), true).value();
  ASSERT_GT(overlay.size(), 8u);
  EXPECT_EQ(static_cast<char>(overlay[1]), 'P');
  const auto heatmaps = HeatmapFile(SomeAnswer().answer);
  EXPECT_EQ(static_cast<char>(heatmaps[0]), 'P');
  EXPECT_GT(heatmaps.size(), 2u * 4096 * 4);
}

TEST(CliTerminal, OneLineHasNoControlCharacters) { EXPECT_EQ(OneLine("a\033[2Jb\nc"), "a?[2Jb?c"); }

TEST(CliTerminal, RateAndTimeLeftStayWhereTheLabelIsLong) {
  const std::string label = "⠋ weights org/W@a6803c38ab70150c4415495c6736a485ce1d5d38";
  const std::string figures = BarText(3, 10) + " 30%  1.2 GB of 4.0 GB  12.3 MB/s  2:10 left";
  const std::string row = LiveRow(label, figures, 79);
  EXPECT_EQ(ColumnsOf(row), 79u);
  EXPECT_THAT(row, StartsWith("⠋ weights"));
  EXPECT_THAT(row, EndsWith("…  " + figures));
  EXPECT_EQ(LiveRow("⠋ image", figures, 79), "⠋ image  " + figures);
  EXPECT_EQ(ColumnsOf(LiveRow(label, figures, 59)), 59u);
  EXPECT_EQ(LiveRow("⠋ image", "", 79), "⠋ image");
}

}  // namespace
}  // namespace sightline
