#pragma once

#include <cstdint>
#include <vector>

#include "tessera/model/spec.h"

namespace tessera::model {

/// The rotary frequencies of one document: position p turns pair i by p · inverse_frequencies[i]; cos and sin are multiplied by attention_factor.
struct RopeFrequencies {
  std::vector<double> inverse_frequencies;  ///< rotary_dim / 2, highest frequency first
  double attention_factor = 1.0;
};

/// The frequencies for a document of `document_length` unpadded tokens (positions 0 … length − 1), in double precision. Formulas: Hugging Face
/// transformers, modeling_rope_utils; yarn: Peng et al. 2023 (arXiv 2309.00071); longrope: Ding et al. 2024 (arXiv 2402.13753).
RopeFrequencies rope_frequencies(const RopeSpec& spec, std::int64_t document_length);

/// Whether the frequencies differ between documents (dynamic, longrope). They then change once, where a document outgrows the original context
/// (longrope), or with every length beyond it (dynamic).
bool depends_on_length(const RopeSpec& spec);

}  // namespace tessera::model
