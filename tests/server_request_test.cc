#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "src/server/gaze_fields.h"
#include "text/text.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;

const std::string kWhole = R"({"image": "Zm9v", "bboxes": [[1, 2.5, 3e1, 40]]})";

Result<GazeFields> Parse(std::string body) { return ParseGazeFields(body, {.max_heads = 3}); }

Error Refused(const std::string& body) {
  const auto request = Parse(body);
  return request ? Error{Code::kInternal, "accepted", ""} : request.error();
}

TEST(GazeFields, FieldsAndDefaults) {
  const auto request = Parse(kWhole);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->file.size(), 3u);
  ASSERT_EQ(request->boxes.size(), 1u);
  EXPECT_EQ(request->boxes[0].x1, 1);
  EXPECT_EQ(request->boxes[0].y1, 2.5);
  EXPECT_EQ(request->boxes[0].x2, 30);
  EXPECT_EQ(request->boxes[0].y2, 40);
  EXPECT_EQ(request->units, BoxUnits::kPixels);
  EXPECT_EQ(request->heatmap_format, HeatmapFormat::kPng);
  EXPECT_FALSE(request->detect_heads);
  EXPECT_EQ(request->max_heads, 3);
  EXPECT_EQ(request->head_threshold, 0.5);
  EXPECT_TRUE(request->warnings.empty());
}

TEST(GazeFields, EveryField) {
  const auto request = Parse(R"( {"heatmap_format":"npz","bbox_format":"normalized","detect_heads":true,"max_heads":2,
      "head_threshold":0.25,"bboxes":[[0,0,1,1],[0,0,0.5,0.5]],"image":"Zm\/v"} )");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->units, BoxUnits::kNormalized);
  EXPECT_EQ(request->heatmap_format, HeatmapFormat::kNpz);
  EXPECT_TRUE(request->detect_heads);
  EXPECT_EQ(request->max_heads, 2);
  EXPECT_EQ(request->head_threshold, 0.25);
  EXPECT_EQ(request->boxes.size(), 2u);
  EXPECT_EQ(static_cast<uint8_t>(request->file[1]), 0x6f | 0x0f);  // the escaped slash counts as a digit
}

TEST(GazeFields, NullIsAbsent) {
  const auto request = Parse(R"({"image":"Zm9v","bboxes":null,"bbox_format":null,"heatmap_format":null,
      "detect_heads":true,"max_heads":null,"head_threshold":null})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->max_heads, 3);
}

TEST(GazeFields, HeadsMayBeLeftToTheDetector) {
  EXPECT_TRUE(Parse(R"({"image":"Zm9v","detect_heads":true})"));
  EXPECT_TRUE(Parse(R"({"image":"Zm9v","detect_heads":true,"bboxes":[]})"));
}

TEST(GazeFields, ByteOrderMarkIsSkipped) { EXPECT_TRUE(Parse("\xef\xbb\xbf" + kWhole)); }

TEST(GazeFields, UnknownFieldsAreNamed) {
  const auto request = Parse(R"({"image":"Zm9v","box":[1,{"a":null}],"bboxes":[[1,2,3,4]],"\u0062\n":"x"})");
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->warnings.size(), 2u);
  EXPECT_EQ(request->warnings[0].code, "unknown_field");
  EXPECT_EQ(request->warnings[0].param, "box");
  EXPECT_EQ(request->warnings[1].param, "b\n");
}

TEST(GazeFields, ErrorsNameTheField) {
  const struct {
    std::string body;
    Code code;
    std::string message, param;
  } cases[] = {
      {R"({"bboxes":[[1,2,3,4]]})", Code::kMissingField, "image is missing", "image"},
      {R"({"image":null,"bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "image is null, expected a text", "image"},
      {R"({"image":["Zm9v"],"bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "image is a list", "image"},
      {R"({"image":"","bboxes":[[1,2,3,4]]})", Code::kImageEmpty, "image is empty", "image"},
      {R"({"image":"Zm9\u0000","bboxes":[[1,2,3,4]]})", Code::kInvalidBase64, "byte 3 is 0x00", "image"},
      {R"({"image":"https://x/y","bboxes":[[1,2,3,4]]})", Code::kImageUrlNotAllowed, "is a URL", "image"},
      {R"({"image":"Zm9v"})", Code::kMissingField, "bboxes is missing, expected 1 to 3 boxes", "bboxes"},
      {R"({"image":"Zm9v","bboxes":null})", Code::kInvalidRequest, "bboxes is empty", "bboxes"},
      {R"({"image":"Zm9v","bboxes":[]})", Code::kInvalidRequest, "bboxes is empty", "bboxes"},
      {R"({"image":"Zm9v","bboxes":[],"detect_heads":false})", Code::kInvalidRequest, "bboxes is empty", "bboxes"},
      {R"({"image":"Zm9v","bboxes":{"a":1}})", Code::kInvalidRequest, "bboxes is an object, expected a list", "bboxes"},
      {R"({"image":"Zm9v","bboxes":[1,2,3,4]})", Code::kInvalidRequest, "bboxes[0] is a number", "bboxes[0]"},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4],[1,2,3]]})", Code::kInvalidRequest, "bboxes[1] has 3", "bboxes[1]"},
      {R"({"image":"Zm9v","bboxes":[[]]})", Code::kInvalidRequest, "bboxes[0] has 0 numbers", "bboxes[0]"},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4,5]]})", Code::kInvalidRequest, "has more than 4 numbers", "bboxes[0]"},
      {R"({"image":"Zm9v","bboxes":[[1,"2",3,4]]})", Code::kInvalidRequest, "bboxes[0][1] is a text", "bboxes[0][1]"},
      {R"({"image":"Zm9v","bboxes":[[1,null,3,4]]})", Code::kInvalidRequest, "bboxes[0][1] is null", "bboxes[0][1]"},
      {R"({"image":"Zm9v","bboxes":[[1,1e999,3,4]]})", Code::kInvalidRequest, "too large", "bboxes[0][1]"},
      {R"({"image":"Zm9v","bboxes":[[1,01,3,4]]})", Code::kInvalidRequest, "malformed number", "bboxes[0][1]"},
      {R"({"image":"Zm9v","bboxes":[[1,NaN,3,4]]})", Code::kInvalidRequest, "not JSON", ""},
      {R"({"image":"Zm9v","bboxes":[[1,-Infinity,3,4]]})", Code::kInvalidRequest, "malformed number", "bboxes[0][1]"},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4],[1,2,3,4],[1,2,3,4],[1,2,3,4]]})", Code::kTooManyBoxes,
       "bboxes has more than 3 boxes", "bboxes"},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"bbox_format":"xywh"})", Code::kInvalidRequest,
       "bbox_format is 'xywh', expected pixels or normalized", "bbox_format"},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"bbox_format":1})", Code::kInvalidRequest, "is a number", "bbox_format"},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"heatmap_format":"jpg"})", Code::kInvalidRequest,
       "heatmap_format is 'jpg', expected png, npz, json or none", "heatmap_format"},
      {R"({"image":"Zm9v","detect_heads":"true"})", Code::kInvalidRequest, "detect_heads is a text", "detect_heads"},
      {R"({"image":"Zm9v","detect_heads":1})", Code::kInvalidRequest, "detect_heads is a number", "detect_heads"},
      {R"({"image":"Zm9v","detect_heads":true,"max_heads":0})", Code::kInvalidRequest, "from 1 to 3", "max_heads"},
      {R"({"image":"Zm9v","detect_heads":true,"max_heads":4})", Code::kInvalidRequest, "max_heads is 4", "max_heads"},
      {R"({"image":"Zm9v","detect_heads":true,"max_heads":1.5})", Code::kInvalidRequest, "whole", "max_heads"},
      {R"({"image":"Zm9v","detect_heads":true,"max_heads":1e300})", Code::kInvalidRequest, "whole", "max_heads"},
      {R"({"image":"Zm9v","detect_heads":true,"head_threshold":1.01})", Code::kInvalidRequest, "from 0 to 1",
       "head_threshold"},
      {R"({"image":"Zm9v","image":"Zm9v","bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "'image' is given twice",
       "image"},
      {R"({"a":1,"a":1,"image":"Zm9v","bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "'a' is given twice", "a"},
      {R"([1])", Code::kInvalidRequest, "is a list, expected a JSON object", ""},
      {R"("text")", Code::kInvalidRequest, "is a text, expected a JSON object", ""},
      {R"(null)", Code::kInvalidRequest, "is null, expected a JSON object", ""},
      {"", Code::kInvalidRequest, "is empty", ""},
      {" \n\t", Code::kInvalidRequest, "is empty", ""},
      {kWhole + "x", Code::kInvalidRequest, "more after its end", ""},
      {kWhole + kWhole, Code::kInvalidRequest, "more after its end", ""},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],})", Code::kInvalidRequest, "not JSON", ""},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4],]})", Code::kInvalidRequest, "not JSON", ""},
      {R"({"image":"Zm9v" "bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "not JSON", ""},
      {R"({'image':'Zm9v'})", Code::kInvalidRequest, "not JSON", ""},
      {R"({"image":"Zm9v":x"","bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "not JSON", ""},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"x":tru})", Code::kInvalidRequest, "not JSON", ""},
      {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"x":"\q"})", Code::kInvalidRequest, "bad escape", ""},
      {R"({"image":"Zm9v\ud800","bboxes":[[1,2,3,4]]})", Code::kInvalidRequest, "bad escape", ""},
      {"{\"image\":\"Zm\n9v\",\"bboxes\":[[1,2,3,4]]}", Code::kInvalidRequest, "control character", ""},
      {R"({"image":"Zm9v)", Code::kInvalidRequest, "not closed", ""},
  };
  for (const auto& row : cases) {
    const Error error = Refused(row.body);
    EXPECT_EQ(error.code, row.code) << row.body << "\n" << error.message;
    EXPECT_THAT(error.message, HasSubstr(row.message)) << row.body;
    EXPECT_EQ(error.param, row.param) << row.body;
  }
}

// llama.cpp #6396: GBK bytes in a request brought the server down.
TEST(GazeFields, OtherEncodingsAreNamedWithTheirOffset) {
  const Error error = Refused("{\"image\":\"Zm9v\",\"bboxes\":[[1,2,3,4]],\"x\":\"\xb0\xa1\"}");
  EXPECT_EQ(error.code, Code::kInvalidUtf8);
  EXPECT_THAT(error.message, HasSubstr("not UTF-8 at byte 42"));
}

TEST(Utf8, InvalidUtf8IsFound) {
  for (const char* good :
       {"", "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x88", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_EQ(FindInvalidUtf8(good), std::string_view::npos) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xc3z", "\xe0\x80\x80", "\xed\xa0\x80", "\xe2\x82",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(FindInvalidUtf8(std::string("ab") + bad), 2u) << bad;
  }
}

TEST(GazeFields, MessagesDoNotRepeatTheRequest) {
  const std::string lots(100'000, 'x');
  for (const std::string& body : {R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"bbox_format":")" + lots + "\"}",
                                  R"({"image":"Zm9v","bboxes":[[1,2,3,4]],"heatmap_format":")" + lots + "\"}",
                                  R"({"image":"Zm9v",")" + lots + "\":1,\"" + lots + "\":1}"}) {
    const Error error = Refused(body);
    EXPECT_EQ(error.code, Code::kInvalidRequest);
    EXPECT_LT(error.message.size(), 200u);
    EXPECT_LT(error.param.size(), 100u);
  }
}

TEST(GazeFields, NestingAndNumberOfFieldsAreBounded) {
  EXPECT_THAT(Refused(R"({"x":)" + std::string(40, '[') + std::string(40, ']') + "}").message, HasSubstr("too deep"));
  EXPECT_THAT(Refused(R"({"x":)" + std::string(1'000'000, '[')).message, HasSubstr("not JSON"));
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += "\"f" + std::to_string(i) + "\":0,";
  EXPECT_THAT(Refused(many + "\"image\":\"Zm9v\"}").message, HasSubstr("more than 32 unknown fields"));
}

TEST(GazeFields, EveryTruncationIsRefused) {
  for (size_t length = 0; length < kWhole.size(); ++length) {
    EXPECT_EQ(Refused(kWhole.substr(0, length)).code, Code::kInvalidRequest) << length;
  }
}

// What we accept is JSON for another parser too; nothing we are sent brings us down.
TEST(GazeFields, MutationsAreRefusedOrStillJson) {
  const std::string seed =
      R"({"image":"Zm9vYmFy","bboxes":[[1,2.5,-3e1,4]],"bbox_format":"pixels","x":{"y":[true,false,null,"\u00e4"]}})";
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\",:\\0123456789eE+-.truefalsn \n\x01\xc3";
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body = seed;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % body.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          body[at] = c;
          break;
        case 1:
          body.insert(at, 1, c);
          break;
        default:
          body.erase(at, 1);
      }
    }
    const auto request = Parse(body);
    if (!request) continue;
    ++accepted;
    EXPECT_TRUE(nlohmann::json::accept(body)) << body;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace sightline
