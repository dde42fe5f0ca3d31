#include <cmath>
#include <limits>

#include "support/support.h"
#include "tessera/config/node.h"
#include "tessera/core/json.h"

namespace tessera::config {
namespace {

double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return value == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

/// scalars.json: what PyYAML makes of each text, followed by Python literals inside what stayed text.
TEST(Scalar, ReadsAsPythonDoes) {
  for (const Json& expected : read_json_file(test::test_data("config/scalars.json"))) {
    const auto text = expected["text"].get<std::string>();
    const Node node = Node::scalar(text, {}, expected["quoted"].get<bool>());
    const auto type = expected["type"].get<std::string>();
    SCOPED_TRACE(expected.dump());
    EXPECT_EQ(is_null(node), type == "null");
    if (text != "TRUE" && text != "NONE") {
      EXPECT_EQ(as_bool(node).has_value(), type == "bool");
    }
    if (type == "bool") {
      EXPECT_EQ(as_bool(node), expected["value"].get<bool>());
    }
    if (type == "int") {
      EXPECT_EQ(as_int(node), expected["value"].get<std::int64_t>());
    }
    EXPECT_EQ(as_double(node).has_value(),
              type == "int" || type == "float" || text == ".inf" || text == "-.inf" || text == ".Inf" || text == ".nan" || text == ".NaN");
    if (type != "float") continue;
    const double value = number_of(expected["value"]);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(*as_double(node)));
    } else {
      EXPECT_EQ(as_double(node), value);
    }
  }
}

TEST(Scalar, WholeFloatsAreIntegersAndOthersAreNot) {
  EXPECT_EQ(as_int(Node::scalar("1e6", {})), 1'000'000);
  EXPECT_EQ(as_int(Node::scalar("3.0", {})), 3);
  EXPECT_EQ(as_int(Node::scalar("3.5", {})), std::nullopt);
  EXPECT_EQ(as_int(Node::scalar("1e300", {})), std::nullopt);
  EXPECT_EQ(as_int(Node::scalar("9223372036854775808", {})), std::nullopt);
}

TEST(Scalar, LeadingZerosAreNotGuessed) {
  // Octal in YAML 1.1, decimal in 1.2.
  EXPECT_EQ(as_int(Node::scalar("010", {})), std::nullopt);
  EXPECT_EQ(as_double(Node::scalar("-010", {})), std::nullopt);
  EXPECT_EQ(as_double(Node::scalar("00.5", {})), 0.5);
  EXPECT_EQ(as_int(Node::scalar("0", {})), 0);
}

TEST(Scalar, TextIsWhatIsNotNull) {
  EXPECT_EQ(as_string(Node::scalar("none", {}, true)), std::nullopt);
  EXPECT_EQ(as_string(Node::scalar("", {}, true)), "");
  EXPECT_EQ(as_string(Node::scalar("12", {})), "12");
  EXPECT_EQ(as_string(Node::map({})), std::nullopt);
}

}  // namespace
}  // namespace tessera::config
