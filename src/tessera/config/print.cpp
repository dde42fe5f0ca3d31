#include "tessera/config/print.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "tessera/config/interpolate.h"

namespace tessera::config {

namespace {

bool is_plain_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_./-+~$%=()<>^;@*!&|? ").find(c) != std::string_view::npos;
}

/// Text that surely reads back as it stands without quotes: a number, a word, a path. Quotes never change what a scalar means here, so all else gets
/// them.
bool is_plain(std::string_view text) {
  if (text.empty() || text.back() == ' ') return false;
  const bool negative_number = text.front() == '-' && text.size() > 1 && std::isdigit(static_cast<unsigned char>(text[1]));
  if (!std::isalnum(static_cast<unsigned char>(text.front())) && std::string_view("_./~$<(").find(text.front()) == std::string_view::npos &&
      !negative_number) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool inner_colon = text[i] == ':' && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1]));
    if (!is_plain_character(text[i]) && !inner_colon) return false;
  }
  return text != "...";
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string scalar_text(const Node& node) {
  const std::string& text = node.placeholder ? *node.placeholder : node.text;
  return !node.quoted && is_plain(text) ? text : quote(text);
}

bool is_empty_collection(const Node& node) { return node.items.empty() && node.entries.empty(); }
bool is_leaf(const Node& node) { return node.kind == Node::Kind::Null || node.is_scalar() || is_empty_collection(node); }

std::string leaf_text(const Node& node) {
  if (node.kind == Node::Kind::Null) return "null";
  if (node.is_map()) return "{}";
  if (node.is_sequence()) return "[]";
  // An unquoted empty scalar is null; written as such it cannot be taken for a forgotten value.
  return node.text.empty() && !node.quoted && !node.placeholder ? "null" : scalar_text(node);
}

bool all_leaves(const Node& node) { return std::ranges::all_of(node.items, is_leaf); }

std::string flow_list(const Node& node) {
  std::string result = "[";
  for (const Node& item : node.items) {
    if (result.size() > 1) result += ", ";
    result += leaf_text(item);
  }
  return result + "]";
}

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void entries(const Node& map, int indent, bool secret) {
    for (const Entry& entry : map.entries) {
      out_.append(static_cast<std::size_t>(indent), ' ');
      out_ += is_plain(entry.key) ? entry.key : quote(entry.key);
      out_ += ':';
      value(entry.value, indent, secret || is_secret(entry.key));
    }
  }

  /// A secret is shown only when nothing of it stands in the recipe: when its text is one ${…} without a default.
  static bool is_hidden(const Node& node) {
    const std::string& written = node.placeholder ? *node.placeholder : node.text;
    const bool is_placeholder = written.starts_with("${") && written.find('}') == written.size() - 1 && written.find(',') == std::string::npos;
    return node.is_scalar() && !is_null(node) && !is_placeholder;
  }

  /// What follows "key:" or "-".
  void value(const Node& node, int indent, bool secret) {
    if (is_leaf(node)) {
      out_ += ' ' + (secret && is_hidden(node) ? std::string("\"******\"") : leaf_text(node)) + '\n';
    } else if (node.is_map()) {
      out_ += '\n';
      entries(node, indent + 2, secret);
    } else if (all_leaves(node) && !secret) {
      out_ += ' ' + flow_list(node) + '\n';
    } else {
      out_ += '\n';
      items(node, indent + 2, secret);
    }
  }

  void items(const Node& list, int indent, bool secret) {
    for (const Node& item : list.items) {
      out_.append(static_cast<std::size_t>(indent), ' ');
      out_ += '-';
      value(item, indent, secret);
    }
  }

 private:
  std::string out_;
};

}  // namespace

std::string print_yaml(const Node& root) {
  Printer printer;
  if (root.is_map() && !root.entries.empty()) {
    printer.entries(root, 0, false);
    return printer.take();
  }
  if (root.is_sequence() && !root.items.empty()) {
    printer.items(root, 0, false);
    return printer.take();
  }
  return leaf_text(root) + "\n";
}

}  // namespace tessera::config
