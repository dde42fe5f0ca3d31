#pragma once

#include <string>
#include <vector>

namespace tessera::test {

/// Parts of parameters' names (TrainingCase::frozen) of models with four layers: first and last units, whole units between, a part of every unit,
/// everything that a pipeline's first or last stage has, all but the head and the norm before it.
inline const std::vector<std::vector<std::string>> kFrozen = {{"embedding."},
                                                              {"layers.1."},
                                                              {"norm", "bias"},
                                                              {"query_", "key_value_", "experts.", "gate_up"},
                                                              {"router", "shared", "down."},
                                                              {"embedding.", "layers.0.", "layers.1."},
                                                              {"layers.2.", "layers.3.", "final_norm", "head"},
                                                              {"layers.", "embedding."}};

}  // namespace tessera::test
