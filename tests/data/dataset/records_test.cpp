#include "tessera/data/dataset/records.h"

#include <gmock/gmock.h>

#include <random>

#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::data {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class RecordsTest : public ::testing::Test {
 protected:
  Records records_of(std::string_view text, const std::string& name = "data.jsonl") {
    test::write_file(directory_ / name, text);
    return Records({directory_ / name});
  }
  std::string error_in(std::string_view text) {
    return test::error_of([&] {
      const Records records = records_of(text);
      for (std::int64_t index = 0; index < records.size(); ++index) records.record(index);
    });
  }
  test::TemporaryDirectory directory_;
};

TEST_F(RecordsTest, ReadsLines) {
  const Records records = records_of("{\"a\": 1}\r\n\n  \n{\"a\": \"x\\n[{\"}\n{\"a\": 3}");
  ASSERT_EQ(records.size(), 3);
  EXPECT_EQ(records.record(0)["a"], 1);
  EXPECT_EQ(records.record(1)["a"], "x\n[{");
  EXPECT_EQ(records.record(2)["a"], 3);
  EXPECT_THAT(records.where(1), EndsWith("data.jsonl:4"));
}

TEST_F(RecordsTest, ReadsAnArray) {
  const Records records = records_of("\xEF\xBB\xBF [ {\"a\": [1, {\"b\": \"]},\\\"\"}]},\n\n {\"a\":\n 2},{} ]\n", "data.json");
  ASSERT_EQ(records.size(), 3);
  EXPECT_EQ(records.record(0)["a"][1]["b"], "]},\"");
  EXPECT_EQ(records.record(1)["a"], 2);
  EXPECT_THAT(records.where(1), EndsWith("data.json:3"));
  EXPECT_THAT(records.where(2), EndsWith("data.json:4"));
}

TEST_F(RecordsTest, ReadsTables) {
  const std::string_view table =
      "\xEF\xBB\xBFquestion,\"the \"\"answer\"\"\",n\r\n"
      "Who?,\"Oda, of \"\"the cliff\"\"\",3\r\n"
      "\r\n"
      "\"two\r\nlines\n\",x y,\r\n"
      "\"\",5\" wide,\"\"\"\"\n"
      "last,\xC3\xA4,1";
  const std::string error = test::error_of([&] { records_of(table, "odd.csv"); });
  EXPECT_THAT(error, HasSubstr("odd.csv:7: a quotation mark is not closed"));
  const Records records = records_of(std::string(table).replace(table.find("5\" wide"), 7, "5 wide"), "table.csv");
  ASSERT_EQ(records.size(), 4);
  EXPECT_EQ(records.record(0).dump(), R"({"question":"Who?","the \"answer\"":"Oda, of \"the cliff\"","n":"3"})");
  EXPECT_EQ(records.record(1).dump(), R"({"question":"two\r\nlines\n","the \"answer\"":"x y","n":null})");
  EXPECT_EQ(records.record(2).dump(), R"({"question":null,"the \"answer\"":"5 wide","n":"\""})");
  EXPECT_EQ(records.record(3)["the \"answer\""], "\xC3\xA4");
  EXPECT_THAT(records.where(1), EndsWith("table.csv:4"));
  EXPECT_THAT(records.where(2), EndsWith("table.csv:7"));
  EXPECT_EQ(records_of("a\tb\n1,2\t3\n", "table.tsv").record(0).dump(), R"({"a":"1,2","b":"3"})");
  EXPECT_EQ(records_of("", "empty.csv").size(), 0);
  EXPECT_EQ(records_of("a,b\n", "header.csv").size(), 0);
}

TEST_F(RecordsTest, NamesWhatIsWrongInATable) {
  const auto error_of = [&](std::string_view text) { return test::error_of([&] { records_of(text, "t.csv").record(0); }); };
  EXPECT_THAT(error_of("a,b\n\n1\n"), HasSubstr("t.csv:3: the row has 1 fields, the first row names 2 columns"));
  EXPECT_THAT(error_of("a,b\n1,2,3\n"), HasSubstr("t.csv:2: the row has 3 fields"));
  EXPECT_THAT(error_of("a,b,a\n1,2,3\n"), HasSubstr("t.csv:1: column 'a' is there twice"));
  EXPECT_THAT(error_of("a,b\n1,\"2\"x\n"), HasSubstr("t.csv:2: field 2 has a quotation mark in its middle"));
  EXPECT_THAT(error_of("a,b\n1,\xFF\n"), HasSubstr("t.csv:2: invalid UTF-8 at byte 6 of the file"));
}

/// Whatever separators and quotation marks do, a table is read or refused; and what is written by the rules is read back.
TEST_F(RecordsTest, TablesOfRandomFields) {
  std::mt19937 random(3);
  const std::string_view alphabet = "a\",\n\r\xC3\xA4";
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> fields(4);
    std::string noise = "x,y\n", table = "x,y\n";
    for (std::string& field : fields) {
      for (std::uint32_t length = random() % 6; length > 0; --length) noise += alphabet[random() % alphabet.size()];
      for (std::uint32_t length = random() % 6; length > 0; --length) field += alphabet[random() % (alphabet.size() - 2)];
      std::string quoted;
      for (const char character : field) quoted += std::string(character == '"' ? 2 : 1, character);
      table += "\"" + quoted + "\"" + (&field == &fields[1] || &field == &fields[3] ? "\r\n" : ",");
    }
    const Records records = records_of(table, "fields.csv");
    ASSERT_EQ(records.size(), 2) << table;
    for (std::size_t field = 0; field < fields.size(); ++field) {
      const OrderedJson value = records.record(static_cast<std::int64_t>(field / 2))[field % 2 == 0 ? "x" : "y"];
      EXPECT_EQ(value, fields[field].empty() ? OrderedJson() : OrderedJson(fields[field])) << table;
    }
    try {
      const Records read = records_of(noise, "noise.csv");
      for (std::int64_t index = 0; index < read.size(); ++index) read.record(index);
    } catch (const UserError&) {
    }
  }
}

TEST_F(RecordsTest, JoinsFilesInOrder) {
  test::write_file(directory_ / "a.jsonl", "{\"a\": 1}\n{\"a\": 2}\n");
  test::write_file(directory_ / "b.json", "[{\"a\": 3}]");
  Records records({directory_ / "a.jsonl", directory_ / "b.json"});
  ASSERT_EQ(records.size(), 3);
  EXPECT_EQ(records.record(2)["a"], 3);
  EXPECT_THAT(records.where(2), EndsWith("b.json:1"));
  records.keep(1, 2);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records.record(0)["a"], 2);
}

TEST_F(RecordsTest, EmptyFilesHaveNoRecords) {
  EXPECT_EQ(records_of("").size(), 0);
  EXPECT_EQ(records_of("\n \n").size(), 0);
  EXPECT_EQ(records_of("[]").size(), 0);
}

/// The quick way to some columns, beside the JSON library on objects of every kind.
TEST_F(RecordsTest, TextsAreThoseOfTheWholeRecord) {
  const std::vector<OrderedJson> values = {
      "plain", "", "quote \" and \\ slash / \n\t\b", "\u00e9\U0001F600\u0001", nullptr, 3, {{"b", "]},\""}}, OrderedJson::array({"a", "b"})};
  const std::vector<std::string> columns = {"a", "b", "c d", "\"q\\"};
  std::string lines;
  std::vector<OrderedJson> objects;
  for (std::size_t number = 0; number < 4000; ++number) {
    OrderedJson object = OrderedJson::object();
    for (std::size_t column = 0; column < columns.size(); ++column)
      if (const std::size_t value = number / (std::size_t{1} << (3 * column)) * (column + 1) % 9; value < 8)
        object[columns[(column + number) % 4]] = values[value];
    lines += object.dump(-1, ' ', number % 2 == 0) + "\n";
    objects.push_back(object);
  }
  const Records records = records_of(lines);
  int refused = 0;
  for (std::size_t number = 0; number < objects.size(); ++number) {
    for (const std::string& column : columns) {
      const auto index = static_cast<std::int64_t>(number);
      const auto found = objects[number].find(column);
      if (found == objects[number].end() || found->is_null()) {
        EXPECT_EQ(records.texts(index, std::span(&column, 1)).front(), std::nullopt) << objects[number];
      } else if (found->is_string()) {
        EXPECT_EQ(records.texts(index, std::span(&column, 1)).front(), found->get<std::string>()) << objects[number];
      } else {
        EXPECT_THAT(test::error_of([&] { records.texts(index, std::span(&column, 1)); }), HasSubstr("not text")) << objects[number];
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(RecordsTest, NamesTheLineThatIsWrong) {
  EXPECT_THAT(error_in("{\"a\": 1}\n{\"a\": \n"), HasSubstr("data.jsonl:2: not valid JSON"));
  EXPECT_THAT(error_in("{\"a\": 1}\n[1, 2]\n"), HasSubstr("data.jsonl:2: holds a JSON array, not an object"));
  EXPECT_THAT(error_in("{\"a\": 1, \"a\": 2}\n"), HasSubstr("data.jsonl:1: key \"a\" is given twice"));
  EXPECT_THAT(error_in("{\"a\": 1}\n{\"a\": \"b\xFF\"}\n"), HasSubstr("data.jsonl:2: invalid UTF-8 at byte 17 of the file"));
}

TEST_F(RecordsTest, NamesWhatIsWrongInAnArray) {
  EXPECT_THAT(error_in("[{\"a\": 1},\n{\"a\": \n 1,,\n}]"), HasSubstr("data.jsonl:3: not valid JSON"));
  EXPECT_THAT(error_in("[{\"a\": 1},\n{\"a\": 1}\n"), HasSubstr("data.jsonl:3: not valid JSON: the array does not end"));
  EXPECT_THAT(error_in("[{\"a\": 1},\n{\"a\": \"1}]"), HasSubstr("data.jsonl:2: not valid JSON: the file ends inside this element"));
  EXPECT_THAT(error_in("[{\"a\": 1} {\"a\": 2}]"), HasSubstr("expected ',' or ']'"));
  EXPECT_THAT(error_in("[{\"a\": 1},]"), HasSubstr("an element is missing after the comma"));
  EXPECT_THAT(error_in("[,]"), HasSubstr("an element is missing"));
  EXPECT_THAT(error_in("[] []"), HasSubstr("text follows the array"));
  EXPECT_THAT(error_in("[1, 2]"), HasSubstr("holds a JSON number, not an object"));
}

TEST_F(RecordsTest, AFileThatShrinksIsAnErrorNotACrash) {
  const Records records = records_of("{\"a\": 1}\n{\"a\": 2}\n");
  std::filesystem::resize_file(directory_ / "data.jsonl", 3);
  EXPECT_THAT(test::error_of([&] { records.record(1); }), HasSubstr("data.jsonl: the file has become shorter while it is in use"));
}

TEST_F(RecordsTest, AJsonFileMayBeOneObject) {
  const Records records = records_of("{\n  \"a\": [1,\n 2]\n}\n", "one.json");
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records.record(0)["a"][1], 2);
}

TEST_F(RecordsTest, MissingFile) {
  EXPECT_THAT(test::error_of([&] { Records({directory_ / "none.jsonl"}); }), HasSubstr("none.jsonl"));
}

TEST(TextColumn, WantsText) {
  const Json record = Json::parse(R"({"a": "x", "b": null, "c": 3, "questoin": ""})");
  EXPECT_EQ(text_column(record, "a", "f:1"), "x");
  EXPECT_EQ(text_column(record, "b", "f:1"), std::nullopt);
  EXPECT_EQ(text_column(record, "d", "f:1"), std::nullopt);
  EXPECT_THAT(test::error_of([&] { text_column(record, "c", "f:1"); }), HasSubstr("f:1: column 'c' holds a JSON number, not text"));
  const std::string message = test::error_of([&] { throw_missing_column(record, "question", "f:1"); });
  EXPECT_THAT(message, HasSubstr("f:1: there is no column 'question'"));
  EXPECT_THAT(message, HasSubstr("the columns here are a, b, c, questoin"));
  EXPECT_THAT(message, HasSubstr("did you mean questoin"));
}

}  // namespace
}  // namespace tessera::data
