// yaml-cpp's event interface instead of its Node: it tells quoted from plain scalars, gives every position, and leaves aliases, duplicate keys and
// size limits to us, so that a small hostile file cannot become a large tree.
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "tessera/config/node.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/text.h"

namespace tessera::config {

namespace {

/// YAML itself reads keys of up to 1024 characters as written; escaped, these still fit.
constexpr std::size_t longest_key = 200;

/// Keys are looked up one after another; more of them in one section is no recipe.
constexpr std::size_t most_keys = 2000;

/// What a subtree costs: nodes, and bytes of text.
struct Cost {
  std::size_t nodes = 0;
  std::size_t text = 0;
};

/// A container whose end has not come yet, or (kind Map) the entry whose value has not come yet.
struct Frame {
  Node node;
  std::size_t anchor = 0;
  Cost cost_before;
  std::optional<Entry> pending;  ///< of a map: the key read last
  std::vector<Node> merged;      ///< of a map: values of `<<`
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& source, const YamlLimits& limits) : source_(std::make_shared<const std::string>(source)), limits_(limits) {}

  Node take_root() { return std::move(root_); }
  Position position(const YAML::Mark& mark) const { return {source_, mark.line + 1}; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.position = position(mark);
    finish_leaf(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    check_tag(
        mark, tag,
        {"?", "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"});
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    finish_leaf(Node::scalar(value, position(mark), quoted), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      fail(position(mark), "an alias refers to the node that contains it", "aliases are copied, so they cannot be circular",
           "write out what is meant there");
    spend(found->second.cost, position(mark));
    attach(Node(found->second.node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    check_tag(mark, tag, {"?", "!", "tag:yaml.org,2002:seq"});
    open(Node::Kind::Sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    check_tag(mark, tag, {"?", "!", "tag:yaml.org,2002:map"});
    open(Node::Kind::Map, mark, anchor);
  }
  void OnMapEnd() override {
    merge_into_top();
    close();
  }

 private:
  struct Anchored {
    Node node;
    Cost cost;
  };

  [[noreturn]] void fail(const Position& position, std::string what, std::string rule, std::string fix) const {
    throw UserError({to_string(position), std::move(what), std::move(rule), std::move(fix)});
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag, std::initializer_list<std::string_view> allowed) const {
    if (tag.empty()) return;
    for (const std::string_view name : allowed) {
      if (tag == name) return;
    }
    fail(position(mark), "YAML tag " + tag + " is not supported", "a recipe holds plain scalars, lists and maps", "remove the tag");
  }

  /// Counts what is about to be held in the tree and refuses what passes the limits.
  void spend(const Cost& cost, const Position& position) {
    spent_.nodes += cost.nodes;
    spent_.text += cost.text;
    if (spent_.nodes > limits_.nodes) {
      fail(position, "the document has more than " + std::to_string(limits_.nodes) + " nodes", "aliases count as often as they are used",
           "use fewer aliases");
    }
    if (spent_.text > 8 * limits_.bytes)
      fail(position, "the document grows too large through aliases", "aliases count as often as they are used", "use fewer aliases");
  }

  void open(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (stack_.size() >= static_cast<std::size_t>(limits_.depth)) {
      fail(position(mark), "nesting is deeper than " + std::to_string(limits_.depth), "a recipe is a few levels deep",
           "is a bracket or an indentation wrong?");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.position = position(mark);
    frame.anchor = anchor;
    frame.cost_before = spent_;
    spend({1, 0}, frame.node.position);
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    remember(frame.anchor, frame.node, {spent_.nodes - frame.cost_before.nodes, spent_.text - frame.cost_before.text});
    attach(std::move(frame.node));
  }

  void finish_leaf(Node node, std::size_t anchor) {
    const Cost cost{1, node.text.size()};
    spend(cost, node.position);
    remember(anchor, node, cost);
    attach(std::move(node));
  }

  /// Keeps a copy for aliases; the copy counts too, or nested anchors would multiply memory unseen.
  void remember(std::size_t anchor, const Node& node, const Cost& cost) {
    if (anchor == 0) return;
    spend(cost, node.position);
    anchors_[anchor] = {node, cost};
  }

  void attach(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.is_sequence()) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.pending) {
      parent.pending = key_of(parent, node);
    } else if (parent.pending->key == "<<" && !parent.pending->value.quoted) {
      parent.merged.push_back(std::move(node));
      parent.pending.reset();
    } else {
      parent.pending->value = std::move(node);
      parent.node.entries.push_back(std::move(*parent.pending));
      parent.pending.reset();
    }
  }

  /// An entry without value yet; its `value` holds the key's node until then (attach asks whether it was quoted).
  Entry key_of(const Frame& map, const Node& key) const {
    if (!key.is_scalar()) fail(key.position, "a key must be a plain word", "recipes have neither empty nor compound keys", "write KEY: VALUE");
    if (key.text.size() > longest_key)
      fail(key.position, "a key of " + std::to_string(key.text.size()) + " characters", "a key has at most 200", "is a quote missing?");
    check_room(map.node, key.position);
    for (const Entry& entry : map.node.entries) {
      if (entry.key != key.text) continue;
      fail(key.position, key.text + " is given twice", "a key may stand once in its section; the first is at " + to_string(entry.position),
           "remove one of them");
    }
    return {key.text, key, key.position};
  }

  /// Explicit entries win over merged ones, earlier merges over later ones.
  void merge_into_top() {
    Frame& top = stack_.back();
    for (Node& source : top.merged) {
      if (source.is_map()) {
        merge_map(top.node, source);
        continue;
      }
      if (!source.is_sequence())
        fail(source.position, "<< needs a map or a list of maps", "it merges the entries of other maps into this one", "write <<: *ANCHOR of a map");
      for (Node& item : source.items) {
        if (!item.is_map())
          fail(item.position, "<< needs a map or a list of maps", "it merges the entries of other maps into this one", "write <<: *ANCHOR of a map");
        merge_map(top.node, item);
      }
    }
  }

  void check_room(const Node& map, const Position& position) const {
    if (map.entries.size() >= most_keys)
      fail(position, "a section has more than " + std::to_string(most_keys) + " keys", "a recipe has a few dozen", "is this the right file?");
  }

  void merge_map(Node& into, Node& from) const {
    for (Entry& entry : from.entries) {
      if (into.find(entry.key)) continue;
      check_room(into, entry.position);
      into.entries.push_back(std::move(entry));
    }
  }

  std::shared_ptr<const std::string> source_;
  YamlLimits limits_;
  Cost spent_;
  std::vector<Frame> stack_;
  std::map<std::size_t, Anchored> anchors_;
  Node root_;
};

void check_text(std::string_view text, const std::string& source, const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    throw UserError({source, "the file has " + human_bytes(static_cast<double>(text.size())),
                     "a recipe is at most " + human_bytes(static_cast<double>(limits.bytes)), "is this the right file?"});
  }
  const std::size_t invalid = first_invalid_utf8(text);
  if (invalid == std::string_view::npos && text.find('\0') == std::string_view::npos) return;
  throw UserError({source, "not a text file (byte " + std::to_string(std::min(invalid, text.find('\0'))) + " is not UTF-8 text)", "recipes are UTF-8",
                   "is this the right file?"});
}

}  // namespace

Node parse_yaml(std::string_view text, const std::string& source, const YamlLimits& limits) {
  check_text(text, source, limits);
  TreeBuilder builder(source, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      Node empty;
      empty.position = {std::make_shared<const std::string>(source), 0};
      return empty;
    }
    Node root = builder.take_root();
    TreeBuilder rest(source, limits);
    if (parser.HandleNextDocument(rest)) {
      throw UserError({to_string(rest.take_root().position), "a second YAML document begins", "a recipe is one document", "remove the --- line"});
    }
    return root;
  } catch (const YAML::Exception& error) {
    const std::string at = error.mark.is_null() ? source : to_string(builder.position(error.mark));
    throw UserError({at, "malformed YAML: " + error.msg, "", "check brackets, quotes and indentation (spaces, no tabs) here and above"});
  }
}

Node read_yaml_file(const std::filesystem::path& path) { return parse_yaml(read_text_file(path), path.string()); }

}  // namespace tessera::config
