#include "tessera/config/override.h"

#include <charconv>

#include "tessera/core/text.h"

namespace tessera::config {

namespace {

/// Messages name the key themselves.
Position command_line() { return {std::make_shared<const std::string>("command line"), 0}; }

void set_position(Node& node, const Position& position) {
  node.position = position;
  for (Node& item : node.items) set_position(item, position);
  for (Entry& entry : node.entries) {
    entry.position = position;
    set_position(entry.value, position);
  }
}

/// Only text that opens a flow collection or a quote is YAML syntax; a path, a glob or "a: b" on a command line is just text.
Node parse_value(const std::string& text, const std::string& path) {
  if (text.empty() || std::string_view("[{\"'").find(text.front()) == std::string_view::npos) return Node::scalar(text, command_line());
  Node node = parse_yaml(text, "command line: --" + path);
  set_position(node, command_line());
  return node;
}

bool is_valid_path(const std::string& path) {
  for (const std::string& part : split(path, '.')) {
    if (part.empty()) return false;
  }
  return !path.empty();
}

void add_override(const std::string& path, const std::string& value, std::vector<Override>& overrides, ProblemList& problems) {
  if (!is_valid_path(path)) {
    problems.add({"command line", "--" + path + " is not a path of the recipe", "overrides name a key, as --optimizer.lr 1e-4",
                  "write the names of sections and keys with one dot between two of them"});
    return;
  }
  try {
    overrides.push_back({path, parse_value(value, path)});
  } catch (const UserError& error) {
    problems.add(error);
  }
}

/// A section, or a list where its first item is named; false (and a problem) for any other index.
bool make(Node& node, const std::string& part, const Override& change, ProblemList& problems) {
  const bool is_index = part.find_first_not_of("0123456789") == std::string::npos;
  if (is_index && part != "0") {
    problems.add({to_string(change.value.position), change.path + ": there is no list that has an item before " + part,
                  "indices count from 0, and a list grows by one item at a time", "set item 0 first, or give the whole list, as [FIRST, SECOND]"});
    return false;
  }
  node = Node::map(change.value.position);
  if (is_index) node.kind = Node::Kind::Sequence;
  return true;
}

/// The child that `part` names, made when missing; nullptr (and a problem) when there can be none.
Node* descend(Node& node, const std::string& part, const Override& change, ProblemList& problems) {
  const Position& position = change.value.position;
  if (is_null(node) && !make(node, part, change, problems)) return nullptr;
  if (node.is_map()) return &node.at_or_insert(part, position);
  if (node.is_scalar()) {
    problems.add({to_string(position), change.path + ": cannot set " + part + " inside a plain value (" + to_string(node.position) + ")",
                  "only sections and lists have parts", "override the whole value, for example with {" + part + ": …}"});
    return nullptr;
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (error != std::errc() || end != part.data() + part.size() || index > node.items.size()) {
    problems.add(
        {to_string(position),
         change.path + ": " + part + " is not an index of a list of " + std::to_string(node.items.size()) + " (" + to_string(node.position) + ")",
         "indices count from 0; the length appends",
         node.items.empty() ? "use 0 to add the first item" : "use an index from 0 to " + std::to_string(node.items.size())});
    return nullptr;
  }
  if (index == node.items.size()) node.items.emplace_back();
  return &node.items[index];
}

}  // namespace

std::vector<Override> parse_overrides(std::span<const std::string> arguments, ProblemList& problems) {
  std::vector<Override> overrides;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() == 2) {
      problems.add({"command line", "unexpected argument \"" + argument + "\"", "overrides are --section.key VALUE, --section.key=VALUE or --flag",
                    "begin it with --, or join it to the value before it within quotes"});
      continue;
    }
    const std::size_t equals = argument.find('=');
    const bool value_follows = equals == std::string::npos && i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    if (equals != std::string::npos) {
      add_override(argument.substr(2, equals - 2), argument.substr(equals + 1), overrides, problems);
    } else if (value_follows) {
      add_override(argument.substr(2), arguments[++i], overrides, problems);
    } else {
      add_override(argument.substr(2), "true", overrides, problems);
    }
  }
  return overrides;
}

void apply_overrides(Node& root, std::span<const Override> overrides, ProblemList& problems) {
  for (const Override& change : overrides) {
    Node* node = &root;
    for (const std::string& part : split(change.path, '.')) {
      node = descend(*node, part, change, problems);
      if (!node) break;
    }
    if (node) *node = change.value;
  }
}

}  // namespace tessera::config
