#include "tessera/config/node.h"

#include "support/support.h"

namespace tessera::config {
namespace {

TEST(Node, PathsLeadThroughMapsAndLists) {
  const Node root = parse_yaml("optimizer:\n  betas: [0.9, 0.95]\nname: x\n", "r.yaml");
  ASSERT_NE(find_path(root, "optimizer.betas.1"), nullptr);
  EXPECT_EQ(find_path(root, "optimizer.betas.1")->text, "0.95");
  EXPECT_EQ(find_path(root, "optimizer.betas.2"), nullptr);
  EXPECT_EQ(find_path(root, "optimizer.betas.x"), nullptr);
  EXPECT_EQ(find_path(root, "name.x"), nullptr);
}

TEST(Node, PositionsAreThoseOfTheDeepestNodeThatExists) {
  const Node root = parse_yaml("a:\n  b:\n    c: 1\n", "r.yaml");
  EXPECT_EQ(where(root, "a.b.c"), "r.yaml:3");
  EXPECT_EQ(where(root, "a.b.missing"), "r.yaml:3");
  EXPECT_EQ(where(root, "missing"), "r.yaml:1");
  EXPECT_EQ(to_string(Position{}), "");
}

TEST(Node, BecomesJson) {
  const Node root = parse_yaml("a: 1\nb: 1e-5\nc: none\nd: 'x'\ne: [yes, \"1e-8\", {f: 0x10}]\n", "r.yaml");
  EXPECT_EQ(to_json(root), Json::parse(R"({"a": 1, "b": 1e-5, "c": null, "d": "x", "e": [true, 1e-8, {"f": 16}]})"));
}

TEST(Node, InsertFindsOrMakes) {
  Node root = Node::map({});
  root.at_or_insert("a", {}) = Node::scalar("1", {});
  root.at_or_insert("a", {}).text = "2";
  root.at_or_insert("b", {});
  ASSERT_EQ(root.entries.size(), 2U);
  EXPECT_EQ(root.find("a")->text, "2");
  EXPECT_TRUE(is_null(*root.find("b")));
}

}  // namespace
}  // namespace tessera::config
