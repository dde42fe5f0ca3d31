#include "tessera/data/tokenizer/byte_trie.h"

#include <algorithm>

namespace tessera::data {

ByteTrie::ByteTrie(Keys keys) {
  std::erase_if(keys, [](const auto& key) { return key.first.empty(); });
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  roots_.fill(-1);
  // Level by level, so that the children of a node lie side by side; a range of keys shares its first `depth` bytes.
  struct Range {
    std::size_t first, last, depth;
    std::int32_t parent;
  };
  std::vector<Range> queue = {{0, keys.size(), 0, -1}};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const Range range = queue[next];
    std::size_t first = range.first;
    while (first < range.last && keys[first].first.size() == range.depth) nodes_[static_cast<std::size_t>(range.parent)].id = keys[first++].second;
    if (range.parent >= 0) nodes_[static_cast<std::size_t>(range.parent)].first_child = static_cast<std::int32_t>(nodes_.size());
    while (first < range.last) {
      const char byte = keys[first].first[range.depth];
      std::size_t last = first;
      while (last < range.last && keys[last].first[range.depth] == byte) ++last;
      const auto node = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({static_cast<unsigned char>(byte), 0, -1, 0});
      if (range.parent >= 0)
        ++nodes_[static_cast<std::size_t>(range.parent)].num_children;
      else
        roots_[static_cast<unsigned char>(byte)] = node;
      queue.push_back({first, last, range.depth + 1, node});
      first = last;
    }
  }
}

std::int32_t ByteTrie::child(const Node& node, unsigned char byte) const {
  // std::string compares bytes as unsigned, so the children of a node are in the order of their bytes.
  std::int32_t low = node.first_child;
  std::int32_t high = low + node.num_children;
  while (low < high) {
    const std::int32_t middle = (low + high) / 2;
    const unsigned char found = nodes_[static_cast<std::size_t>(middle)].byte;
    if (found == byte) return middle;
    if (found < byte)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

}  // namespace tessera::data
