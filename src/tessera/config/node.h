#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::config {

/// Where a node was written: a file and a line (from 1), or a description such as "command line" and line 0.
struct Position {
  std::shared_ptr<const std::string> source;
  int line = 0;
};
/// "recipe.yaml:14", "command line", or "" when nothing is known.
std::string to_string(const Position& position);

struct Entry;

/// One node of a YAML document: owned, with its position. Aliases are copied out and merge keys (`<<`) resolved while reading.
/// A scalar keeps its raw text; code that needs a type asks for it (as_int, as_double, …).
struct Node {
  enum class Kind : std::uint8_t { Null, Scalar, Sequence, Map };
  Kind kind = Kind::Null;
  bool quoted = false;                     ///< the scalar stood in quotes (or was a block scalar)
  std::string text;                        ///< of a scalar, after interpolation
  std::optional<std::string> placeholder;  ///< of an interpolated scalar: the text as written, which is what is printed and saved
  std::vector<Node> items;                 ///< of a sequence
  std::vector<Entry> entries;              ///< of a map, in the order written; keys are unique
  Position position;

  static Node scalar(std::string text, Position position, bool quoted = false);
  static Node map(Position position);

  bool is_map() const { return kind == Kind::Map; }
  bool is_sequence() const { return kind == Kind::Sequence; }
  bool is_scalar() const { return kind == Kind::Scalar; }

  /// The entry's value, or nullptr. Only for maps; anything else has no entries.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// The value under `key`, made (as null) when it is missing.
  Node& at_or_insert(std::string_view key, const Position& position);
};

struct Entry {
  std::string key;
  Node value;
  Position position;  ///< of the key
};

/// The node at a dotted path ("optimizer.betas.0"), or nullptr.
const Node* find_path(const Node& root, std::string_view dotted_path);
/// Position of the deepest node of the path that exists: for messages about values that may be defaults.
std::string where(const Node& root, std::string_view dotted_path);

/// Limits on YAML, which is untrusted input: bytes of text, nodes after aliases are copied out, nesting.
struct YamlLimits {
  std::size_t bytes = std::size_t{4} << 20;
  std::size_t nodes = 200'000;
  int depth = 64;
};

/// Parses one YAML document. `source` names it in positions. An empty document is a null node.
/// Throws UserError (source:line) for malformed YAML, a key given twice, a non-scalar key, several documents, or a limit passed.
Node parse_yaml(std::string_view text, const std::string& source, const YamlLimits& limits = {});
Node read_yaml_file(const std::filesystem::path& path);

// Scalars as NeMo AutoModel reads them (PyYAML first, then Python literals inside strings): `1e-5` and "1e-8" are numbers, `none` is null.

/// null, ~, empty, and the strings none / None, quoted or not.
bool is_null(const Node& node);
/// true/false in any usual case, also quoted; yes/no/on/off when not quoted.
std::optional<bool> as_bool(const Node& node);
/// Decimal (underscores between digits allowed), 0x…, 0o…; also a float without fraction such as 1e6. Nothing when it does not fit.
std::optional<std::int64_t> as_int(const Node& node);
/// Any number, also inf / .inf / nan.
std::optional<double> as_double(const Node& node);
/// The text of any scalar that is not null.
std::optional<std::string> as_string(const Node& node);

/// The tree as JSON, scalars typed as above (quoted text stays text unless it is none/true/false or a number, as AutoModel does).
Json to_json(const Node& node);

}  // namespace tessera::config
