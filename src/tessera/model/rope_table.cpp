#include "tessera/model/rope_table.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "tessera/model/rope.h"
#include "tessera/ops/cpu/parallel.h"

namespace tessera::model {
namespace {

/// A run of tokens of one row that share their frequencies.
struct Segment {
  std::int64_t begin, end;  ///< indices into the flattened batch
  std::int64_t length;      ///< the document's unpadded length
};

/// Unpadded tokens of one document of a row.
std::int64_t document_length(const Inputs& inputs, std::size_t row, std::size_t document) {
  if (inputs.document_starts.empty()) return inputs.lengths[row];
  const auto& starts = inputs.document_starts[row];
  return (document + 1 == starts.size() ? inputs.lengths[row] : starts[document + 1]) - starts[document];
}

/// Where rows are split: the tokens at hand.
std::vector<Segment> segments_of_runs(const Inputs& inputs) {
  std::vector<Segment> result;
  const TokenRuns& runs = inputs.runs_of_ranks[static_cast<std::size_t>(inputs.context_rank)];
  for (std::size_t row = 0; row < runs.size(); ++row) {
    for (const TokenRun& run : runs[row]) {
      const std::int64_t begin = static_cast<std::int64_t>(row) * inputs.length() + run.place;
      result.push_back({begin, begin + run.length, document_length(inputs, row, static_cast<std::size_t>(run.document))});
    }
  }
  return result;
}

std::vector<Segment> segments(const Inputs& inputs) {
  if (!inputs.runs_of_ranks.empty()) return segments_of_runs(inputs);
  std::vector<Segment> result;
  const std::int64_t width = inputs.length();
  for (std::int64_t row = 0; row < inputs.num_rows(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    if (inputs.document_starts.empty()) {
      result.push_back({row * width, (row + 1) * width, document_length(inputs, index, 0)});
      continue;
    }
    const auto& starts = inputs.document_starts[index];
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const bool last = i + 1 == starts.size();
      const std::int64_t end = last ? width : starts[i + 1];
      result.push_back({row * width + starts[i], row * width + end, document_length(inputs, index, i)});
    }
  }
  return result;
}

template <class T>
void fill(const Segment& segment, const RopeFrequencies& frequencies, const std::int64_t* positions, T* cosines, T* sines) {
  const auto half = static_cast<std::int64_t>(frequencies.inverse_frequencies.size());
  ops::cpu::parallel_for(segment.begin, segment.end, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = first; token < last; ++token) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(positions[token]) * frequencies.inverse_frequencies[static_cast<std::size_t>(i)];
        cosines[token * half + i] = static_cast<T>(std::cos(angle) * frequencies.attention_factor);
        sines[token * half + i] = static_cast<T>(std::sin(angle) * frequencies.attention_factor);
      }
    }
  });
}

}  // namespace

ops::RopeTable rope_table(const RopeSpec& spec, const Inputs& inputs, at::ScalarType dtype) {
  const std::int64_t tokens = inputs.num_rows() * inputs.length();
  const at::Tensor positions = inputs.position_ids_BT.contiguous();
  // Padding between the runs of a split row is in no segment.
  ops::RopeTable table{at::zeros({tokens, spec.rotary_dim / 2}, dtype), at::zeros({tokens, spec.rotary_dim / 2}, dtype)};
  const auto fill_segment = [&](const Segment& segment) {
    const RopeFrequencies frequencies = rope_frequencies(spec, segment.length);
    if (dtype == at::kDouble) {
      fill(segment, frequencies, positions.data_ptr<std::int64_t>(), table.cosines_NR.data_ptr<double>(), table.sines_NR.data_ptr<double>());
    } else {
      fill(segment, frequencies, positions.data_ptr<std::int64_t>(), table.cosines_NR.data_ptr<float>(), table.sines_NR.data_ptr<float>());
    }
  };
  if (depends_on_length(spec)) {
    for (const Segment& segment : segments(inputs)) fill_segment(segment);
  } else {
    fill_segment({0, tokens, inputs.length()});
  }
  const at::Device device = inputs.input_ids_BT.device();
  return {table.cosines_NR.to(device), table.sines_NR.to(device)};
}

}  // namespace tessera::model
