// Documents: YAML 1.1 with PyYAML's types, JSON as Python writes it, and what neither may cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "package/package.h"

namespace sightline {
namespace {

using ::testing::HasSubstr;

std::string Read(std::string_view text) {
  const auto value = ParseYaml(text, "a.yaml");
  return value ? ToJson(*value, -1) : "refused: " + value.error().message;
}

// As PyYAML 6.0.4 reads each.
TEST(PackageYaml, PlainScalarsHaveTheTypesOfYaml11) {
  const std::pair<const char*, const char*> cases[] = {
      {"010", "8"},
      {"0x1F", "31"},
      {"0b101", "5"},
      {"1_000", "1000"},
      {"1:30", "90"},
      {"-1:30:59", "-5459"},
      {"1:60", "\"1:60\""},
      {"190:20:30.15", "685230.15"},
      {"08", "\"08\""},
      {"0o10", "\"0o10\""},
      {"5.1", "5.1"},
      {"1e5", "\"1e5\""},
      {"1.5e5", "\"1.5e5\""},
      {"1.5e+5", "150000.0"},
      {".5", "0.5"},
      {"-.5", "\"-.5\""},
      {"yes", "true"},
      {"No", "false"},
      {"ON", "true"},
      {"off", "false"},
      {"y", "\"y\""},
      {"~", "null"},
      {"Null", "null"},
      {"nUll", "\"nUll\""},
      {"+12", "12"},
      {"-0", "0"},
      {"1.", "1.0"},
      {"p150x4", "\"p150x4\""},
      {"\"010\"", "\"010\""},
      {"'yes'", "\"yes\""},
      {"!!str 010", "\"010\""},
      {"!!int \"12\"", "12"},
      {"", "null"},
      {"[]", "[]"},
      {"{}", "{}"},
      {"2001-1-1", "\"2001-1-1\""},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(Read(text), expected) << text;
}

TEST(PackageYaml, RefusesWhatCannotBeKept) {
  const std::pair<const char*, const char*> cases[] = {
      {"a: 9223372036854775808", "no integer of 64 bits"},
      {"a: 2026-09-13", "is a date"},
      {"a: 1\nb: 2\na: 3", "a is given twice, before on line 1"},
      {"1: a", "key is expected to be text"},
      {"on: a", "key is expected to be text"},
      {"a: !!python/object x", "tag"},
      {"a: 1\n---\nb: 2", "second document"},
      {"a: [1,", "not valid YAML"},
      {"a: *nothing", "not valid YAML"},
      {"a: &x [*x]", "inside of what it repeats"},
      {"a: \x01", "printable"},
      {"a: \xFF", "UTF-8"},
      {"[a]: b", "key"},
  };
  for (const auto& [text, expected] : cases) EXPECT_THAT(Read(text), HasSubstr(expected)) << text;
}

TEST(PackageYaml, SaysOnWhichLine) {
  const auto value = ParseYaml("a: 1\nb:\n  c: 2026-09-13\n", "tt-model.yaml");
  ASSERT_FALSE(value.has_value());
  EXPECT_THAT(value.error().message, HasSubstr("tt-model.yaml:3: "));
}

TEST(PackageYaml, AliasesAndMergeKeys) {
  EXPECT_EQ(Read("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3"), R"({"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}})");
  EXPECT_EQ(Read("a: &x [1, 2]\nb: [*x, *x]"), R"({"a": [1, 2], "b": [[1, 2], [1, 2]]})");
}

TEST(PackageYaml, RefusesBombs) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    std::string line = "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) line += before + ", ";
    laughs += line + "]\n";
  }
  EXPECT_THAT(Read(laughs), HasSubstr("values"));
  EXPECT_THAT(Read(std::string(65, '[') + std::string(65, ']')), HasSubstr("levels deep"));
  EXPECT_THAT(Read(std::string(200'000, '[')), HasSubstr("refused"));
  EXPECT_THAT(Read("a: " + std::string((1u << 20) + 1, 'x')), HasSubstr("bytes"));
  std::string text = "a: &t " + std::string(1000, 'x') + "\nb: [";
  for (int i = 0; i < 20'000; ++i) text += "*t,";
  EXPECT_THAT(Read(text + "]"), HasSubstr("too much text"));
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(Read(wide), HasSubstr("keys"));
}

TEST(PackageJson, OnOneLineIsPythons) {
  const auto value = ParseJson(R"({"b":[1,2.0,1e-7,1e22,true,null],"a":{"é":"ü\n\"\\"},"e":{},"l":[]})", "x");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(ToJson(*value, -1),
            R"({"b": [1, 2.0, 1e-07, 1e+22, true, null], "a": {"\u00e9": "\u00fc\n\"\\"}, "e": {}, "l": []})");
}

TEST(PackageJson, IndentedLeavesTextAsItIs) {
  const auto value = ParseJson(R"({"a":{"é":"😀"},"b":[],"c":[1,{}]})", "x");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(ToJson(*value, 2),
            "{\n  \"a\": {\n    \"é\": \"😀\"\n  },\n  \"b\": [],\n  \"c\": [\n    1,\n    {}\n  ]\n}");
}

TEST(PackageJson, RefusesWhatIsBrokenOrTooMuch) {
  for (const std::string& text :
       {std::string("{"), std::string("{} x"), std::string(R"({"a":1,"a":2})"), std::string("\"\xFF\""),
        std::string(73, '[') + std::string(73, ']'), std::string(300'000, '[')}) {
    EXPECT_FALSE(ParseJson(text, "x").has_value()) << text.substr(0, 40);
  }
}

TEST(PackageShell, QuotesAsAShellReads) {
  EXPECT_EQ(ShellQuote("a_@%+=:,./-Z9"), "a_@%+=:,./-Z9");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("it's"), "'it'\"'\"'s'");
  EXPECT_EQ(ShellQuote("$(x)"), "'$(x)'");
  for (const char c : std::string(" \t\n!\"#$&()*;<>?[\\]^`{|}~")) {
    EXPECT_EQ(ShellQuote(std::string("a") + c), "'a" + std::string(1, c) + "'");
  }
  EXPECT_EQ(ShellQuote("ü"), "'ü'");
  const std::vector<std::string> words = {"a", "b c", ""};
  EXPECT_EQ(ShellJoin(words), "a 'b c' ''");
}

}  // namespace
}  // namespace sightline
