#include "tessera/core/json.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Json, ParsesADocument) {
  const Json value = parse_json(R"({"a": [1, 2.5, null], "b": {"c": "d"}})", "x.json");
  EXPECT_EQ(value["a"][1], 2.5);
  EXPECT_EQ(value["b"]["c"], "d");
}

TEST(Json, OrderedKeepsTheOrderOfKeys) { EXPECT_EQ(parse_ordered_json(R"({"zeta": 1, "alpha": 2})", "x.json").dump(), R"({"zeta":1,"alpha":2})"); }

TEST(Json, ErrorNamesFileAndLine) {
  EXPECT_THAT(error_of([] { parse_json("{\n  \"a\": 1,\n  oops\n}", "config.json"); }), StartsWith("error: config.json:3: not valid JSON"));
}

TEST(Json, ErrorInALineOfJsonlKeepsTheGivenPlace) {
  EXPECT_THAT(error_of([] { parse_json("{\"a\": }", "data.jsonl:17"); }), StartsWith("error: data.jsonl:17: not valid JSON"));
}

TEST(Json, KeyGivenTwiceIsRefusedAtAnyDepth) {
  EXPECT_THAT(error_of([] { parse_json(R"({"a": 1, "a": 2})", "x"); }), HasSubstr("key \"a\" is given twice"));
  EXPECT_THAT(error_of([] { parse_json(R"([{"b": {"c": 1, "d": [{}], "c": 2}}])", "x"); }), HasSubstr("key \"c\" is given twice"));
  EXPECT_THAT(error_of([] { parse_ordered_json(R"({"a": 1, "a": 2})", "x"); }), HasSubstr("given twice"));
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": 2}, {"x": {"a": 3}, "a": 4}])", "x"));
}

TEST(Json, DeepNestingIsRefused) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(200), "x"));
  EXPECT_THAT(error_of([&] { parse_json(nested(300), "x"); }), HasSubstr("nested deeper than 200"));
  EXPECT_THAT(error_of([&] { parse_json(std::string(1'000'000, '['), "x"); }), HasSubstr("nested deeper than 200"));
}

TEST(Json, GarbageIsAUserError) {
  for (const std::string_view text : {"", "{", "[1,]", "nul", "{\"a\" 1}", "\"\xFF\"", "1 2", "{\"a\": 01}", "\"\\ud800\""})
    EXPECT_THAT(error_of([&] { parse_json(text, "x.json"); }), HasSubstr("not valid JSON")) << text;
}

TEST(Json, ReadsAFile) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "good.json", "{\"n\": 3}");
  EXPECT_EQ(read_json_file(directory / "good.json")["n"], 3);
  EXPECT_THAT(error_of([&] { read_json_file(directory / "absent.json"); }), HasSubstr("absent.json"));
}

}  // namespace
}  // namespace tessera
