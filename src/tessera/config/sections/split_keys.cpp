#include <numeric>

#include "tessera/config/sections/read.h"
#include "tessera/config/split.h"

namespace tessera::config {

Key<Dataset> split_key() {
  return {"split", [](const Scope& scope, const Node& node, Dataset& section) {
            field("split", &Dataset::split).read(scope, node, section);
            if (is_null(node) || !node.is_scalar()) return;
            if (node.text.find('+') != std::string::npos)
              return scope.unsupported(node, shown(scope, node), Support::NotSupported, "a data set is one split",
                                       "name one split, or the files of both as the data set");
            const auto slice = parse_slice(node.text);
            if (!slice)
              return scope.mistake(node, shown(scope, node) + " is not a split", "a split is a name with an optional slice",
                                   "write for example train, train[:128] or train[:10%]");
            if (keeps_nothing(*slice))
              scope.mistake(node, shown(scope, node) + " keeps no samples",
                            "a slice begins at the first sample that it keeps and ends before another",
                            "write the smaller number first, as in train[100:200]");
          }};
}

Key<Dataset> shares_key() {
  return {"split", [](const Scope& scope, const Node& node, Dataset& section) {
            field("split", &Dataset::split).read(scope, node, section);
            if (is_null(node) || !node.is_scalar()) return;
            const auto shares = parse_shares(node.text);
            if (shares && std::accumulate(shares->begin(), shares->end(), 0.0) > 0.0) return;
            scope.mistake(node, shown(scope, node) + (shares ? " sums to zero" : " is not up to three shares"),
                          "shares of training, validation and test", "write for example 900,50,50");
          }};
}

}  // namespace tessera::config
