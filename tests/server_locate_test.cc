// The LocateAnything server's schema, documents and settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "server/server.h"
#include "src/server/documents.h"
#include "src/server/locate_fields.h"
#include "src/server/locate_settings.h"

namespace sightline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// ---------------------------------------------------------------------------------------------------------------------
// Fields

LocateLimits Limits() {
  LocateLimits limits;
  limits.scaling.grid = PatchGrid{24, 44};
  return limits;
}

Result<LocateFields> Parse(std::string body) { return ParseLocateFields(body, Limits()); }

Error Refused(const std::string& body) {
  const auto fields = Parse(body);
  return fields ? Error{Code::kInternal, "accepted", ""} : fields.error();
}

TEST(LocateFields, DefaultsAreTheSeeds) {
  const auto fields = Parse(R"({"image": "Zm9v", "query": "person</c>car"})");
  ASSERT_TRUE(fields) << fields.error().message;
  ASSERT_EQ(fields->files.size(), 1u);
  EXPECT_EQ(fields->files[0].size(), 3u);
  EXPECT_EQ(fields->question.task, LocateTask::kDetect);
  EXPECT_THAT(fields->question.query, ElementsAre("person</c>car"));
  EXPECT_EQ(fields->query, "person</c>car");
  EXPECT_EQ(fields->scaling.token_limit, 1024);
  EXPECT_EQ(fields->scaling.grid, (PatchGrid{24, 44}));
  EXPECT_EQ(fields->generation.mode, DecodingMode::kSlow);
  EXPECT_EQ(fields->generation.max_new_tokens, 128);
  EXPECT_EQ(fields->generation.sampling.temperature, 0);
  EXPECT_FALSE(fields->return_overlay);
  EXPECT_TRUE(fields->warnings.empty());
}

TEST(LocateFields, EveryField) {
  const auto fields = Parse(R"({"images":["Zm9v","YmFy"],"query":["red car","dog"],"max_new_tokens":1024,
      "return_overlay":true,"task":"detect","mode":"hybrid","temperature":0.7,"top_p":0.9,"top_k":40,
      "repetition_penalty":1.1,"seed":9007199254740992,"in_token_limit":4096,"grid":"30x20","colour":1})");
  ASSERT_TRUE(fields) << fields.error().message;
  EXPECT_EQ(fields->files.size(), 2u);
  EXPECT_THAT(fields->question.query, ElementsAre("red car", "dog"));
  EXPECT_EQ(fields->query, "red car</c>dog");
  EXPECT_EQ(fields->generation.max_new_tokens, 1024);
  EXPECT_TRUE(fields->return_overlay);
  EXPECT_EQ(fields->generation.mode, DecodingMode::kHybrid);
  EXPECT_EQ(fields->generation.sampling.temperature, 0.7);
  EXPECT_EQ(fields->generation.sampling.top_p, 0.9);
  EXPECT_EQ(fields->generation.sampling.top_k, 40);
  EXPECT_EQ(fields->generation.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(fields->generation.sampling.seed, uint64_t{1} << 53);
  EXPECT_EQ(fields->scaling.token_limit, 4096);
  EXPECT_EQ(fields->scaling.grid, (PatchGrid{30, 20}));
  ASSERT_EQ(fields->warnings.size(), 1u);
  EXPECT_EQ(fields->warnings[0].param, "colour");
}

// A grid is a grid; a limit alone keeps the picture's aspect.
TEST(LocateFields, ScalingFollowsFromWhatIsGiven) {
  const auto scaling = [](const std::string& more) {
    return Parse(R"({"image":"Zm9v","query":"car")" + more + "}")->scaling;
  };
  EXPECT_EQ(scaling(R"(,"grid":null,"in_token_limit":null)").grid, (PatchGrid{24, 44}));
  EXPECT_EQ(scaling(R"(,"in_token_limit":600)").token_limit, 600);
  EXPECT_EQ(scaling(R"(,"in_token_limit":600)").grid, std::nullopt);
  EXPECT_EQ(scaling(R"(,"grid":"native")").grid, std::nullopt);
  EXPECT_EQ(scaling(R"(,"grid":"native")").token_limit, 1024);
  EXPECT_EQ(scaling(R"(,"grid":"10x12","in_token_limit":600)").grid, (PatchGrid{10, 12}));
}

TEST(LocateFields, NullIsAbsent) {
  EXPECT_TRUE(Parse(R"({"image":"Zm9v","query":"car","images":null})"));
  EXPECT_TRUE(Parse(R"({"image":null,"query":"car","images":["Zm9v"]})"));
  EXPECT_TRUE(Parse(R"({"image":"Zm9v","query":null,"task":"read_text"})"));
  EXPECT_EQ(Refused(R"({"query":"car","images":null})").code, Code::kMissingField);
  EXPECT_EQ(Refused(R"({"image":null,"query":"car"})").message, "image is null, expected a picture as base64 text");
  EXPECT_THAT(Refused(R"({"image":"Zm9v","query":"car","images":null,"images":null})").message, HasSubstr("twice"));
}

TEST(LocateFields, QueryIsCountedInCharacters) {
  std::string cats;
  for (int i = 0; i < 1000; ++i) cats += "\xf0\x9f\x90\x88";
  EXPECT_TRUE(Parse(R"({"image":"Zm9v","query":")" + cats + "\"}"));
  EXPECT_THAT(Refused(R"({"image":"Zm9v","query":")" + cats + "x\"}").message,
              HasSubstr("query has 1001 characters, expected 1 to 1000"));
}

TEST(LocateFields, ReadingTextNeedsNoQuery) {
  for (const char* query : {"", R"(,"query":"")", R"(,"query":[])"}) {
    const auto fields = Parse(R"({"image":"Zm9v","task":"read_text")" + std::string(query) + "}");
    ASSERT_TRUE(fields) << query << fields.error().message;
    EXPECT_TRUE(fields->question.query.empty());
  }
}

TEST(LocateFields, ErrorsNameTheField) {
  const std::string start = R"({"image":"Zm9v","query":"car",)";
  const struct {
    std::string body;
    Code code;
    std::string message, param;
  } cases[] = {
      {R"({"query":"car"})", Code::kMissingField, "image is missing", "image"},
      {R"({"image":"Zm9v"})", Code::kMissingField, "query is missing, expected a text of 1 to 1000", "query"},
      {R"({"image":"Zm9v","query":""})", Code::kInvalidRequest, "query has 0 characters", "query"},
      {R"({"image":"Zm9v","query":[]})", Code::kInvalidRequest, "query has 0 characters", "query"},
      {R"({"image":"Zm9v","query":null})", Code::kInvalidRequest, "query is null, expected a text", "query"},
      {R"({"image":"Zm9v","query":5})", Code::kInvalidRequest, "query is a number", "query"},
      {R"({"image":"Zm9v","query":["a",5]})", Code::kInvalidRequest, "query[1] is a number", "query[1]"},
      {R"({"image":"Zm9v","query":["a","b</c>c"]})", Code::kInvalidRequest, "query[1] holds </c>", "query[1]"},
      {R"({"image":"","query":"car"})", Code::kImageEmpty, "image is empty", "image"},
      {R"({"image":["Zm9v"],"query":"car"})", Code::kInvalidRequest, "image is a list", "image"},
      {R"({"images":[],"query":"car"})", Code::kInvalidRequest, "images is empty", "images"},
      {R"({"images":["Zm9v","!"],"query":"car"})", Code::kInvalidBase64, "", "images[1]"},
      {R"({"images":["Zm9v"],"image":"Zm9v","query":"car"})", Code::kInvalidRequest, "both given", "images"},
      {R"({"images":["YQ","YQ","YQ","YQ","YQ","YQ","YQ","YQ","YQ"],"query":"car"})", Code::kInvalidRequest,
       "images has more than 8 pictures", "images"},
      {start + R"("max_new_tokens":0})", Code::kInvalidRequest, "from 1 to 1024", "max_new_tokens"},
      {start + R"("max_new_tokens":1025})", Code::kInvalidRequest, "max_new_tokens is 1025", "max_new_tokens"},
      {start + R"("max_new_tokens":1.5})", Code::kInvalidRequest, "whole number", "max_new_tokens"},
      {start + R"("max_new_tokens":"9"})", Code::kInvalidRequest, "is a text", "max_new_tokens"},
      {start + R"("return_overlay":1})", Code::kInvalidRequest, "return_overlay is a number", "return_overlay"},
      {start + R"("task":"count"})", Code::kInvalidRequest, "expected detect, ground_one", "task"},
      {start + R"("mode":"ar"})", Code::kInvalidRequest, "expected hybrid, fast or slow", "mode"},
      {start + R"("temperature":-1})", Code::kInvalidRequest, "temperature is -1", "temperature"},
      {start + R"("top_p":0})", Code::kInvalidRequest, "top_p is 0", "top_p"},
      {start + R"("top_k":-1})", Code::kInvalidRequest, "top_k is -1", "top_k"},
      {start + R"("repetition_penalty":0})", Code::kInvalidRequest, "repetition_penalty is 0", "repetition_penalty"},
      {start + R"("seed":-1})", Code::kInvalidRequest, "seed is -1", "seed"},
      {start + R"("in_token_limit":3})", Code::kInvalidRequest, "from 4 to 25600", "in_token_limit"},
      {start + R"("grid":"23x44"})", Code::kInvalidRequest, "grid is '23x44', expected native or rows", "grid"},
      {start + R"("grid":"24x512"})", Code::kInvalidRequest, "both even and at most 510", "grid"},
      {start + R"("grid":[24,44]})", Code::kInvalidRequest, "grid is a list, expected a text", "grid"},
      {start + R"("query":"car"})", Code::kInvalidRequest, "'query' is given twice", "query"},
  };
  for (const auto& row : cases) {
    const Error error = Refused(row.body);
    EXPECT_EQ(error.code, row.code) << row.body << "\n" << error.message;
    EXPECT_THAT(error.message, HasSubstr(row.message)) << row.body;
    EXPECT_EQ(error.param, row.param) << row.body;
  }
}

// What we accept is JSON for another parser too; nothing we are sent brings us down.
TEST(LocateFields, MutationsAreRefusedOrStillJson) {
  const std::string seed =
      R"({"image":"Zm9vYmFy","query":["car","\u732b"],"task":"detect","mode":"fast","top_p":0.5,"seed":7,"x":{"y":[null]}})";
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\",:\\0123456789eE+-.truefalsn \n\x01\xc3";
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = seed;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % body.size();
      const char c = alphabet[random() % alphabet.size()];
      random() % 2 == 0 ? body.insert(at, 1, c) : body.erase(at, 1);
    }
    if (!Parse(body)) continue;
    ++accepted;
    EXPECT_TRUE(Json::accept(body)) << body;
  }
  EXPECT_GT(accepted, 100);
}

TEST(LocateFields, GridsAreRowsTimesColumns) {
  EXPECT_EQ(*ParseGrid("24x44", "grid"), (PatchGrid{24, 44}));
  EXPECT_EQ(*ParseGrid("native", "grid"), std::nullopt);
  for (const char* bad : {"", "x", "24", "24x", "x44", "24x44x2", "24 x44", "-2x44", "0x44", "2x999999", "24X44"}) {
    EXPECT_FALSE(ParseGrid(bad, "grid")) << bad;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Documents

LocatePlace Place(LocateFinding::Kind kind, std::optional<std::string> label, std::array<int, 4> thousandths,
                  double score) {
  LocatePlace place;
  place.finding = {kind, std::move(label), thousandths, {}, score};
  place.box = {thousandths[0] / 1000.0 * 640, thousandths[1] / 1000.0 * 480, thousandths[2] / 1000.0 * 640,
               thousandths[3] / 1000.0 * 480};
  place.point = {place.box.x1, place.box.y1};
  return place;
}

LocateAnswer CarAndDog() {
  LocateAnswer answer;
  answer.width = 640;
  answer.height = 480;
  answer.pictures = {{{24, 44}, true}};
  answer.places = {Place(LocateFinding::Kind::kBox, " car\n", {250, 500, 1000, 1000}, 0.98765),
                   Place(LocateFinding::Kind::kPoint, std::nullopt, {500, 250, 500, 250}, 0.5)};
  answer.categories = {{"car", CategoryStatus::kFound, 1}, {"cat", CategoryStatus::kNotAnswered, 0}};
  answer.text = "<ref>car</ref>";
  answer.generation.ids = {1, 2, 3};
  answer.generation.forwards = 2;
  answer.mode = DecodingMode::kSlow;
  answer.image_tokens = 264;
  answer.prompt_tokens = 303;
  answer.cached_tokens = 284;
  answer.gflop = 1.25;
  answer.prepare_ms = 1;
  answer.vision_ms = 2;
  answer.prefill_ms = 3;
  answer.decode_ms = 4;
  answer.wait_ms = 5;
  return answer;
}

LocateDocumentOptions CarOptions() {
  LocateDocumentOptions options;
  options.query = "car</c>cat";
  options.pictures = {{"jpeg", 640, 480, 6, "ab", {"exif_orientation: it was turned"}}};
  options.request_id = "r1";
  return options;
}

// Keys in the order of the seed, then ours.
TEST(LocateDocument, IsTheSeedsAndMore) {
  EXPECT_EQ(
      LocateDocument(CarAndDog(), {}, CarOptions()),
      R"({"query":"car</c>cat","width":640,"height":480,"canonical_size":[616,336],"grid_hw":[24,44],)"
      R"("num_image_tokens":264,"prompt_tokens":303,"prefill_tokens":512,"raw_text":"<ref>car</ref>",)"
      R"("detections":[{"label":"car","box":[160.0,240.0,640.0,480.0],"box_norm":[250,500,1000,1000],"score":0.9877}],)"
      R"("points":[{"label":null,"point":[320.0,120.0],"point_norm":[500,250],"score":0.5}],)"
      R"("num_generated_tokens":3,"stopped_on_eos":true,"decode_mode":"ar_greedy",)"
      R"("timing_ms":{"vision":2.0,"prefill":3.0,"decode":4.0,"total":10.0,"decode_tok_s":500.0,"wait":5.0},)"
      R"("overlay_png_b64":null,"task":"detect","mode":"slow","finish_reason":"stop","score_type":"token_prob",)"
      R"("categories":[{"name":"car","status":"found","count":1},{"name":"cat","status":"not_answered","count":0}],"malformed":0,)"
      R"("token_ids":[1,2,3],"forwards":2,"estimated_gflop":1.2,"cached":{"pictures":1,"prompt_tokens":284},)"
      R"("warnings":[{"code":"exif_orientation","message":"it was turned","param":"image"}],)"
      R"("images":[{"format":"jpeg","width":640,"height":480,"exif_orientation":6,"sha256":"ab","grid_hw":[24,44]}],)"
      R"("request_id":"r1"})");
}

TEST(LocateDocument, NamesHowItWasDecodedAndHowItEnded) {
  LocateAnswer answer = CarAndDog();
  LocateDocumentOptions options = CarOptions();
  const auto document = [&] { return Json::parse(LocateDocument(answer, {}, options)); };
  options.sampled = true;
  EXPECT_EQ(document()["decode_mode"], "ar_sampled");
  answer.mode = DecodingMode::kHybrid;
  EXPECT_EQ(document()["decode_mode"], "mtp_hybrid");
  answer.mode = DecodingMode::kFast;
  EXPECT_EQ(document()["decode_mode"], "mtp_fast");
  answer.generation.finish_reason = FinishReason::kLength;
  EXPECT_EQ(document()["stopped_on_eos"], false);
  EXPECT_EQ(document()["finish_reason"], "length");
  answer.generation.finish_reason = FinishReason::kLoop;
  EXPECT_EQ(document()["finish_reason"], "loop");
}

TEST(LocateDocument, PrefillIsPaddedAsTheSeedPads) {
  LocateAnswer answer = CarAndDog();
  const auto padded = [&](int64_t tokens) {
    answer.prompt_tokens = tokens;
    return Json::parse(LocateDocument(answer, {}, CarOptions()))["prefill_tokens"].get<int>();
  };
  EXPECT_EQ(padded(40), 128);
  EXPECT_EQ(padded(128), 128);
  EXPECT_EQ(padded(129), 256);
  EXPECT_EQ(padded(512), 512);
  EXPECT_EQ(padded(513), 1024);
}

TEST(LocateDocument, EmptyAnswersSayWhy) {
  LocateAnswer answer;
  answer.pictures = {{{2, 2}, false}};
  answer.empty_reason = "there is none";
  answer.generation.ids = {7};
  LocateEngineInfo info;
  info.synthetic = true;
  LocateDocumentOptions options = CarOptions();
  options.overlay = {std::byte{1}, std::byte{2}, std::byte{3}};
  const Json document = Json::parse(LocateDocument(answer, info, options));
  EXPECT_EQ(document["detections"], Json::array());
  EXPECT_EQ(document["points"], Json::array());
  EXPECT_EQ(document["empty_reason"], "there is none");
  EXPECT_EQ(document["timing_ms"]["decode_tok_s"], 0.0);
  EXPECT_EQ(document["overlay_png_b64"], "AQID");
  EXPECT_EQ(document["synthetic_weights"], true);
  EXPECT_FALSE(document.contains("categories"));
}

// A label of a model may hold anything; the document stays JSON in UTF-8.
TEST(LocateDocument, LabelsMayHoldAnything) {
  LocateAnswer answer = CarAndDog();
  answer.places[0].finding.label = "\"\\\n\x01 \xff\xc3";
  answer.text = "\xf0\x9f\x90";
  const std::string text = LocateDocument(answer, {}, CarOptions());
  EXPECT_TRUE(Json::accept(text)) << text;
}

TEST(LocateInfo, SaysWhatTheSeedSays) {
  LocateServerOptions options;
  const auto settings = ResolveLocateSettings(options, {});
  ASSERT_TRUE(settings);
  LocateEngineInfo info;
  info.device = "CPU AVX2, 2 threads";
  info.repo = "nvidia/LocateAnything-3B";
  const Json document = Json::parse(InfoDocument(options, *settings, info));
  for (const char* key : {"model", "task", "io", "hardware", "decode_mode", "precision", "weights", "source", "limits",
                          "fused", "license", "version"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
  EXPECT_EQ(document["decode_mode"], "ar_greedy");
  EXPECT_EQ(document["weights"]["repo"], "nvidia/LocateAnything-3B");
  EXPECT_EQ(document["limits"]["canonical_grid"], (Json{24, 44}));
  EXPECT_EQ(document["limits"]["canonical_size"], (Json{616, 336}));
  EXPECT_EQ(document["limits"]["in_token_limit"], 1024);
  EXPECT_EQ(document["limits"]["max_seq_len"], 4096);
  EXPECT_EQ(document["limits"]["max_new_tokens"], 128);
  EXPECT_EQ(document["limits"]["max_new_tokens_cap"], 1024);
  EXPECT_EQ(document["limits"]["max_query_chars"], 1000);
  EXPECT_EQ(document["precision"]["language"], "int8");
}

// ---------------------------------------------------------------------------------------------------------------------
// Settings

TEST(LocateSettings, VariablesAreThoseOfTheSeed) {
  const auto settings = ResolveLocateSettings({}, {{"LA_IN_TOKEN_LIMIT", "4096"},
                                                   {"LA_MAX_SEQ_LEN", "2048"},
                                                   {"LA_MAX_NEW_TOKENS", "64"},
                                                   {"LA_MAX_NEW_TOKENS_CAP", "256"},
                                                   {"LA_WARMUP_RUNS", "0"},
                                                   {"LA_MODEL_PATH", "/models/b"},
                                                   {"LA_LLM_DIR", "/llm"},
                                                   {"LA_FORCE_EXTRACT", "1"}});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->limits.scaling.token_limit, 4096);
  EXPECT_EQ(settings->limits.scaling.grid, (PatchGrid{48, 86}));  // 16:9 at that limit
  EXPECT_EQ(settings->max_sequence, 2048);
  EXPECT_EQ(settings->limits.max_new_tokens, 64);
  EXPECT_EQ(settings->limits.max_new_tokens_cap, 256);
  EXPECT_EQ(settings->warmup_runs, 0);
  EXPECT_EQ(settings->weights.folder, "/models/b");
  EXPECT_EQ(settings->language_folder, "/llm");
  EXPECT_TRUE(settings->extract_again);
  EXPECT_TRUE(settings->notes.empty());
}

TEST(LocateSettings, OptionsWinOverVariables) {
  LocateServerOptions options;
  options.token_limit = 512;
  options.grid = "native";
  options.weights.folder = "/models/a";
  options.max_new_tokens = 5;
  const auto settings = ResolveLocateSettings(options, {{"LA_IN_TOKEN_LIMIT", "4096"},
                                                        {"LA_CANON_GRID", "2x2"},
                                                        {"LA_WEIGHTS_DIR", "/models/b"},
                                                        {"LA_MAX_NEW_TOKENS", "64"}});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->limits.scaling.token_limit, 512);
  EXPECT_EQ(settings->limits.scaling.grid, std::nullopt);
  EXPECT_EQ(settings->weights.folder, "/models/a");
  EXPECT_EQ(settings->limits.max_new_tokens, 5);
}

TEST(LocateSettings, CanonicalGridFollowsTheAspect) {
  const auto grid = [](const Environment& environment) {
    return ResolveLocateSettings({}, environment)->limits.scaling.grid;
  };
  EXPECT_EQ(grid({}), (PatchGrid{24, 44}));
  EXPECT_EQ(grid({{"LA_CANON_ASPECT", "1080x1920"}}), (PatchGrid{44, 24}));
  EXPECT_EQ(grid({{"LA_CANON_ASPECT", "1000x1000"}}), (PatchGrid{34, 34}));
  EXPECT_EQ(grid({{"LA_CANON_ASPECT", "1x1"}, {"LA_CANON_GRID", "10x20"}}), (PatchGrid{10, 20}));
}

TEST(LocateSettings, WrongVariablesAreNamed) {
  for (const auto& [name, value] : Environment{{"LA_IN_TOKEN_LIMIT", "0"},
                                               {"LA_MAX_SEQ_LEN", "many"},
                                               {"LA_MAX_NEW_TOKENS", "1e3"},
                                               {"LA_CANON_GRID", "23x44"},
                                               {"LA_CANON_ASPECT", "16:9"},
                                               {"LA_WARMUP_RUNS", "-1"}}) {
    const auto settings = ResolveLocateSettings({}, {{name, value}});
    ASSERT_FALSE(settings) << name;
    EXPECT_EQ(settings.error().code, Code::kUsage);
    EXPECT_THAT(settings.error().message, HasSubstr(name));
  }
  const auto above = ResolveLocateSettings({}, {{"LA_MAX_NEW_TOKENS", "2000"}});
  ASSERT_FALSE(above);
  EXPECT_THAT(above.error().message, HasSubstr("2000 by default, but 1024 at most"));
}

TEST(LocateSettings, DeviceVariablesGetOneLine) {
  const auto settings = ResolveLocateSettings({}, {{"LA_FUSED_MATMUL", "minimal"}, {"LA_PREC", "x"}, {"TT_ANY", ""}});
  ASSERT_TRUE(settings);
  EXPECT_THAT(settings->notes, ElementsAre("without effect on a CPU: LA_FUSED_MATMUL, LA_PREC, TT_ANY"));
}

}  // namespace
}  // namespace sightline
