#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// Which of many byte strings begin a text. Immutable.
class ByteTrie {
 public:
  ByteTrie() : ByteTrie(std::vector<std::pair<std::string, TokenId>>{}) {}
  /// Empty keys are left out; of equal keys the last one's id counts.
  explicit ByteTrie(std::vector<std::pair<std::string, TokenId>> keys);

  /// Calls `take(length in bytes, id)` for every key that `text` begins with, shortest first.
  template <class Take>
  void for_each_prefix(std::string_view text, const Take& take) const {
    if (text.empty()) return;
    std::int32_t node = roots_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node >= 0; ++length) {
      const Node& here = nodes_[static_cast<std::size_t>(node)];
      if (here.id >= 0) take(length, here.id);
      if (length == text.size()) return;
      node = child(here, static_cast<unsigned char>(text[length]));
    }
  }
  bool may_begin(unsigned char byte) const { return roots_[byte] >= 0; }
  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    unsigned char byte = 0;
    std::uint16_t num_children = 0;
    TokenId id = -1;
    std::int32_t first_child = 0;
  };
  using Keys = std::vector<std::pair<std::string, TokenId>>;
  std::int32_t child(const Node& node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::array<std::int32_t, 256> roots_{};
};

}  // namespace tessera::data
