#include "tessera/config/node.h"

#include <algorithm>
#include <charconv>

#include "tessera/core/text.h"

namespace tessera::config {

std::string to_string(const Position& position) {
  if (!position.source) return "";
  return position.line > 0 ? *position.source + ":" + std::to_string(position.line) : *position.source;
}

Node Node::scalar(std::string text, Position position, bool quoted) {
  Node node;
  node.kind = Kind::Scalar;
  node.quoted = quoted;
  node.text = std::move(text);
  node.position = std::move(position);
  return node;
}

Node Node::map(Position position) {
  Node node;
  node.kind = Kind::Map;
  node.position = std::move(position);
  return node;
}

const Node* Node::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &found->value;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Node& Node::at_or_insert(std::string_view key, const Position& position) {
  if (Node* found = find(key)) return *found;
  Node value;
  value.position = position;
  entries.push_back({std::string(key), std::move(value), position});
  return entries.back().value;
}

namespace {

const Node* child(const Node& node, std::string_view part) {
  if (!node.is_sequence()) return node.find(part);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  const bool whole = error == std::errc() && end == part.data() + part.size();
  return whole && index < node.items.size() ? &node.items[index] : nullptr;
}

}  // namespace

const Node* find_path(const Node& root, std::string_view dotted_path) {
  const Node* node = &root;
  for (const std::string& part : split(dotted_path, '.')) {
    node = child(*node, part);
    if (!node) return nullptr;
  }
  return node;
}

std::string where(const Node& root, std::string_view dotted_path) {
  const Node* node = &root;
  for (const std::string& part : split(dotted_path, '.')) {
    const Node* next = child(*node, part);
    if (!next) break;
    node = next;
  }
  return to_string(node->position);
}

}  // namespace tessera::config
