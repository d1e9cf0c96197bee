#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <locale>
#include <nlohmann/json.hpp>
#include <thread>

#include "server/server.h"
#include "src/server/access_log.h"
#include "src/server/documents.h"
#include "src/server/metrics.h"

namespace sightline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

// The first person of the seed's card.
GazeAnswer CardAnswer() {
  GazeAnswer answer;
  answer.width = 500;
  answer.height = 334;
  answer.heads_source = "request";
  answer.encode_ms = 5.001;
  answer.decode_ms = 1.375;
  GazePerson person;
  person.box = {116, 28, 176, 104};
  person.normalized = {116 / 500.0, 28 / 334.0, 176 / 500.0, 104 / 334.0};
  for (size_t i = 0; i < person.heatmap.size(); ++i) person.heatmap[i] = static_cast<float>(i % 256) / 255.0f;
  person.row = 33;
  person.column = 37;
  person.score = 0.3725f;
  person.target_normalized = {37 / 64.0, 33 / 64.0};
  person.target = {37 / 64.0 * 500, 33 / 64.0 * 334};
  person.inout = 0.0249f;
  answer.people.push_back(person);
  return answer;
}

GazeEngineInfo Marked(bool toy, bool synthetic) {
  GazeEngineInfo info;
  info.toy = toy;
  info.synthetic = synthetic;
  return info;
}

DecodedImage CardPicture() {
  DecodedImage picture;
  picture.format = "png";
  return picture;
}

std::string CardDocument(HeatmapFormat format) {
  GazeDocumentOptions options;
  options.model = "gaze-lle-p150";
  options.heatmap_format = format;
  options.image_sha256 = "ab";
  options.request_id = "r1";
  options.total_ms = 14.7749;
  return GazeDocument(CardAnswer(), CardPicture(), {}, options);
}

// Keys, their order and the rounding of every number, as the seed's card shows them.
TEST(GazeDocument, IsTheCards) {
  EXPECT_EQ(CardDocument(HeatmapFormat::kNone),
            R"({"model":"gaze-lle-p150","image_size":[500,334],"input_size":[448,448],"num_heads":1,)"
            R"("heatmap_size":[64,64],"heatmap_format":"none","predictions":[)"
            R"({"bbox":[116.0,28.0,176.0,104.0],"bbox_normalized":[0.232,0.083832,0.352,0.311377],"inout":0.025,)"
            R"("gaze_target":{"x":289.1,"y":172.2,"x_norm":0.578,"y_norm":0.516,"heatmap_row":33,"heatmap_col":37,)"
            R"("score":0.373}}],"timing_ms":{"inference":6.38,"total":14.77},"warnings":[],)"
            R"("image":{"format":"png","width":500,"height":334,"exif_orientation":1,"sha256":"ab"},)"
            R"("request_id":"r1"})");
}

TEST(GazeDocument, HeatmapAsJsonKeepsEveryFloat) {
  const GazeAnswer answer = CardAnswer();
  const std::string text = CardDocument(HeatmapFormat::kJson);
  const Json rows = Json::parse(text)["predictions"][0]["heatmap"];
  ASSERT_EQ(rows.size(), 64u);
  for (size_t y = 0; y < 64; ++y) {
    ASSERT_EQ(rows[y].size(), 64u);
    for (size_t x = 0; x < 64; ++x) EXPECT_EQ(rows[y][x].get<float>(), answer.people[0].heatmap[y * 64 + x]);
  }
  EXPECT_THAT(text, HasSubstr("[0.0,0.003921569,0.007843138,"));  // the shortest digits that read back
}

TEST(GazeDocument, HeatmapAsPngIsRoundedHalfToEven) {
  GazeAnswer answer = CardAnswer();
  answer.people[0].heatmap.fill(0);
  answer.people[0].heatmap[0] = 0.5f / 255;
  answer.people[0].heatmap[1] = 1;
  answer.people[0].heatmap[2] = 127.5f / 255;
  const Json document = Json::parse(GazeDocument(answer, CardPicture(), {}, {}));
  const auto file = DecodeImageText(document["predictions"][0]["heatmap_png"].get<std::string>());
  ASSERT_TRUE(file);
  const auto picture = DecodeImage(*file);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->image.width, 64);
  EXPECT_EQ(picture->image.rgb[0], 0);
  EXPECT_EQ(picture->image.rgb[3], 255);
  EXPECT_EQ(picture->image.rgb[6], 128);
  EXPECT_FALSE(document.contains("heatmap_npz"));
}

TEST(GazeDocument, HeatmapAsNpzIsOneFile) {
  const Json document = Json::parse(CardDocument(HeatmapFormat::kNpz));
  const auto file = DecodeImageText(document["heatmap_npz"].get<std::string>());
  ASSERT_TRUE(file);
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->size());
  EXPECT_THAT(std::string(bytes), AllOf(HasSubstr("heatmap.npy"), HasSubstr("(1, 64, 64)"), HasSubstr("inout.npy")));
  EXPECT_FALSE(document["predictions"][0].contains("heatmap_png"));
}

TEST(GazeDocument, WhatIsNotThereIsNull) {
  GazeAnswer answer = CardAnswer();
  answer.people[0].inout.reset();
  const Json document = Json::parse(GazeDocument(answer, CardPicture(), {}, {}));
  EXPECT_TRUE(document["predictions"][0]["inout"].is_null());
  EXPECT_FALSE(document.contains("request_id"));
  EXPECT_FALSE(document.contains("heads_source"));
  EXPECT_FALSE(document.contains("synthetic_weights"));
}

TEST(GazeDocument, WarningsOfPictureAndBoxes) {
  GazeAnswer answer = CardAnswer();
  answer.warnings.push_back({"box_clipped", "clipped \"it\"", "bboxes[0]"});
  DecodedImage picture = CardPicture();
  picture.warnings = {"exif_orientation: turned: by 90 degrees", "odd"};
  const Json warnings = Json::parse(GazeDocument(answer, picture, {}, {}))["warnings"];
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_EQ(warnings[0].dump(), R"({"code":"exif_orientation","message":"turned: by 90 degrees","param":"image"})");
  EXPECT_EQ(warnings[1]["code"], "odd");
  EXPECT_EQ(warnings[2].dump(), R"({"code":"box_clipped","message":"clipped \"it\"","param":"bboxes[0]"})");
}

TEST(GazeDocument, NobodyFoundIsAnAnswer) {
  GazeAnswer answer;
  answer.heads_source = "detector";
  answer.empty_reason = "no head was found";
  const Json document = Json::parse(GazeDocument(answer, CardPicture(), Marked(true, false), {}));
  EXPECT_EQ(document["num_heads"], 0);
  EXPECT_EQ(document["predictions"], Json::array());
  EXPECT_EQ(document["heads_found"], 0);
  EXPECT_EQ(document["heads_source"], "detector");
  EXPECT_EQ(document["empty_reason"], "no head was found");
  EXPECT_EQ(document["toy_weights"], true);
}

TEST(GazeDocument, DetectedHeadsHaveAScore) {
  GazeAnswer answer = CardAnswer();
  answer.heads_source = "request+detector";
  answer.heads_found = 4;
  answer.people[0].head_score = 0.98765;
  const Json document = Json::parse(GazeDocument(answer, CardPicture(), Marked(false, true), {}));
  EXPECT_EQ(document["predictions"][0]["head_score"], 0.988);
  EXPECT_EQ(document["heads_found"], 4);
  EXPECT_EQ(document["synthetic_weights"], true);
}

// Every number has the fewest digits that read back: nlohmann alone would write 0.0006489999999999999.
TEST(GazeDocument, NumbersAreShort) {
  GazeAnswer answer = CardAnswer();
  answer.people[0].normalized = {0.000649, 0.0012979999, 0.1 + 0.2, 1};
  answer.people[0].box = {-0.0, 1e300, 5e-324, 12345678.9};
  const std::string text = GazeDocument(answer, CardPicture(), {}, {.heatmap_format = HeatmapFormat::kNone});
  EXPECT_THAT(text, HasSubstr(R"("bbox":[-0.0,1e+300,5e-324,12345678.9])"));
  EXPECT_THAT(text, HasSubstr(R"("bbox_normalized":[0.000649,0.001298,0.3,1.0])"));
}

TEST(GazeDocument, TotalRunsToTheEndOfTheDocument) {
  GazeDocumentOptions options;
  options.received = std::chrono::steady_clock::now() - std::chrono::milliseconds(50);
  const Json document = Json::parse(GazeDocument(CardAnswer(), CardPicture(), {}, options));
  EXPECT_GE(document["timing_ms"]["total"].get<double>(), 50);
  EXPECT_LT(document["timing_ms"]["total"].get<double>(), 5000);
}

// nlohmann/json #302: decimal commas in a German locale.
TEST(GazeDocument, LocaleDoesNotMatter) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  Metrics metrics("m");
  metrics.CountRequest("/predict", 200, "ok", 1234.5);
  const std::string plain = CardDocument(HeatmapFormat::kJson), plain_metrics = metrics.Text({});
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string text = CardDocument(HeatmapFormat::kJson), text_metrics = metrics.Text({});
  std::locale::global(before);
  EXPECT_EQ(text, plain);
  EXPECT_THAT(text_metrics, HasSubstr("sightline_request_duration_seconds_sum{route=\"/predict\"} 1.2345"));
  EXPECT_EQ(text_metrics.size(), plain_metrics.size());
}

TEST(ErrorDocument, BothForms) {
  const Error error{Code::kInvalidBox, "bboxes[2] is inverted", "bboxes[2]"};
  EXPECT_EQ(ErrorDocument(error, "r1", false),
            R"({"error":{"code":"invalid_box","message":"bboxes[2] is inverted","param":"bboxes[2]",)"
            R"("request_id":"r1"}})");
  EXPECT_EQ(ErrorDocument({Code::kBusy, "full", ""}, "", true),
            R"({"error":{"code":"busy","message":"full","param":null},"detail":"full"})");
  EXPECT_THAT(ErrorDocument({Code::kInternal, "no answer", ""}, "", true),
              HasSubstr(R"("detail":"InternalError: no answer")"));
  EXPECT_THAT(ErrorDocument({Code::kCorruptWeights, "no answer", ""}, "", true),
              HasSubstr(R"("detail":"CorruptWeightsError: no answer")"));
}

TEST(ErrorDocument, IsAlwaysUtf8) {
  const std::string text = ErrorDocument({Code::kInvalidRequest, "a\xff\n\"b", "\xc3"}, "r", true);
  EXPECT_TRUE(nlohmann::json::accept(text)) << text;
}

TEST(OtherDocuments, Health) {
  EXPECT_EQ(HealthDocument("ok", "gaze-lle", "CPU AVX2, 2 threads"),
            R"({"status":"ok","model":"gaze-lle","device":"CPU AVX2, 2 threads"})");
}

TEST(OtherDocuments, Models) {
  EXPECT_EQ(ModelsDocument("gaze-lle", 17),
            R"({"object":"list","data":[{"id":"gaze-lle","object":"model","created":17,"owned_by":"sightline"}]})");
}

TEST(OtherDocuments, Info) {
  GazeEngineInfo info;
  info.device = "CPU AVX2, 2 threads";
  info.backend = "cpu";
  info.isa = "avx2";
  info.threads = 2;
  info.dimensions = {.width = 768, .depth = 12, .heads = 12, .inout = true};
  const Json document = Json::parse(InfoDocument({}, info));
  std::vector<std::string> keys;
  for (const auto& item : document.items()) keys.push_back(item.key());
  EXPECT_THAT(keys, ElementsAre("model", "task", "io", "hardware", "precision", "profile", "weights", "limits",
                                "license", "version"));
  EXPECT_EQ(document["hardware"].dump(),
            R"({"backend":"cpu","device":"CPU AVX2, 2 threads","isa":"avx2","threads":2})");
  EXPECT_EQ(document["limits"]["max_heads"], 10);
  EXPECT_EQ(document["weights"]["variant"], "vitb14");
  EXPECT_TRUE(document["weights"]["repo"].is_null());
  EXPECT_TRUE(document["io"]["input"].is_object());
  EXPECT_TRUE(document["io"]["input"]["bbox_format"].is_array());
}

TEST(AccessLog, OneLineWhateverIsAsked) {
  HttpRequest request;
  request.method = "GET";
  request.peer = "127.0.0.1:1";
  request.path = "/a\"b\nc status=200 \xff" + std::string(10'000, 'x');
  HttpResponse response;
  response.status = 404;
  const std::string line = AccessLogLine(request, response, {1, 2, 3.14159, true}, {"id1", "not_found", 2.5});
  EXPECT_THAT(line,
              ::testing::StartsWith(R"(request id=id1 peer=127.0.0.1:1 method=GET path="/a\"b\x0ac status=200 \xff)"));
  EXPECT_THAT(line, HasSubstr("...\" status=404 code=not_found bytes_in=1 bytes_out=2 total_ms=3.14"));
  EXPECT_THAT(line, HasSubstr(" inference_ms=2.50 client_left=true"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_LT(line.size(), 600u);
}

TEST(MetricsText, CountsAndGauges) {
  Metrics metrics("gaze-lle");
  metrics.CountRequest("/predict", 200, "ok", 20);
  metrics.CountRequest("/predict", 200, "ok", 20);
  metrics.CountRequest("other", 404, "not_found", 1);
  metrics.CountAnswer({{"read", 1}, {"encode", 5}});
  Metrics::Snapshot now;
  now.ready = true;
  now.load.admitted = 3;
  now.load.scene_cache_hits = 7;
  now.http.disconnected = 50;
  const std::string text = metrics.Text(now);
  EXPECT_EQ(metrics.Text(now).size(), text.size());  // totals are not added twice
  EXPECT_THAT(text, AllOf(HasSubstr("sightline_requests_total{code=\"ok\",route=\"/predict\",status=\"200\"} 2\n"),
                          HasSubstr("sightline_requests_total{code=\"not_found\",route=\"other\",status=\"404\"} 1\n"),
                          HasSubstr("sightline_request_duration_seconds_bucket{route=\"/predict\",le=\"0.025\"} 2\n"),
                          HasSubstr("sightline_stage_duration_seconds_count{stage=\"encode\"} 1\n")));
  EXPECT_THAT(text, AllOf(HasSubstr("sightline_ready 1\n"), HasSubstr("sightline_requests_admitted 3\n"),
                          HasSubstr("sightline_scene_cache_hits_total 7\n"),
                          HasSubstr("sightline_requests_cancelled_total 50\n"),
                          HasSubstr("# TYPE sightline_resident_memory_bytes gauge\n")));
}

}  // namespace
}  // namespace sightline
