#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "server/server.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;

std::string Bytes(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Decoded(std::string_view text) {
  const auto bytes = DecodeImageText(text);
  return bytes ? Bytes(*bytes) : "error: " + bytes.error().message;
}

Error Refused(std::string_view text) {
  const auto bytes = DecodeImageText(text);
  return bytes ? Error{Code::kInternal, "accepted", ""} : bytes.error();
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// RFC 4648, section 10.
TEST(Base64, KnownTexts) {
  for (const auto& [plain, text] : {std::pair{"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(Decoded(text), plain);
    EXPECT_EQ(EncodeBase64(AsBytes(std::string_view(plain))), text);
  }
  EXPECT_EQ(EncodeBase64({}), "");
}

TEST(Base64, EveryLengthComesBack) {
  std::mt19937 random(1);
  for (size_t length = 1; length < 300; ++length) {
    std::string bytes(length, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    std::string text = EncodeBase64(AsBytes(bytes));
    EXPECT_EQ(Decoded(text), bytes);
    while (text.back() == '=') text.pop_back();
    EXPECT_EQ(Decoded(text), bytes);
    for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
    EXPECT_EQ(Decoded(text), bytes);
    for (size_t i = text.size(); i-- > 0;) text.insert(i, i % 3 == 0 ? "\r\n" : " ");
    EXPECT_EQ(Decoded(text), bytes);
  }
}

TEST(Base64, ErrorsNameTheCause) {
  EXPECT_EQ(Refused("Zm9!").message, "image is not base64: byte 3 is '!'");
  EXPECT_EQ(Refused("Zm\x01v").message, "image is not base64: byte 2 is 0x01");
  EXPECT_EQ(Refused("data:image/png;base64,Zm9!").message, "image is not base64: byte 25 is '!'");
  EXPECT_THAT(Refused("Zm9vY").message, HasSubstr("one digit is left over"));
  EXPECT_THAT(Refused("Zm9vYg=").message, HasSubstr("one '=' short"));
  EXPECT_THAT(Refused("Zg==Zg==").message, HasSubstr("more after the padding, byte 4 is 'Z'"));
  EXPECT_THAT(Refused("Z===").message, HasSubstr("unexpected padding"));
  EXPECT_THAT(Refused("Zm9v=").message, HasSubstr("unexpected padding"));
  EXPECT_THAT(Refused("Zm9vYg===").message, HasSubstr("unexpected padding"));
  EXPECT_THAT(Refused("Zh==").message, HasSubstr("bits beyond the last byte"));
  EXPECT_THAT(Refused("ab-/").message, HasSubstr("mixes the standard and the URL-safe alphabet, byte 3"));
  EXPECT_THAT(Refused("data:image/png;base64").message, HasSubstr("no comma"));
  EXPECT_THAT(Refused("data:image/png,Zg==").message, HasSubstr("does not say ';base64'"));
  EXPECT_THAT(Refused("data:,").message, HasSubstr("does not say ';base64'"));
  for (const char* url : {"https://example.org/a.png", "HTTP://x", " ftp://x/y", "file:///etc/passwd"}) {
    EXPECT_EQ(Refused(url).code, Code::kImageUrlNotAllowed) << url;
  }
  for (const char* empty : {"", " \n", "data:;base64,", "data:image/png;base64, "}) {
    EXPECT_EQ(Refused(empty).code, Code::kImageEmpty) << empty;
  }
  EXPECT_EQ(Refused("!").param, "image");
}

TEST(Base64, EveryTruncationIsAnAnswer) {
  const std::string text = "data:image/png;base64,Zm9v\nYmFy-_8=";
  for (size_t length = 0; length <= text.size(); ++length) {
    const auto bytes = DecodeImageText(text.substr(0, length));
    EXPECT_TRUE(bytes || !bytes.error().message.empty());
  }
}

// The image fields of the manifest: each accepted or refused as it says.
TEST(Base64, Manifest) {
  const std::filesystem::path folder = std::filesystem::path(SIGHTLINE_TEST_DATA) / "images/awkward";
  const auto manifest = nlohmann::json::parse(ReadAll(folder / "manifest.json"));
  int checked = 0;
  for (const auto& [name, row] : manifest["files"].items()) {
    if (row.value("form", "") != "text") continue;
    ++checked;
    const auto bytes = DecodeImageText(ReadAll(folder / name));
    if (row["expect"] == "accept") {
      ASSERT_TRUE(bytes) << name << ": " << bytes.error().message;
      const auto picture = DecodeImage(*bytes);
      ASSERT_TRUE(picture) << name << ": " << picture.error().message;
      EXPECT_EQ(picture->image.width, row["width"]) << name;
      EXPECT_EQ(picture->image.height, row["height"]) << name;
    } else {
      ASSERT_FALSE(bytes) << name;
      const std::string code(Describe(bytes.error().code).name);
      EXPECT_TRUE(code == row["error"] || code == row.value("may_error", "")) << name << ": " << code;
      if (row.contains("offset")) {
        EXPECT_THAT(bytes.error().message, HasSubstr("byte " + std::to_string(row["offset"].get<int>()))) << name;
      }
    }
  }
  EXPECT_GE(checked, 20);
}

}  // namespace
}  // namespace sightline
