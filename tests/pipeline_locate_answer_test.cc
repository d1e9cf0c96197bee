// Answers to findings, and the readers of published programs against what those programs read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pipeline/pipeline.h"
#include "src/pipeline/unicode_classes.h"

namespace sightline {
namespace {

using Json = nlohmann::json;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

const Tokenizer& Shipped() {
  static const Tokenizer tokenizer = [] {
    const auto files = ShippedTokenizer();
    return Tokenizer::Parse(files[0].contents, files[1].contents, files[2].contents, "shipped").value();
  }();
  return tokenizer;
}

// ---- our own reader

LocateReading ReadIds(const std::vector<TokenId>& ids, const std::vector<std::string>& categories = {}) {
  return ReadLocateAnswer(Shipped(), LocateTokens(), ids, std::vector<double>(ids.size(), 0.5), categories);
}

LocateReading Read(const std::string& text, const std::vector<std::string>& categories = {}) {
  return ReadIds(Shipped().Encode(text, AddedTokens::kMatch).value(), categories);
}

std::vector<std::string> Codes(const LocateReading& reading) {
  std::vector<std::string> codes;
  for (const Warning& warning : reading.warnings) codes.push_back(warning.code);
  return codes;
}

std::vector<std::string> Statuses(const LocateReading& reading) {
  std::vector<std::string> statuses;
  for (const CategoryAnswer& category : reading.categories) {
    statuses.push_back(category.name + " " + std::string(NameOf(category.status)) + " " +
                       std::to_string(category.count));
  }
  return statuses;
}

TEST(LocateAnswer, HasBoxesPointsAndNone) {
  const LocateReading reading = Read(
      "<ref>car</ref><box><282><414><607><797></box><box><0><1><999><1000></box><ref>dog</ref><box>None</box>"
      "<box><500><250></box><|im_end|>");
  ASSERT_EQ(reading.findings.size(), 4u);
  EXPECT_THAT(reading.warnings, IsEmpty());
  EXPECT_EQ(reading.findings[0].kind, LocateFinding::Kind::kBox);
  EXPECT_EQ(reading.findings[0].label, "car");
  EXPECT_THAT(reading.findings[0].thousandths, ElementsAre(282, 414, 607, 797));
  EXPECT_EQ(reading.findings[0].normalized.y2, 0.797);
  EXPECT_EQ(reading.findings[1].label, "car");
  EXPECT_EQ(reading.findings[2].kind, LocateFinding::Kind::kNone);
  EXPECT_EQ(reading.findings[2].label, "dog");
  EXPECT_EQ(reading.findings[3].kind, LocateFinding::Kind::kPoint);
  EXPECT_THAT(reading.findings[3].thousandths, ElementsAre(500, 250, 500, 250));
}

TEST(LocateAnswer, ScoresByTheCoordinatesAlone) {
  const std::vector<TokenId> ids{151668, 151700, 151701, 151800, 151801, 151669};
  const auto reading =
      ReadLocateAnswer(Shipped(), LocateTokens(), ids, std::vector{0.01, 0.9, 0.8, 0.7, 0.6, 0.02}, {});
  ASSERT_EQ(reading.findings.size(), 1u);
  EXPECT_DOUBLE_EQ(reading.findings[0].score, std::pow(0.9 * 0.8 * 0.7 * 0.6, 0.25));
  EXPECT_EQ(reading.findings[0].label, std::nullopt);
}

TEST(LocateAnswer, SaysForEachCategoryWhetherItWasAnswered) {
  const LocateReading reading =
      Read("<ref>Person </ref><box><1><2><3><4></box><box><5><6></box><ref>car</ref><box>None</box><ref>tree</ref>",
           {"car", "person", "tree", "sky"});
  EXPECT_THAT(Statuses(reading),
              ElementsAre("car none 0", "person found 2", "tree not_answered 0", "sky not_answered 0"));
  EXPECT_THAT(reading.warnings, IsEmpty());
}

TEST(LocateAnswer, BelongsToTheOnlyCategoryWithoutLabels) {
  EXPECT_THAT(Statuses(Read("<box><1><2><3><4></box>", {"car"})), ElementsAre("car found 1"));
  EXPECT_THAT(Statuses(Read("<box>None</box>", {"car"})), ElementsAre("car none 0"));
  EXPECT_THAT(Statuses(Read("<box>none</box>", {"a", "b"})), ElementsAre("a none 0", "b none 0"));
  const LocateReading unclear = Read("<box>None</box><ref>a</ref><box><1><2><3><4></box>", {"a", "b"});
  EXPECT_THAT(Statuses(unclear), ElementsAre("a found 1", "b not_answered 0"));
  EXPECT_THAT(Codes(unclear), ElementsAre("label_missing"));
  EXPECT_EQ(unclear.warnings[0].param, "findings[0]");
}

TEST(LocateAnswer, MatchesCategoriesAsTheTokenizerNormalisesThem) {
  EXPECT_THAT(Statuses(Read("<ref>caf\u00e9</ref><box><1><2><3><4></box>", {"cafe\u0301"})),
              ElementsAre("cafe\u0301 found 1"));
}

TEST(LocateAnswer, NamesALabelThatNobodyAskedFor) {
  const LocateReading reading = Read("<ref>cars</ref><box><1><2><3><4></box><box><1><2><3><5></box>", {"car"});
  EXPECT_THAT(Statuses(reading), ElementsAre("car not_answered 0"));
  EXPECT_THAT(Codes(reading), ElementsAre("label_unknown"));
}

TEST(LocateAnswer, GivesOddBoxesAsTheyAreWithAWarning) {
  const LocateReading reading =
      Read("<box><607><797><282><414></box><box><5><5><5><9></box><box><1><2></box><box><1><2></box>");
  EXPECT_THAT(reading.findings[0].thousandths, ElementsAre(607, 797, 282, 414));
  EXPECT_EQ(reading.findings[0].normalized.x1, 0.607);
  EXPECT_THAT(Codes(reading), ElementsAre("box_unordered", "box_without_area", "box_repeated"));
  EXPECT_EQ(reading.warnings[2].param, "findings[3]");
}

TEST(LocateAnswer, ReportsWhatIsNoAnswer) {
  const LocateReading reading = Read(
      "hello<ref>a<box><1><2><3></box><box><1><2><3><4><ref>b</ref><box>Nothing</box><box></box><box><1><2><3><4></"
      "box>");
  ASSERT_EQ(reading.findings.size(), 1u);
  EXPECT_EQ(reading.findings[0].label, "b");
  EXPECT_THAT(Codes(reading), ElementsAre("text_outside", "label_unfinished", "box_malformed", "box_malformed",
                                          "box_malformed", "box_malformed"));
  EXPECT_THAT(reading.warnings[1].message, HasSubstr("\"a\""));
}

// DeepSeek-VL2 #96: odd numbers of coordinates, boxes in boxes, no end, digits without end.
TEST(LocateAnswer, KeepsTheGoodBoxesAndCountsTheOthers) {
  std::string text = "<ref>a</ref><box><1><2><3></box><box><1><2><3><4><5></box><box><box><9><9><9><9></box></box>";
  text += "<box><7><7><8><8></box><box><1><2><3><4>";
  LocateReading reading = Read(text);
  ASSERT_EQ(reading.findings.size(), 2u);
  EXPECT_THAT(reading.findings[0].thousandths, ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(reading.findings[1].thousandths, ElementsAre(7, 7, 8, 8));
  EXPECT_EQ(reading.malformed, 4);
  reading = Read("<box>" + std::string(10'000, '9') + "</box><box><7><7><8><8></box>");
  EXPECT_EQ(reading.findings.size(), 1u);
  EXPECT_EQ(reading.malformed, 1);
  EXPECT_LT(reading.warnings[0].message.size(), 200u);
}

TEST(LocateAnswer, WarnsOfTheSameFaultAFewTimes) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "<box><1></box>x<box><5><5><5><9></box>";
  const LocateReading reading = Read(text, {"a", "b"});
  EXPECT_EQ(reading.malformed, 1000);
  EXPECT_EQ(reading.findings.size(), 1000u);
  EXPECT_EQ(reading.warnings.size(), 5 * 8u);  // malformed, outside, without area, repeated, label missing
}

// vllm #9153, InternVL #625: the words of the example for an answer.
TEST(LocateAnswer, TakesAnExampleForNoResult) {
  for (const std::string text :
       {"[x1, y1, x2, y2]", "<ref>car</ref><box>[x1, y1, x2, y2]</box>", "car: [10, 20, 30, 40]"}) {
    const LocateReading reading = Read(text, {"car"});
    EXPECT_THAT(reading.findings, IsEmpty()) << text;
    EXPECT_EQ(reading.warnings.size(), 1u) << text;
    EXPECT_THAT(Statuses(reading), ElementsAre("car not_answered 0")) << text;
  }
}

// llama.cpp PR 14937: characters cut between tokens.
TEST(LocateAnswer, IsUtf8WhereverItWasCut) {
  const std::string label = "\u732b\U0001F408\u200d\u2b1b caf\u00e9";
  const std::vector<TokenId> ids =
      Shipped().Encode("<ref>" + label + "</ref><box><1><2><3><4></box>" + label, AddedTokens::kMatch).value();
  for (size_t count = 0; count <= ids.size(); ++count) {
    const std::vector<TokenId> cut(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
    const LocateReading reading = ReadIds(cut, {label});
    EXPECT_TRUE(Json::accept(Json(Shipped().Decode(cut)).dump()));
    for (const Warning& warning : reading.warnings) EXPECT_NO_THROW(Json(warning.message).dump()) << count;
    for (const LocateFinding& finding : reading.findings) EXPECT_EQ(finding.label, label) << count;
  }
}

// llama.cpp #16880, DeepSeek-VL2 #100: boxes that fit one size of picture only, or ended short of the edge.
TEST(LocateAnswer, PlacesScaleWithThePicture) {
  const LocateReading reading = Read("<box><282><414><607><797></box><box><0><1><999><1000></box><box><1000><0></box>");
  for (const int side : {1, 28, 100, 333, 616, 700, 1000, 1333, 1600, 2000, 4096, 65'500}) {
    const int width = side, height = std::max(1, side * 3 / 4);
    for (const LocateFinding& finding : reading.findings) {
      const LocatePlace place = PlaceOf(finding, width, height);
      const auto& [x1, y1, x2, y2] = finding.thousandths;
      EXPECT_DOUBLE_EQ(place.box.x1, x1 / 1000.0 * width);
      EXPECT_DOUBLE_EQ(place.box.y1, y1 / 1000.0 * height);
      EXPECT_DOUBLE_EQ(place.box.x2, x2 / 1000.0 * width);
      EXPECT_DOUBLE_EQ(place.box.y2, y2 / 1000.0 * height);
      EXPECT_EQ(place.point.x, place.box.x1);
      EXPECT_EQ(place.point.y, place.box.y1);
    }
    EXPECT_EQ(PlaceOf(reading.findings[1], width, height).box.x1, 0);
    EXPECT_EQ(PlaceOf(reading.findings[1], width, height).box.y2, height);
    EXPECT_EQ(PlaceOf(reading.findings[2], width, height).point.x, width);
  }
}

TEST(LocateAnswer, ReadsAnyIds) {
  uint64_t state = 1;
  const auto next = [&state](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<TokenId>((state >> 33) % below);
  };
  const std::vector<TokenId> likely{151668, 151669, 151672, 151673, 152678, 151645, 4064, 151700, 151701};
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids;
    for (int i = 0; i < 40; ++i) {
      ids.push_back(next(4) > 0 ? likely[static_cast<size_t>(next(likely.size()))] : next(160000) - 10);
    }
    const LocateReading reading = ReadIds(ids, {"a", "b"});
    for (const LocateFinding& finding : reading.findings) EXPECT_DOUBLE_EQ(finding.score, 0.5);
  }
}

// ---- the readers of published programs

std::vector<double> Values(const Box& box) { return {box.x1, box.y1, box.x2, box.y2}; }
std::vector<double> Values(const Point& point) { return {point.x, point.y}; }

template <typename T>
Json AsJson(const std::vector<T>& places) {
  Json json = Json::array();
  for (const T& place : places) json.push_back(Values(place));
  return json;
}

Json LabelOf(const std::optional<std::string>& label) { return label ? Json(*label) : Json(); }

Json AsJson(const PortReading& reading) {
  Json json{{"detections", Json::array()}, {"points", Json::array()}};
  for (const auto& [label, box, box_norm] : reading.detections) {
    json["detections"].push_back({{"label", LabelOf(label)}, {"box", Values(box)}, {"box_norm", box_norm}});
  }
  for (const auto& [label, point, point_norm] : reading.points) {
    json["points"].push_back({{"label", LabelOf(label)}, {"point", Values(point)}, {"point_norm", point_norm}});
  }
  return json;
}

Json AsJson(const std::vector<EvaluationLabel>& labels) {
  Json json = Json::object();
  for (const EvaluationLabel& label : labels) json[label.label] = label.places;
  return json;
}

TEST(PublishedReaders, ReadWhatThosePublishedRead) {
  std::ifstream file(std::filesystem::path(SIGHTLINE_TEST_DATA) / "locate" / "parsers.json");
  const Json goldens = Json::parse(file);
  ASSERT_EQ(goldens["rows"].size(), 101u);
  for (const Json& row : goldens["rows"]) {
    const auto text = row["text"].get<std::string>();
    SCOPED_TRACE(text);
    const int width = row["w"].get<int>(), height = row["h"].get<int>();
    const WorkerReading worker = ReadLikeWorker(text, width, height);
    EXPECT_EQ(AsJson(worker.boxes), row["worker_boxes"]);
    EXPECT_EQ(AsJson(worker.points), row["worker_points"]);
    EXPECT_EQ(AsJson(ReadLikePort(text, width, height)), row["port"]);
    const auto grounding = ReadLikeEvaluation(text, width, height, EvaluationTask::kGrounding);
    EXPECT_EQ(AsJson(ReadLikeEvaluation(text, width, height, EvaluationTask::kDetection)), row["eval_detection"]);
    EXPECT_EQ(AsJson(grounding), row["eval_grounding"]);
    EXPECT_EQ(AsJson(grounding), row["eval_sspro"]);
  }
}

TEST(PublishedReaders, TakeAnswersOfAnyLengthInReasonableTime) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "<ref><box>";
  EXPECT_THAT(ReadLikeWorker(text, 10, 10).boxes, IsEmpty());
  EXPECT_THAT(ReadLikePort(text, 10, 10).detections, IsEmpty());
  text.clear();
  for (int i = 0; i < 100000; ++i) text += "<ref>a</ref><box>";
  EXPECT_THAT(ReadLikeEvaluation(text, 10, 10, EvaluationTask::kGrounding), IsEmpty());
  EXPECT_THAT(ReadLikeWorker("<box><" + std::string(100000, '9') + "><1></box>", 10, 10).points, IsEmpty());
}

TEST(UnicodeClasses, AreThoseOfPython) {
  EXPECT_EQ(DecimalDigit('7'), 7);
  EXPECT_EQ(DecimalDigit(0x0663), 3);
  EXPECT_EQ(DecimalDigit(0x1D7FF), 9);
  EXPECT_EQ(DecimalDigit(0x00B2), std::nullopt);  // superscript two
  EXPECT_EQ(DecimalDigit(0x066A), std::nullopt);
  EXPECT_EQ(DecimalDigit(0), std::nullopt);
  EXPECT_EQ(StripSpace("\u3000\t a b\u2003 \u0085"), "a b");
  EXPECT_EQ(StripSpace(" \u3000 "), "");
  EXPECT_EQ(StripSpace("\x80 \xe3\x80"), "\x80 \xe3\x80");
}

}  // namespace
}  // namespace sightline
